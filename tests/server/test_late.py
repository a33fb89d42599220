"""Messages that come after a higher score was handled, and stragglers within a window."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import BatchRefused, ConfigurationError, LateMessage
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until

from ..support.background import Background
from ..support.handling import got
from ..support.refused import refused
from .test_dedup import age, drain


def pass_score(seq: Sequencer, score: float, group: str = "g") -> None:
    seq.append("high", group=group, score=score)
    drain(seq)


# -- on_late ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_late", "outcome", "handled", "dead"),
    [
        ("handle", "stored", [("low", True), ("same", False), ("higher", False)], 0),
        ("drop", "dropped", [("same", False), ("higher", False)], 0),
        ("dead_letter", "dead_letter", [("same", False), ("higher", False)], 1),
    ],
)
def test_a_late_message_meets_the_policy(
    make: Callable[..., Sequencer], on_late: Any, outcome: str, handled: list[Any], dead: int
) -> None:
    """The same three messages under each policy; the group itself is gone when they come, its watermark is not."""
    seq = make(on_late=on_late)
    pass_score(seq, 10)
    assert seq.groups() == []
    assert seq.append("low", group="g", score=9.5, id="l").outcome == outcome
    seq.append("same", group="g", score=10)
    seq.append("higher", group="g", score=11)
    seq.append("other", group="h", score=1)
    assert [one for one in drain(seq) if one[0] != "other"] == handled
    assert [letter.message.body for letter in seq.dead()] == ["low"] * dead
    totals = seq.info().totals
    assert (totals["late"], totals["dropped"], totals["dead"]) == (1, outcome == "dropped", dead)
    if dead:
        (letter,) = seq.dead()
        assert (letter.error.type, letter.attempts) == ("TooLate", 0)
        assert "9.5 lies below 10" in letter.error.message
        assert seq.append("low", group="g", score=9.5, id="l").duplicate, "set aside once, not twice"


def test_a_late_message_is_refused_at_append(
    make: Callable[..., Sequencer], server: EmbeddedServer, link: Link
) -> None:
    seq = make(on_late="refuse")
    pass_score(seq, 10)
    with refused(LateMessage, "late_message", id="late", group=("g",)):
        seq.append("low", group="g", score=9, id="late")
    items = [{"body": n, "group": "g", "score": n, "id": n} for n in (11, 3, 12)]
    with refused(BatchRefused, "batch_refused", stored=0) as caught:
        seq.append_many(items)
    assert [(one.index, one.error.code) for one in caught.value.refused] == [(1, "late_message")]
    assert seq.info().backlog == 0, "nothing of the chunk is stored"
    receipt = seq.append_many(items, on_refused="skip")
    assert (receipt.appended, [(one.index, type(one.error)) for one in receipt.refused]) == (2, [(1, LateMessage)])
    with redis.Redis.from_url(server.url) as client, client.pipeline() as pipeline:
        seq.append("low", group="g", score=1, pipeline=pipeline)
        with pytest.raises(redis.ResponseError, match="LATE"):
            pipeline.execute()
    assert drain(seq) == [(11, False), (12, False)]
    assert seq.info().totals["refused"] == seq.info().totals["late"] == 4


@pytest.mark.parametrize("on_late", ["handle", "drop", "dead_letter"])
def test_late_is_also_what_came_while_a_higher_one_was_in_hand(make: Callable[..., Sequencer], on_late: Any) -> None:
    """The append could not know: its watermark stood lower. The claim does."""
    seq = make(on_late=on_late)
    seq.append("high", group="g", score=10)
    with seq.claim() as lease:
        (message,) = lease
        assert seq.append("low", group="g", score=5).outcome == "stored"
        lease.ack(message)
    assert drain(seq) == ([("low", True)] if on_late == "handle" else [])
    assert seq.info().totals["late"] == 1
    assert len(seq.dead()) == (on_late == "dead_letter")
    assert seq.info().backlog == 0


def test_a_watermark_lasts_for_its_window_and_no_longer(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(watermark_window=100), shard_keys(namespace, "jobs", 0)
    pass_score(seq, 10)
    age(link, keys.memory, "watermarks", 99)
    seq.append("low", group="g", score=1)
    assert drain(seq) == [("low", True)]
    age(link, keys.memory, "watermarks", 101)
    seq.append("low", group="g", score=2)
    assert drain(seq) == [("low", False)]


def test_the_memory_for_watermarks_is_bounded(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(watermark_cap=50, dedup_cap=70), shard_keys(namespace, "jobs", 0)
    for start in range(0, 1000, 10):
        seq.append_many({"group": n, "body": n, "score": 5} for n in range(start, start + 10))
        drain(seq)
        for key, size in ((keys.watermarks, "HLEN"), (f"{keys.watermarks}:old", "HLEN")):
            assert link.command(size, key) < 50 + 10
        for key in (keys.dedup, f"{keys.dedup}:old"):
            assert link.command("SCARD", key) < 70 + 10
    seq.append("low", group=999, score=1)
    seq.append("low", group=0, score=1)
    assert sorted(drain(seq)) == [("low", False), ("low", True)], "the newest is known, the oldest forgotten"
    for key in link.command("KEYS", keys.prefix + "*"):
        assert link.command("PTTL", key) == -1, "nothing that an eviction could take"


# -- the reorder window -----------------------------------------------------------------------------------------


def inversions(scores: list[float]) -> int:
    top, count = float("-inf"), 0
    for score in scores:
        count += score < top
        top = max(top, score)
    return count


@pytest.mark.parametrize("window", [0, 0.4])
def test_a_window_puts_stragglers_into_their_place(make: Callable[..., Sequencer], window: float) -> None:
    """Two producers, the second 0.2 s behind, with interleaved scores; consumers run all the time."""
    seq = make(reorder_window=window)
    seen: list[tuple[str, float]] = []
    with Background(seq, lambda message: seen.append((message.group[0], message.score))):
        for n in range(0, 20, 2):
            seq.append_many({"group": group, "body": n, "score": n} for group in "abc")
        if not window:
            wait_until(lambda: len(seen) == 30)
        for n in range(1, 21, 2):
            seq.append_many({"group": group, "body": n, "score": n} for group in "abc")
        wait_until(lambda: len(seen) == 60)
    found = sum(inversions([score for group, score in seen if group == one]) for one in "abc")
    assert (found == 0) == bool(window)


def test_nothing_is_handled_before_its_window_is_over(make: Callable[..., Sequencer]) -> None:
    seq = make(reorder_window=0.3)
    early: list[float] = []

    def handler(message: Message) -> None:
        now_us = message.token  # a tick of the shard's clock, taken with the claim
        early.append((now_us - message.stamp) / 1e6)

    rng = random.Random(1)
    seq.append_many({"group": n % 3, "body": n, "score": rng.random()} for n in range(30))
    assert seq.explain(0).reason == "window"
    assert not seq.claim(), "nothing is ripe"
    seq.consume(handler, until_empty=True)
    assert len(early) == 30
    assert min(early) >= 0.3


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"on_late": "explode"}, "not_a_choice"),
        ({"reorder_window": -1}, "duration_invalid"),
        ({"on_late": "drop", "watermark_window": 0}, "window_needed"),
        ({"sequence": True, "reorder_window": 2}, "not_with_sequence"),
        ({"sequence": True, "on_late": "drop"}, "not_with_sequence"),
    ],
)
def test_unknown_policies_are_refused(
    make: Callable[..., Sequencer], link: Link, namespace: str, options: Any, code: str
) -> None:
    with refused(ConfigurationError, code):
        make(**options)
    assert link.command("KEYS", f"*{namespace}*") == []


def test_policies_that_exclude_each_other_are_refused_across_clients(make: Callable[..., Sequencer]) -> None:
    """One client names one, another the other: the second one is refused, and the first one's policy stays."""
    make(reorder_window=2).connect()
    with refused(ConfigurationError, "option_fixed", name="sequence", before=False, value=True):
        make(sequence=True).connect()
    make("numbers", sequence=True).connect()
    with refused(ConfigurationError, "not_with_sequence", name="reorder_window"):
        make("numbers", reorder_window=2).append(1, group="g", score=1)
    assert make("numbers").policy.reorder_window == 0
    assert make("numbers").policy.watermark_window == 30 * 86_400


def test_a_policy_is_set_by_whoever_names_it_and_found_by_the_others(make: Callable[..., Sequencer]) -> None:
    first = make(dedup_window=5, on_late="drop", shards=3)
    first.connect()
    assert make().policy.dedup_window == 5
    make(dedup_window=7).connect()
    policy = make().policy
    assert (policy.dedup_window, policy.on_late) == (7, "drop")
    pass_score(first, 10)
    make(on_late="handle").connect()
    first.append("low", group="g", score=1)
    assert drain(first) == [("low", True)], "running clients follow at their next call"


def test_a_look_before_does_not_swallow_the_policy(make: Callable[..., Sequencer]) -> None:
    make().connect()
    seq = make(on_late="drop")
    assert seq.info().backlog == 0
    seq.connect()
    assert make().policy.on_late == "drop"


def test_replacing_many_stops_at_a_refused_one_with_nothing_done(make: Callable[..., Sequencer]) -> None:
    seq = make(on_late="refuse")
    pass_score(seq, 5)
    items = [{"body": score, "group": "g", "score": score, "id": f"i{score}"} for score in (6, 1, 7)]
    with refused(BatchRefused, "batch_refused", stored=0) as caught:
        seq.append_many(items, replace=True)
    assert ([one.index for one in caught.value.refused], seq.info().backlog) == ([1], 0)
    assert seq.append_many(items, replace=True, on_refused="skip").appended == 2
    assert seq.append_many([{**items[0], "body": "new"}], replace=True).appended == 1
    assert [message.body for message in seq.peek("g")] == ["new", 7]


def test_views_say_late_as_the_handler_will(seq: Sequencer) -> None:
    pass_score(seq, 5)
    seq.append("low", group="g", score=1, id="low")
    assert [message.late for message in seq.peek("g")] == [True]
    found = got(seq, "g", "low")
    assert found.message is not None
    assert found.message.late
    assert drain(seq) == [("low", True)]


def test_what_changes_nothing_writes_nothing(make: Callable[..., Sequencer], link: Link) -> None:
    seq = make()
    assert seq.unpause() is False
    assert seq.unpause("g") is False
    with pytest.raises(LookupError):
        seq.reschedule("g", "x", delay=1)
    with pytest.raises(LookupError):
        seq.cancel("g", "x")
    assert link.command("KEYS", "*") == []


def test_what_was_dropped_is_not_said_to_be_handled(make: Callable[..., Sequencer], namespace: str) -> None:
    """Without a history only its id is known, as it is of what was handled."""
    seq = make(on_late="drop")
    pass_score(seq, 10)
    seq.append("low", group="g", score=9, id="late")
    found = got(seq, "g", "late")
    said = "without a history only its id is known: it was handled, dropped, skipped or purged; to keep one: "
    assert found.note == f"{said}sequencer configure {seq.queue} --history-window 3d --namespace {namespace}"
