"""Ids that come again after their message is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys
from sequencer.testing import MemoryQueue

from ..support.handling import consumed


def drain(seq: Sequencer) -> list[tuple[Any, bool]]:
    """What was handled: body, and whether it was late."""
    return [(message.body, message.late) for message in consumed(seq)]


def age(link: Link, key: str, name: str, seconds: float) -> None:
    """Make what is remembered older, as if that time had passed."""
    for field in ("began", "last", "old"):
        at = link.command("HGET", key, f"{name}:{field}")
        if at:
            link.command("HSET", key, f"{name}:{field}", f"{float(at) - seconds * 1e6:.0f}")


@pytest.mark.parametrize("window", [0, 60])
def test_an_id_stays_known_after_its_message_is_handled(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, window: float
) -> None:
    seq = make(dedup_window=window)
    seq.append("first", group="g", id="x", score=1)
    assert drain(seq) == [("first", False)]
    again = seq.append("first", group="g", id="x", score=1)
    assert (again.duplicate, again.stamp is None) == (bool(window), bool(window))
    assert seq.append("first", group="h", id="x").duplicate is False, "an id belongs to its group"
    assert len(drain(seq)) == (1 if window else 2)
    age(link, keys.memory, "dedup", 50)
    assert seq.append("first", group="g", id="x", score=1).duplicate is bool(window), "within the window it is known"
    drain(seq)
    age(link, keys.memory, "dedup", 11)
    assert seq.append("first", group="g", id="x", score=1).duplicate is False, "after the window it is new"
    drain(seq)


def test_what_was_skipped_set_aside_or_dropped_is_known_too(make: Callable[..., Sequencer]) -> None:
    for on_failure in ("park", "dead_letter", "drop"):
        seq = make(on_failure, max_attempts=1, on_failure=on_failure)
        seq.append(1, group="g", id="x")

        def fail(_: Message) -> None:
            raise ValueError

        seq.consume(fail, until_empty=True)
        if on_failure == "park":
            seq.skip("g")
        assert seq.append(1, group="g", id="x").duplicate
        assert seq.append_many([{"group": "g", "body": 1, "id": i} for i in ("x", "y")]).duplicates == 1
        assert drain(seq) == [(1, False)]
        seq.redrive(everything=True)
        drain(seq)


def test_an_id_is_known_for_five_minutes_unless_asked_and_doctor_tells_what_that_takes(
    make: Callable[..., Sequencer],
) -> None:
    queue = MemoryQueue("jobs")
    queue.append(1, group="g", id="webhook")
    queue.drain(lambda message: None)
    for seconds, is_duplicate in ((299, True), (1, True), (601, False)):
        queue.advance(seconds)
        assert queue.append(1, group="g", id="webhook").duplicate == is_duplicate

    seq = make(dedup_cap=2)
    assert not [one for one in seq.doctor() if one.check == "ids"], "nothing was handled"
    for count, level in ((2, "ok"), (3, "warning")):
        seq.append_many([{"body": 1, "group": "g", "id": f"{count} {n}"} for n in range(count)])
        seq.consume(lambda message: None, until_empty=True, limits=ClaimLimits(messages=1))
        assert [one.level for one in seq.doctor() if one.check == "ids"] == [level]
