"""Sequences: the producer's own consecutive numbers, and what becomes of holes in them."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import IdConflict, InvalidScore, NotParked, NumberTaken
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from sequencer.values import Gap
from tests.support.handling import Make, consumed, drain_once

from ..support.background import Background
from ..support.refused import refused


def put(seq: Sequencer, *numbers: int, group: str = "g") -> None:
    for number in numbers:
        seq.append(number, group=group, score=number)


def drain(seq: Sequencer) -> list[Any]:
    return [(message.body, "late") if message.late else message.body for message in consumed(seq)]


def test_the_next_number_waits_for_the_one_that_is_missing(make: Make) -> None:
    seq, plain = make("numbers", sequence=True), make("plain")
    for queue in (seq, plain):
        put(queue, *range(1, 6), 7)
        assert drain_once(queue) == ([1, 2, 3, 4, 5] if queue is seq else [1, 2, 3, 4, 5, 7])
        put(queue, 6)
    assert drain(plain) == [(6, "late")]
    assert drain(seq) == [6, 7]


def test_numbers_in_any_order_are_handled_in_theirs(make: Make) -> None:
    seq = make(sequence=True, shards=2)
    put(seq, 3, 2)
    assert drain_once(seq) == []
    seen: list[tuple[str, int]] = []
    with Background(seq, lambda message: seen.append((message.group[0], message.body))):
        put(seq, 9, 1, 5, 7, 6, 4, 8)
        put(seq, 2, 0, 1, group="from zero")
        wait_until(lambda: len(seen) == 12)
    assert [number for group, number in seen if group == "g"] == list(range(1, 10))
    assert [number for group, number in seen if group != "g"] == [0, 1, 2]


def test_a_gap_survives_crashes_and_restarts(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(sequence=True)
    put(seq, 1, 2, 4)
    lease = seq.claim(lease=30)
    messages = iter(lease)
    lease.ack(next(messages))
    assert next(messages).body == 2
    link.command("ZADD", keys.schedule, "XX", "1", "g")  # ... and the process is gone, with 2 in its hands
    assert drain_once(seq) == [2]
    link.command("SCRIPT", "FLUSH")
    assert drain_once(make()) == []
    assert seq.explain("g").reason == "gap"
    put(seq, 3)
    assert drain(seq) == [3, 4]


@pytest.mark.parametrize(("on_gap", "handled"), [("park", []), ("skip", [4, 5])])
def test_a_gap_ends_after_its_timeout(make: Make, on_gap: Any, handled: list[int]) -> None:
    seq = make(sequence=True, gap_timeout=0.2, on_gap=on_gap)
    put(seq, 1, 4, 5)
    assert drain_once(seq) == [1]
    explained = seq.explain("g")
    assert explained.fields.items() >= {"first": 2, "last": 3, "number": 4}.items()
    assert explained.moves_in_s is not None
    began = time.monotonic()
    assert drain(seq) == handled
    assert time.monotonic() - began > 0.05
    assert [info.state for info in seq.groups()] == ["parked"] * (on_gap == "park")
    if on_gap == "park":
        assert "until" not in seq.explain("g").fields, "gap_timeout has passed"
        put(seq, 2, 3)
        assert drain(seq) == [2, 3, 4, 5], "what was missing lets the parked group go on by itself"
    else:
        put(seq, 3)
        assert drain(seq) == [(3, "late")], "skipped, not handled: so it is no duplicate"
        assert seq.append(3, group="g", score=3, id="another").duplicate


def test_skip_steps_over_what_is_missing(make: Make) -> None:
    seq = make(sequence=True)
    put(seq, 1, 2, 6)
    assert drain_once(seq) == [1, 2]
    with refused(NotParked, "number_missing", group=("g",)):
        seq.resume("g")
    assert seq.skip("g") == Gap(("g",), 3, 5)
    assert drain(seq) == [6]
    put(seq, 4, 7)
    assert drain(seq) == [(4, "late"), 7]
    put(seq, 4)
    assert drain(seq) == []
    with pytest.raises(LookupError):
        seq.skip("g")
    put(seq, 9)
    seq.pause("g")
    assert seq.skip("g") == Gap(("g",), 8, 8), "before any timeout, and in a paused group"
    assert drain_once(seq) == []
    seq.unpause("g")
    assert drain(seq) == [9]


def test_a_number_handled_is_a_duplicate_for_as_long_as_the_group_is_known(
    make: Make, link: Link, keys: ShardKeys
) -> None:
    seq = make(sequence=True, dedup_window=0)
    put(seq, 1, 2)
    assert drain(seq) == [1, 2]
    for number in (1, 2):
        assert seq.append("again", group="g", score=number, id=f"other {number}").duplicate
    assert seq.append_many([{"group": "g", "body": n, "score": n} for n in (2, 3)]).duplicates == 1
    assert drain(seq) == [3]
    link.command("HDEL", keys.watermarks, "g")
    assert seq.append("again", group="g", score=1).duplicate is False, "a group that was forgotten begins again"
    assert drain(seq) == ["again"]


def test_the_number_is_the_id_unless_one_is_given(make: Make, server: EmbeddedServer) -> None:
    seq = make(sequence=True)
    assert seq.append("x", group="g", score=5).id == "5"
    assert seq.append("x", group="g", score=5.0).duplicate
    with pytest.raises(IdConflict):
        seq.append("y", group="g", score=5)
    with refused(NumberTaken, "number_taken", number=5, group=("g",)):
        seq.append("x", group="g", score=5, id="other")
    with redis.Redis.from_url(server.url) as client, client.pipeline() as pipeline:
        seq.append("x", group="g", score=5, id="other", pipeline=pipeline)
        with pytest.raises(redis.ResponseError, match="IDCONFLICT"):
            pipeline.execute()
    with pytest.raises(InvalidScore):
        seq.reschedule("g", "5", delay=1, score=3)
    assert [message.id for message in seq.peek("g")] == ["5"]


@pytest.mark.parametrize("on_failure", ["park", "dead_letter", "drop"])
def test_a_number_given_up_counts_as_passed(make: Make, on_failure: Any) -> None:
    seq = make(sequence=True, max_attempts=1, on_failure=on_failure)
    put(seq, 1, 2, 3)
    seen: list[int] = []

    def handler(message: Message) -> None:
        if message.body == 2 and not message.redriven:
            raise ValueError
        seen.append(message.body)

    seq.consume(handler, until_empty=True)
    if on_failure == "park":
        skipped = seq.skip("g")
        assert isinstance(skipped, Message)
        assert skipped.body == 2
        seq.consume(handler, until_empty=True)
    assert seen == [1, 3]
    assert seq.append(2, group="g", score=2).duplicate
    if on_failure == "dead_letter":
        assert seq.redrive("g").redriven == 1
        seq.consume(handler, until_empty=True)
        assert seen == [1, 3, 2]
    put(seq, 4)
    seq.consume(handler, until_empty=True)
    assert seen[-1] == 4
