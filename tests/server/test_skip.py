"""What a skip takes away: named, made a dead letter, or kept in its shard until the next skip and put back."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import LeaseExpired, MessageNotFound, NotParked
from sequencer.testing import wait_until
from tests.support.handling import Make, consumed, fail
from tests.support.refused import refused


def parked(make: Make, **options: Any) -> Sequencer:
    """Groups g and h, each of messages m1 to m3, parked on the first."""
    seq = make(max_attempts=1, **options)
    for group in "gh":
        seq.append_many({"body": n, "group": group, "id": f"m{n}", "score": n} for n in (1, 2, 3))
    seq.consume(fail, until_empty=True)
    return seq


def drain(seq: Sequencer) -> list[tuple[str, str]]:
    seen = [(message.group[0], message.id) for message in consumed(seq)]
    return sorted(seen)


def test_a_skip_by_id_leaves_another_head_alone(make: Make) -> None:
    seq = parked(make)
    with pytest.raises(NotParked):
        seq.skip("g", id="m2")
    assert [message.id for message in seq.peek("g")] == ["m1", "m2", "m3"]
    assert seq.explain("g").reason == "parked"
    assert seq.skip("g", id="m1").id == "m1"  # type: ignore[union-attr]  # no sequence has a Gap here
    with pytest.raises(NotParked):
        seq.skip("g", id="m1")


def test_a_skipped_message_may_become_a_dead_letter(make: Make) -> None:
    seq = parked(make)
    seq.skip("g", dead_letter=True)
    (letter,) = seq.dead()
    assert (letter.message.id, letter.attempts, letter.error.type) == ("m1", 1, "ValueError")
    totals = seq.info().totals
    assert (totals["dead"], totals["skipped"]) == (1, 0)
    assert seq.append(1, group="g", id="m1", score=1).duplicate, "its id stays known"
    with pytest.raises(MessageNotFound):
        seq.unskip("g")
    assert seq.redrive("g", id="m1").redriven == 1
    assert [message.id for message in seq.peek("g")] == ["m1", "m2", "m3"]


def test_the_last_skipped_message_comes_back_to_its_place(make: Make) -> None:
    seq = parked(make)
    seq.skip("g")
    with pytest.raises(MessageNotFound):
        seq.unskip("h")
    with pytest.raises(MessageNotFound):
        seq.unskip("g", id="m2")
    assert (seq.unskip("g").id, seq.dead()) == ("m1", [])
    assert [(message.id, message.attempt) for message in seq.peek("g")] == [("m1", 1), ("m2", 1), ("m3", 1)]
    with pytest.raises(MessageNotFound):
        seq.unskip("g")


def test_the_next_skip_in_its_shard_takes_its_place(make: Make) -> None:
    seq = parked(make)
    seq.skip("g")
    seq.skip("h")
    with pytest.raises(MessageNotFound):
        seq.unskip("g")
    assert seq.unskip("h").id == "m1"


def test_a_number_that_was_skipped_comes_back_in_a_sequence(make: Make) -> None:
    seq = parked(make, sequence=True)
    seq.skip("g")
    seq.unskip("g")
    assert drain(seq) == [("g", "m1"), ("g", "m2"), ("g", "m3")]


def hanging(seq: Sequencer, lease_s: float) -> None:
    """Messages m1 to m3 of a paused group, in the hands of a holder that stands still."""
    seq.append_many({"body": n, "group": "g", "id": f"m{n}", "score": n} for n in (1, 2, 3))
    assert seq.claim(lease=lease_s)
    seq.pause("g")


@pytest.mark.parametrize("is_looked_at", [False, True], ids=["no consumer", "a consumer"])
@pytest.mark.parametrize("way", ["skip", "dead letter", "cancel", "reschedule"])
def test_a_message_that_hangs_is_taken_away_once_its_lease_ran_out(make: Make, way: str, is_looked_at: bool) -> None:
    seq = make()
    hanging(seq, 0.1)
    wait_until(lambda: seq.explain("g").reason == "paused")
    if is_looked_at:  # it puts a paused group aside
        wait_until(lambda: not seq.claim() and seq.groups()[0].due_in_s is None)
    if way == "cancel":
        seq.cancel("g", "m1")
    elif way == "reschedule":
        seq.reschedule("g", "m1", delay=0, score=9)
    else:
        skipped = seq.skip("g", id="m1", dead_letter=way == "dead letter")
        assert isinstance(skipped, Message)
        assert (skipped.id, skipped.attempt - 1) == ("m1", 1), "as many attempts as its dead letter says"
    dead = [(letter.message.id, letter.error.type, letter.attempts) for letter in seq.dead()]
    assert dead == ([("m1", LeaseExpired.__name__, 1)] if way == "dead letter" else [])
    assert (seq.explain("g").reason, seq.groups()[0].owner) == ("paused", None)
    seq.unpause("g")
    assert drain(seq) == [("g", "m1")] * (way == "reschedule") + [("g", "m2"), ("g", "m3")]


def test_a_skip_takes_the_head_that_hung_rather_than_one_that_failed_before(make: Make) -> None:
    """What has come in front of a failed message since then hangs now; one that came after the claim does not."""
    seq = make(max_attempts=9, backoff=0.0)
    for id, score in (("m2", 2), ("m3", 3)):
        seq.append(id, group="g", id=id, score=score)
    with seq.claim() as lease:
        lease.nack(next(iter(lease)), "no")
    seq.append("m1", group="g", id="m1", score=1)
    wait_until(lambda: seq.claim(lease=0.1))
    seq.pause("g")
    wait_until(lambda: seq.explain("g").reason == "paused")
    assert seq.skip("g").id == "m1"  # type: ignore[union-attr]
    seq.append("m0", group="g", id="m0", score=0)
    with refused(NotParked, "no_failed_head"):
        seq.skip("g")
