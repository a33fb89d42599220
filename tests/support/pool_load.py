"""A pool under a load in virtual time: arrivals, due groups, consumers that start, work and leave; a look each 2 s.

It asks a scaler, and counts what a pool must not do: more than `most`, fewer than `least`, a message that was cut.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

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

    def __init__(self, scaler: Scaler, arrivals: Iterable[Arrival], *, cpu: float = 0.0, kills: bool = False) -> None:
        self.scaler, self.walk = scaler, Walk()
        self._arrivals, self._cpu, self._kills = deque(sorted(arrivals)), cpu, kills
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
            cpu=self._cpu,
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
