"""Scores of many messages brought to one unit: each message comes in its place or is left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import ConfigurationError, InvalidScore

from .test_operate_races import before

NOW_S = 1_795_000_000


def two_units(seq: Sequencer, groups: int) -> None:
    """In each group a message in milliseconds that belongs between two others in seconds."""
    for n in range(groups):
        for id, score in (("first", NOW_S), ("last", NOW_S + 2), ("between", (NOW_S + 1) * 1000)):
            seq.append(id, group=n, id=id, score=score)


def order(seq: Sequencer, group: object) -> list[str]:
    return [message.id for message in seq.peek([str(group)])]


@pytest.mark.parametrize("lanes", [1, 3])
def test_messages_of_many_groups_come_into_their_places(make: Callable[..., Sequencer], lanes: int) -> None:
    seq = make(lanes=lanes)
    two_units(seq, 120)
    asked = seq.rescore(dry_run=True)
    assert (asked.chosen, asked.groups, asked.done, asked.units) == (120, 120, 0, {"milliseconds": 120})
    assert order(seq, 7) == ["first", "last", "between"]
    done = seq.rescore()
    assert (done.chosen, done.done, done.left) == (120, 120, 0)
    assert order(seq, 7) == ["first", "between", "last"]
    assert [message.score for message in seq.peek(["7"])] == [NOW_S, NOW_S + 1, NOW_S + 2]
    assert seq.rescore().chosen == 0, "a rerun has nothing left to do"
    assert not [one for one in seq.doctor() if one.check == "scores"]
    seen: dict[object, list[Any]] = defaultdict(list)
    seq.consume(lambda message: seen[message.group].append(message.body), until_empty=True)
    assert len(seen) == 120
    assert set(map(tuple, seen.values())) == {("first", "between", "last")}


@pytest.mark.parametrize(
    ("unit", "scores"),
    [
        ("seconds", [NOW_S, NOW_S, NOW_S]),
        ("milliseconds", [NOW_S * 1e3] * 3),
        ("microseconds", [NOW_S * 1e6] * 3),
    ],
)
def test_each_unit_may_be_the_one(seq: Sequencer, unit: Any, scores: list[float]) -> None:
    for n, factor in enumerate((1, 1_000, 1_000_000)):
        seq.append(n, group="g", id=n, score=NOW_S * factor)
    assert seq.rescore(unit=unit).done == 2
    assert [message.score for message in seq.peek("g")] == scores


def test_those_of_one_score_keep_their_order_and_who_waits_for_a_time_goes_on_waiting(seq: Sequencer) -> None:
    for n in range(5):
        seq.append(n, group="g", id=n, score=NOW_S * 1000)
    seq.append("timer", group="t", id="timer", score=NOW_S * 1000, delay=3600)
    assert seq.rescore().done == 6
    assert order(seq, "g") == ["0", "1", "2", "3", "4"]
    info = seq.get("t", "timer")
    assert info is not None
    assert info.message is not None
    assert (info.state, info.message.score) == ("delayed", NOW_S)
    assert 3500 < (info.due_in_s or 0) < 3601


def test_what_a_consumer_has_in_hand_is_left_and_a_rerun_takes_the_rest(seq: Sequencer) -> None:
    two_units(seq, 2)
    with seq.claim():
        done = seq.rescore()
        assert (done.chosen, done.done, done.left) == (2, 1, 1)
    assert seq.rescore().done == 1


def test_what_was_handled_meanwhile_is_left(seq: Sequencer, monkeypatch: pytest.MonkeyPatch) -> None:
    two_units(seq, 1)
    before(monkeypatch, "revise", lambda: seq.cancel("0", "between"))
    done = seq.rescore()
    assert (done.chosen, done.done, done.left) == (1, 0, 1)


def test_what_can_not_be_is_refused(make: Callable[..., Sequencer]) -> None:
    numbers = make("numbers", sequence=True)
    numbers.append(1, group="g", score=1)
    with pytest.raises(InvalidScore, match="sequence=True"):
        numbers.rescore()
    with pytest.raises(ConfigurationError, match="unit='hours' must be seconds, milliseconds or microseconds"):
        make().rescore(unit="hours")  # type: ignore[arg-type]
