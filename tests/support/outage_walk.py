"""Consumers of an OutageShard in virtual time, with a dependency that goes away and comes back. Seconds."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from .outage_shard import SECOND, Claimed, OutageShard

IDLE_S, TRIP_S = 0.1, 0.0003


@dataclass
class Walk:
    """One run: what it is given, and what it showed."""

    shard: OutageShard
    fails: Callable[[str, float], bool]
    """Whether the handler of this group fails at this time, as in an outage."""
    seed: int = 0
    consumers: int = 4
    handle_s: float = 0.005
    fail_s: float = 0.001
    batch: int = 8
    lease_s: float = 15.0
    deaths: float = 0.0
    """How likely a consumer dies at each of its steps; a new one comes a second later."""
    dies_at_close: bool = False
    """Whether the first consumer that should end an outage dies just before."""
    max_attempts: int = 5
    backoff_s: tuple[float, float] = (0.5, 60.0)
    calls: list[tuple[float, str, bool]] = field(default_factory=list)
    """When each handler run began, its group, and whether it failed."""
    waited: dict[str, float] = field(default_factory=dict)
    """The longest time that a message of a group waited from its arrival on."""
    arrived: dict[str, list[float]] = field(default_factory=dict)
    most_attempts: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now_s, self._heap, self._numbers = 0.0, list[tuple[float, int, Iterator[float]]](), itertools.count()

    def start(self, actor: Iterator[float], at_s: float = 0.0) -> None:
        heapq.heappush(self._heap, (at_s, next(self._numbers), actor))

    def run(self, until_s: float, is_over: Callable[[], bool] = lambda: False) -> None:
        for _ in range(self.consumers):
            self.start(self.consume())
        while self._heap and self._heap[0][0] <= until_s and not is_over():
            self.now_s, _, actor = heapq.heappop(self._heap)
            self.shard.now = round(self.now_s * SECOND)
            with suppress(StopIteration):
                self.start(actor, self.now_s + next(actor))

    def append(self, group: str) -> None:
        self.arrived.setdefault(group, []).append(self.now_s)
        self.shard.append(group)

    def arrivals(self, groups: list[str], each_s: float, until_s: float) -> Iterator[float]:
        """One message after another, each of a random group."""
        while self.now_s < until_s:
            self.append(self.random.choice(groups))
            yield self.random.expovariate(1 / each_s)

    # -- one consumer ------------------------------------------------------------------------------------------

    def consume(self) -> Iterator[float]:
        shard = self.shard
        while True:
            yield TRIP_S
            claimed = shard.claim(self.batch, round(self.lease_s * SECOND))
            if not claimed.groups:
                next_s = IDLE_S if claimed.next_at is None else claimed.next_at / SECOND - self.now_s
                yield min(IDLE_S, max(0.0, next_s))
                continue
            died = yield from self.handle(claimed)
            if died or (self.deaths and self.random.random() < self.deaths):
                self.start(self.consume(), self.now_s + 1.0)
                return

    def handle(self, claimed: Claimed) -> Generator[float, None, bool]:
        """A batch, which ends early where the shard is held back; whether the consumer died."""
        shard, left = self.shard, list(claimed.groups)
        while left:
            name = left.pop(0)
            group = shard.groups[name]
            count = 1 if claimed.is_probe else group.messages
            for place in range(count):
                failed = self.fails(name, self.now_s)
                self.calls.append((self.now_s, name, failed))
                yield (self.fail_s if failed else self.handle_s) * self.random.uniform(0.5, 1.5)
                if failed:
                    break
                if not shard.ack(name, claimed.token, release=place + 1 == count):
                    return False
                self.note_handled(name)
            if failed:
                yield TRIP_S
                if self.is_held_after(name, claimed.token):
                    break
            elif claimed.is_probe:
                if self.dies_at_close:
                    self.dies_at_close = False
                    return True
                shard.close(claimed.token)
        for name in left:
            shard.ack(name, claimed.token, 0, release=True)
        return False

    def is_held_after(self, name: str, token: int) -> bool:
        """Tell the shard of a failure; whether the shard is held back."""
        shard, jitter = self.shard, self.random.uniform(0.5, 1.0)
        if name not in shard.groups:
            return False
        attempt = shard.groups[name].attempts + 1
        first_s, longest_s = self.backoff_s
        is_last = attempt >= self.max_attempts
        delay_us = None if is_last else round(min(longest_s, first_s * 2 ** (attempt - 1)) * jitter * SECOND)
        waits = (round(first_s * jitter * SECOND), round(longest_s * jitter * SECOND), None)
        done = shard.nack(name, token, "outage", delay_us=delay_us, waits=waits, attempts=attempt)
        self.most_attempts = max([self.most_attempts, *(group.attempts for group in shard.groups.values())])
        return done is not None and done.is_held

    def note_handled(self, name: str) -> None:
        waited_s = self.now_s - self.arrived[name].pop(0)
        self.waited[name] = max(waited_s, self.waited.get(name, 0.0))
