"""A queue of several lanes: one queue to its users, and counted honestly where a chunk spans lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def test_a_chunk_with_a_conflict_is_not_stored_in_any_lane(make: Callable[..., Sequencer]) -> None:
    seq = make("wide", lanes=4)
    seq.append("old", group=5, id="5")
    items = [{"body": "new", "group": n, "id": str(n)} for n in range(20)]
    for _ in range(2):
        with pytest.raises(BatchRefused, match="'5'") as caught:
            seq.append_many(items)
        assert ([refused.index for refused in caught.value.refused], caught.value.stored) == ([5], 0)
        assert seq.info().backlog == 1
    assert seq.append_many(items, on_refused="skip").appended == 19


def test_an_id_twice_in_a_chunk_over_several_lanes(make: Callable[..., Sequencer]) -> None:
    seq = make("wide", lanes=4)
    items: list[Any] = [{"body": n, "group": n, "id": "x"} for n in range(10)]
    with pytest.raises(BatchRefused):
        seq.append_many([*items, {"body": "other", "group": 3, "id": "x"}])
    assert seq.info().backlog == 0
    assert seq.append_many([*items, items[3]]).duplicates == 1


def test_a_wrong_number_of_lanes_is_said_every_time(make: Callable[..., Sequencer]) -> None:
    make("wide", lanes=4).append(1, group="g")
    wrong = make("wide", lanes=2)
    for call in (lambda: wrong.append(1, group="g"), wrong.info, wrong.claim, wrong.connect):
        with pytest.raises(ConfigurationError, match="4 lanes"):
            call()  # type: ignore[operator]
