"""What becomes of a message that can't be handled: parked, set aside and put back into its place, or dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Park, Sequencer
from sequencer.errors import MessageNotFound
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys

from ..support.handling import consumed, got
from ..support.refused import refused


class NoStockError(ValueError):
    """An error of the user's own."""


def fill(seq: Sequencer, group: str = "g", count: int = 4) -> None:
    for n in range(count):
        seq.append({"n": n}, group=group, score=n, id=f"{group}{n}", headers={"h": str(n)})


def run(seq: Sequencer, bad: Callable[[Message], BaseException | None], **options: Any) -> list[tuple[str, int]]:
    """Drain; what was handled, as (id, attempt)."""
    seen: list[tuple[str, int]] = []

    def handler(message: Message) -> None:
        if error := bad(message):
            raise error
        seen.append((message.id, message.attempt))

    seq.consume(handler, until_empty=True, **options)
    return seen


@pytest.mark.parametrize(
    ("on_failure", "handled", "left", "dead"),
    [
        ("park", ["g0"], ["g1", "g2", "g3"], []),
        ("dead_letter", ["g0", "g2", "g3"], [], ["g1"]),
        ("drop", ["g0", "g2", "g3"], [], []),
    ],
)
def test_after_the_last_attempt_the_policy_decides(
    make: Callable[..., Sequencer], on_failure: Any, handled: list[str], left: list[str], dead: list[str]
) -> None:
    """The same poisoned group under each policy: only "park" stops it, only "drop" forgets the message."""
    seq = make(max_attempts=2, backoff=0.01, on_failure=on_failure)
    fill(seq)
    seen = run(seq, lambda message: ValueError("no") if message.id == "g1" else None)
    assert [name for name, _ in seen] == handled
    assert [message.id for message in seq.peek("g")] == left
    assert [letter.message.id for letter in seq.dead()] == dead
    totals = seq.info().totals
    assert (totals["parked"], totals["dead"], totals["dropped"]) == (bool(left), len(dead), on_failure == "drop")


def test_a_dead_letter_keeps_everything(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=3, backoff=0.01, on_failure="dead_letter")
    fill(seq)
    before = seq.peek("g")[2]
    run(seq, lambda message: NoStockError("none left") if message.id == "g2" else None)
    (letter,) = seq.dead()
    kept = letter.message
    assert (kept.id, kept.group, kept.score, kept.stamp) == (before.id, before.group, before.score, before.stamp)
    assert (kept.body, kept.headers) == ({"n": 2}, {"h": "2"})
    assert (letter.attempts, letter.error.type, letter.error.message) == (3, "NoStockError", "none left")
    assert "NoStockError" in letter.error.traceback
    assert 0 <= time.time() - letter.died_at < 60
    found = got(seq, "g", "g2")
    assert (found.state, found.attempts, found.due_in_s) == ("dead", 3, None)
    assert seq.info().dead == 1


@pytest.mark.parametrize("names", [(NoStockError,), ("NoStockError",), (f"{__name__}.NoStockError",), ("ValueError",)])
def test_an_exception_type_decides_at_once(make: Callable[..., Sequencer], names: Any) -> None:
    """Without the option, the same error is retried to the last attempt and parks the group."""
    for option, state in (({"dead_letter_on": names}, "dead"), ({"park_on": names}, "parked"), ({}, "parked")):
        seq = make(f"q{state}{len(option)}", max_attempts=3, backoff=0.01, **option)
        fill(seq)
        attempts: list[str] = []

        def bad(message: Message, attempts: list[str] = attempts) -> BaseException | None:
            attempts.append(message.id)
            return NoStockError("none") if message.id == "g1" else None

        run(seq, bad)
        assert attempts.count("g1") == (1 if option else 3)
        found = got(seq, "g", "g1")
        assert (found.state, found.attempts) == (state, attempts.count("g1"))
        assert bool(seq.parked()) == (state == "parked")


@pytest.mark.parametrize(("on_failure", "state"), [("park", "parked"), ("dead_letter", "dead"), ("drop", "handled")])
def test_a_message_at_which_consumers_die_ends_by_the_same_policy(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, on_failure: Any, state: str
) -> None:
    seq = make(max_attempts=2, on_failure=on_failure)
    fill(seq, count=2)
    for _ in range(2):
        assert next(iter(seq.claim(lease=30))).id == "g0"  # ... and the process is gone
        link.command("ZADD", keys.schedule, "XX", "1", "g")
    seen = run(seq, lambda message: None)
    assert seen == ([] if on_failure == "park" else [("g1", 1)])
    found = got(seq, "g", "g0")
    assert found.state == state
    if state == "dead":
        assert (found.attempts, found.error.type if found.error else "") == (2, "LeaseExpired")


def test_redriven_messages_go_before_everything_behind_them(make: Callable[..., Sequencer]) -> None:
    """Back in its place in a parked group: same id, score and stamp, with fresh attempts."""
    seq = make(max_attempts=1, on_failure="park", dead_letter_on=("ValueError",))
    fill(seq)
    errors = {"g0": ValueError("set aside"), "g1": ValueError("set aside"), "g2": Park("stop")}
    run(seq, lambda message: errors.get(message.id))
    kept = {dead.message.id: dead.message for dead in seq.dead()}
    assert [info.state for info in seq.groups()] == ["parked"]
    done = seq.redrive("g", id="g1")
    assert (done.redriven, done.pending, done.parked) == (1, 0, [("g",)])
    assert seq.redrive("g").redriven == 1
    peeked = seq.peek("g")
    assert [message.id for message in peeked] == ["g0", "g1", "g2", "g3"]
    assert [(m.score, m.stamp, m.attempt) for m in peeked[:2]] == [(kept[i].score, kept[i].stamp, 1) for i in kept]
    assert all(message.redriven for message in peeked[:2])
    seq.resume("g")
    assert [name for name, _ in run(seq, lambda message: None)] == ["g0", "g1", "g2", "g3"]
    assert seq.dead() == []


def test_a_redriven_message_is_late_and_no_policy_gives_it_up_again(make: Callable[..., Sequencer]) -> None:
    seq = make(on_late="dead_letter", dead_letter_on=("ValueError",))
    fill(seq)
    run(seq, lambda message: ValueError() if message.id == "g1" else None)
    assert seq.redrive(id="g1").redriven == 1
    assert [(m.id, m.late, m.redriven) for m in consumed(seq)] == [("g1", True, True)]


def test_redrive_chooses_by_group_id_and_error_and_says_how_many(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1, on_failure="dead_letter", shards=3)
    for group in ("a", "b", "c"):
        fill(seq, group)

    def bad(message: Message) -> BaseException | None:
        return KeyError(message.id) if message.body["n"] == 1 else ValueError("no stock") if message.id > "b" else None

    run(seq, bad)
    assert len(seq.dead()) == seq.info().dead == 9
    assert [letter.message.id for letter in seq.dead("a")] == ["a1"]
    assert len(seq.dead(error="KeyError")) == 3
    assert len(seq.dead(error="ValueError: no*")) == 6
    assert seq.dead(error="Value") == []
    assert seq.redrive(error="KeyError").redriven == 3
    assert seq.redrive("b", error="ValueError").redriven == 3
    assert seq.purge("c", id="c0") == 1
    assert seq.purge(everything=True) == 2
    assert seq.redrive(everything=True).redriven == 0
    totals = seq.info().totals
    assert (totals["dead"], totals["redriven"], totals["purged"]) == (9, 6, 3)
    assert sorted(name for name, _ in run(seq, lambda message: None)) == ["a1", "b0", "b1", "b2", "b3", "c1"]


def test_an_unknown_dead_letter_is_said(seq: Sequencer) -> None:
    for call in (seq.redrive, seq.purge):
        with refused(MessageNotFound, "dead_letter_not_found", id="nobody"):
            call(id="nobody")
    assert seq.info().totals["redriven"] == 0
