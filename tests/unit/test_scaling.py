"""How many consumers a pool should have, in virtual time: loads as they come, and negative controls."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import Any

import pytest

from sequencer.processes.master import scaling
from sequencer.processes.master.scaling import PoolSnapshot, Scaler

CHECK_S, START_S = 2.0, 0.5
Arrival = tuple[float, str, float]
"""When, in which group, and how long its handler takes."""


@dataclass(slots=True)
class Worker:
    """One consumer."""

    works_from: float
    busy_until: float = 0.0
    group: str = ""
    is_leaving: bool = False


@dataclass
class Walk:
    """What happened."""

    changes: list[tuple[float, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def reversals(self) -> int:
        """How often the pool went down after it went up, or up after down."""
        signs = [change > 0 for _, change in self.changes]
        return sum(one != next_ for one, next_ in pairwise(signs))


class PoolLoad:
    """One run. `kills`: who leaves is killed, as a control."""

    def __init__(self, scaler: Scaler, arrivals: Iterable[Arrival], *, kills: bool = False) -> None:
        self.scaler, self.walk = scaler, Walk()
        self._arrivals, self._kills = deque(sorted(arrivals)), kills
        self._workers: list[Worker] = []
        self._due: deque[tuple[float, str]] = deque()
        """Groups that wait, since when."""
        self._messages: dict[str, deque[float]] = {}
        self._busy_s = 0.0

    @property
    def backlog(self) -> int:
        """Messages that wait, of all groups."""
        return sum(map(len, self._messages.values()))

    def run(self, until: float) -> Walk:
        now = 0.0
        while now < until:
            self._pass_time(now, now + CHECK_S)
            now += CHECK_S
            self._snapshot(now)
        return self.walk

    def _pass_time(self, start: float, end: float) -> None:
        self._busy_s = sum(min(end, one.busy_until) - start for one in self._workers if one.busy_until > start)
        events = [(at, 0) for at, *_ in takewhile(lambda arrival: arrival[0] <= end, self._arrivals)]
        events += [(one.busy_until, 1) for one in self._workers if start < one.busy_until <= end]
        events += [(one.works_from, 2) for one in self._workers if start <= one.works_from <= end]
        heapq.heapify(events)
        self._serve(start, events, end)
        while events:
            at, _ = heapq.heappop(events)
            while self._arrivals and self._arrivals[0][0] <= at:
                when, group, seconds = self._arrivals.popleft()
                self._add(when, group, seconds)
            self._finish(at)
            self._serve(at, events, end)

    def _add(self, at: float, group: str, seconds: float) -> None:
        waiting = self._messages.setdefault(group, deque())
        waiting.append(seconds)
        if len(waiting) == 1 and not any(one.group == group for one in self._workers):
            self._due.append((at, group))

    def _finish(self, at: float) -> None:
        for one in [one for one in self._workers if one.group and one.busy_until <= at]:
            group, one.group = one.group, ""
            if self._messages[group]:  # the group's own consumer goes on with it
                if one.is_leaving:
                    self._due.append((at, group))
                else:
                    self._due.appendleft((at, group))
            else:
                del self._messages[group]
            if one.is_leaving:
                self._workers.remove(one)

    def _serve(self, at: float, events: list[tuple[float, int]], end: float) -> None:
        for one in self._workers:
            if not self._due:
                return
            if one.group or one.is_leaving or one.works_from > at:
                continue
            since, group = self._due.popleft()
            self.walk.waits.append(at - since)
            seconds = self._messages[group].popleft()
            one.group, one.busy_until = group, at + seconds
            self._busy_s += min(end, one.busy_until) - at
            if one.busy_until <= end:
                heapq.heappush(events, (one.busy_until, 1))

    def _snapshot(self, now: float) -> None:
        staying = [one for one in self._workers if not one.is_leaving]
        snapshot = PoolSnapshot(
            now=now,
            due=len(self._due),
            waits_s=now - self._due[0][0] if self._due else 0.0,
            processes=len(self._workers),
            starting=sum(one.works_from > now for one in self._workers),
            leaving=len(self._workers) - len(staying),
            busy=self._busy_s / CHECK_S,
        )
        change = self.scaler.decide(snapshot)
        if change > 0:
            self._workers += [Worker(now + START_S) for _ in range(change)]
        elif change < 0:
            self._leave(staying)
        if change and now > CHECK_S:  # the start is no change
            self.walk.changes.append((now, change))
        self._check(now, change)

    def _leave(self, staying: list[Worker]) -> None:
        youngest = max(staying, key=lambda one: one.works_from)
        if youngest.group and not self._kills:
            youngest.is_leaving = True
            return
        if youngest.group:
            self.walk.problems.append("a message was cut")
        self._workers.remove(youngest)

    def _check(self, now: float, change: int) -> None:
        count = len(self._workers)
        staying = sum(not one.is_leaving for one in self._workers)
        self.walk.sizes.append(count)
        if count > self.scaler.most:
            self.walk.problems.append(f"{count} at {now:g} s are more than {self.scaler.most}")
        if staying < self.scaler.least:
            self.walk.problems.append(f"{staying} at {now:g} s are fewer than {self.scaler.least}")
        if change < 0 and any(at > now - 10 and other < 0 for at, other in self.walk.changes[:-1]):
            self.walk.problems.append(f"two consumers left within 10 s, at {now:g} s")


HOUR_S = 3600.0
MOST_REVERSALS = 12


def visits(seed: int, hours: float = 4.0) -> list[Arrival]:
    """Messages of a group each, at random; 1.1 a second of 5 s each are 5.5 erlang."""
    chance, at = random.Random(seed), 0.0
    found: list[Arrival] = []
    while (at := at + chance.expovariate(1.1)) < hours * HOUR_S:
        found.append((at, f"g{len(found)}", chance.expovariate(1 / 5.0)))
    return found


def batches(count: int, every_s: float, messages: int, seconds: float) -> list[Arrival]:
    return [(every_s * n + 1e-6 * m, f"g{n}-{m}", seconds) for n in range(count) for m in range(messages)]


def hot(messages: int) -> list[Arrival]:
    """One group with very many messages."""
    return [(1.0 + 1e-6 * n, "hot", 0.5) for n in range(messages)]


@pytest.mark.parametrize("seed", range(3))
def test_a_load_of_five_and_a_half_erlang_changes_direction_seldom(seed: int) -> None:
    walk = PoolLoad(Scaler(1, 12, 1.0), visits(seed)).run(4 * HOUR_S)
    assert walk.problems == []
    assert walk.reversals <= 4 * MOST_REVERSALS
    assert 7 < sum(walk.sizes) / len(walk.sizes) < 12


def test_batches_each_minute_and_a_half_keep_what_they_need() -> None:
    walk = PoolLoad(Scaler(4, 12, 1.0), batches(80, 90.0, 400, 0.5)).run(2 * HOUR_S)
    assert (walk.problems, walk.reversals) == ([], 0)


def test_it_is_back_at_n_after_the_load() -> None:
    walk = PoolLoad(Scaler(2, 8, 1.0), visits(0, hours=0.5)).run(2 * HOUR_S)
    assert walk.problems == []
    assert max(walk.sizes) > 5
    assert walk.sizes[-1] == 2


def test_one_hot_group_never_adds_a_consumer() -> None:
    walk = PoolLoad(Scaler(1, 12, 1.0), hot(20_000)).run(HOUR_S)
    assert (walk.problems, walk.changes, max(walk.sizes)) == ([], [], 1)


def test_without_work_there_is_none_and_the_first_group_starts_one_at_once() -> None:
    arrivals = [(601.0, "a", 0.1), (5001.0, "b", 700.0)]
    walk = PoolLoad(Scaler(0, 2, 1.0), arrivals).run(2 * HOUR_S)
    assert walk.problems == []
    assert walk.changes == [(602.0, 1), (904.0, -1), (5002.0, 1), (6004.0, -1)]
    assert max(walk.waits) < 3


WAITING = PoolSnapshot(now=0.0, due=9, waits_s=5.0, processes=4)


def decide(snapshots: list[PoolSnapshot], scaler: Scaler | None = None) -> list[int]:
    scaler = scaler or Scaler(4, 12, 1.0)
    return [scaler.decide(snapshot) for snapshot in snapshots]


def at(*times: float, **more: Any) -> list[PoolSnapshot]:
    return [replace(WAITING, now=now, **more) for now in times]


def test_nothing_changes_in_the_first_ten_seconds_nor_after_one_look() -> None:
    assert decide(at(0, 2, 4, 9.9)) == [0, 0, 0, 0]
    assert decide([*at(0, 10, waits_s=0.9), *at(12)]) == [0, 0, 0]
    assert decide(at(0, 10)) == [0, 2], "half as many again"
    assert decide(at(0, 10, 12, 19, 20)) == [0, 2, 0, 0, 2], "ten seconds pass between two steps up"
    idle = replace(WAITING, processes=0, is_frozen=True)
    assert decide([idle], Scaler(0, 4, 1.0)) == [1], "an outage still gets a consumer that can probe"


def test_what_waited_for_one_that_is_there_now_is_no_reason_for_another() -> None:
    assert decide([*at(0, 10, due=1, starting=1), *at(12, 14, 16, due=1)]) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({"due": 2, "starting": 1}, 1),
        ({"room": 1}, 1),
        ({"cpu": 0.95}, 0),
        ({"is_frozen": True}, 0),
        ({"processes": 11, "leaving": 6}, 1),
    ],
)
def test_a_step_up_is_no_larger_than_what_can_help(more: dict[str, Any], change: int) -> None:
    assert decide(at(0, 10, **more)) == [0, change]


def test_a_pool_gives_back_what_is_above_its_least_where_the_host_has_too_many() -> None:
    crowded = [replace(WAITING, now=now, due=9, processes=5, leaving=0, room=-1) for now in (0.0, 10.0, 12.0, 20.0)]
    assert decide(crowded, Scaler(1, 12, 1.0)) == [0, -1, 0, -1]
    assert decide(crowded, Scaler(5, 12, 1.0)) == [0, 0, 0, 0]
    assert decide([replace(one, is_frozen=True) for one in crowded], Scaler(1, 12, 1.0)) == [0, 0, 0, 0]


def by_backlog(snapshot: Callable[[], int]) -> Any:
    class ByBacklog(Scaler):
        """Asks how many messages wait, as others do."""

        def decide(self, seen: PoolSnapshot) -> int:
            count = snapshot()
            return super().decide(replace(seen, due=count, waits_s=9.0 if count else 0.0))

    return ByBacklog


def test_a_scaler_that_goes_by_the_backlog_is_found() -> None:
    loads: list[PoolLoad] = []
    scaler = by_backlog(lambda: loads[0].backlog)(1, 12, 1.0)
    loads.append(PoolLoad(scaler, hot(2000)))
    walk = loads[0].run(HOUR_S / 4)
    assert max(walk.sizes) == 12, "twelve for one group, of which eleven can't help"


def test_a_scaler_that_kills_is_found() -> None:
    walk = PoolLoad(Scaler(1, 12, 1.0), visits(0, hours=1), kills=True).run(2 * HOUR_S)
    assert "a message was cut" in walk.problems


@pytest.mark.parametrize("seed", range(2))
def test_a_quiet_time_of_a_minute_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "QUIET_S", 60.0)
    walk = PoolLoad(Scaler(1, 12, 1.0), visits(seed)).run(4 * HOUR_S)
    assert walk.reversals > 4 * MOST_REVERSALS


class Hasty(Scaler):
    """Lets the next one leave at once."""

    def _down(self, now: float) -> int:
        return -1


def test_a_scaler_that_goes_down_two_at_a_time_is_found() -> None:
    walk = PoolLoad(Hasty(1, 12, 1.0), visits(0, hours=0.5)).run(HOUR_S)
    assert any("two consumers left" in one for one in walk.problems)
