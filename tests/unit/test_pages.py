"""Pages by place: what stays comes once, whatever comes and goes between two pages and between two round trips."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.net_protocol import Command
from sequencer.queue import places
from sequencer.store.keys import shard_keys

from ..support.listed_net import run

SHARDS = [shard_keys("n", "q", number) for number in range(4)]
MEMBER = st.integers(0, 60).map(lambda number: b"g%02d" % number)
SCORE = st.sampled_from([1.0, 2.0, 3.5, math.inf])
"""Few, so that many members have the same."""
Members = dict[bytes, float]
Changes = list[tuple[set[bytes], Members]]
"""Before each round trip: who goes, and who comes or moves."""


class Schedules:
    """A net that answers as a server would, while others change the schedules of four shards."""

    name = "schedules"

    def __init__(self, members: Members, changes: Changes) -> None:
        self.shards: dict[str, Members] = defaultdict(dict)
        self.changes, self.asked = iter(changes), list[Command]()
        self.change(set(), members)

    def change(self, gone: set[bytes], come: Members) -> None:
        for member in gone:
            self.shards[SHARDS[member[-1] % 4].schedule].pop(member, None)
        for member, score in come.items():
            self.shards[SHARDS[member[-1] % 4].schedule][member] = score

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        self.change(*next(self.changes, (set(), {})))
        self.asked += commands
        assert len(self.asked) < 200_000, "the reading ends"
        return [self.answer(*words) for words in commands]

    def answer(self, command: str, key: str, *words: Any) -> Any:
        ordered = sorted((score, member) for member, score in self.shards[key].items())
        if command == "ZRANK":
            return next((rank for rank, (_, member) in enumerate(ordered) if member == words[0]), None)
        if command == "ZCOUNT":
            low, high = float(words[0]), float(words[1].removeprefix("("))
            return sum(low <= score <= high and (score < high or words[1][0] != "(") for score, _ in ordered)
        page = ordered[words[0] : words[1] + 1]
        return [word for score, member in page for word in (member, b"%r" % score)]


def check_once(members: Members, changes: Changes, size: int, *, backwards: bool, slack: int = 1) -> None:
    """Those that stay come once and in order; the others may come or not."""
    moved = {member for gone, come in changes for member in {*gone, *come}}
    net: Any = Schedules(members, changes)
    named, place = list[tuple[float, bytes]](), (math.inf, b"\xff") if backwards else places.FIRST
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "SLACK", slack)
        while rows := run(places.rows_behind(net, SHARDS, "schedule", place, size, backwards=backwards)):
            named += [row.place for row in rows]
            place = named[-1]
    stays = {(score, member) for member, score in members.items() if member not in moved}
    assert [one for one in named if one in stays] == sorted(stays, reverse=backwards)
    assert named == sorted(set(named), reverse=backwards)


@pytest.mark.slow
@given(
    st.dictionaries(MEMBER, SCORE, max_size=50),
    st.lists(st.tuples(st.sets(MEMBER, max_size=12), st.dictionaries(MEMBER, SCORE, max_size=12)), max_size=30),
    st.integers(1, 9),
    st.booleans(),
)
def test_who_stays_comes_once_while_others_come_and_go(
    members: Members, changes: Changes, size: int, backwards: bool
) -> None:
    check_once(members, changes, size, backwards=backwards)


MANY = {b"g%02d" % number: float(number) for number in range(40)}


def first_nine_go(at: int) -> Changes:
    return [*[(set[bytes](), Members())] * at, ({*sorted(MANY)[:9]}, {})]


def test_those_behind_come_once_whenever_many_before_them_go() -> None:
    for at in range(50):
        check_once(MANY, first_nine_go(at), 4, backwards=False)


def test_a_control_that_pages_by_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = [0]

    async def by_offset(net: Any, key: str, place: Any, size: int, **_: Any) -> list[Any]:
        page = await net.read([("ZRANGE", key, read[0] // 4 * size, read[0] // 4 * size + size - 1, "WITHSCORES")])
        read[0] += 1
        return [(float(score), member) for member, score in zip(page[0][::2], page[0][1::2], strict=True)]

    monkeypatch.setattr(places, "behind", by_offset)
    with pytest.raises(AssertionError):
        check_once(MANY, first_nine_go(20), 4, backwards=False)


def test_a_place_of_which_nothing_is_left_is_found_in_a_few_reads_among_many_of_its_score() -> None:
    net: Any = Schedules({b"g%05d" % number: math.inf for number in range(4000)}, [])
    rows = run(places.rows_behind(net, SHARDS, "schedule", (math.inf, b"g02000-gone"), 3))
    assert [row.member for row in rows] == [b"g02001", b"g02002", b"g02003"]
    assert len(net.asked) < 4 * 16
    assert max(words[3] - words[2] for words in net.asked if words[0] == "ZRANGE") < 30
