"""A queue of several lanes: one queue to its users, and counted honestly where a chunk spans lanes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import BatchRefused, ConfigurationError, Sequencer


def test_many_lanes_share_one_queue(make: Callable[..., Sequencer]) -> None:
    seq = make("wide", lanes=4)
    receipt = seq.append_many({"body": n, "group": n % 40, "score": n} for n in range(2000))
    assert receipt.appended == 2000
    assert seq.info().backlog == 2000
    seen: dict[tuple[str, ...], list[int]] = {}
    seq.consume(lambda message: seen.setdefault(message.group, []).append(message.body), until_empty=True)
    assert len(seen) == 40
    assert all(bodies == sorted(bodies) for bodies in seen.values())
    assert sum(map(len, seen.values())) == 2000
    with pytest.raises(ConfigurationError, match="4 lanes"):
        make("wide", lanes=2).connect()
    assert make("wide").append(1, group="x").duplicate is False


def test_a_conflict_in_one_lane_leaves_the_other_lanes_counted(make: Callable[..., Sequencer]) -> None:
    seq = make("wide", lanes=2)
    seq.append("old", group="a", id="1")
    items = [{"body": "new", "group": g, "id": "1"} for g in ("a", "b", "c", "d")]
    with pytest.raises(BatchRefused) as caught:
        seq.append_many(items)
    assert caught.value.stored == seq.info().backlog - 1
