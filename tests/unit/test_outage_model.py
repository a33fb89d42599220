"""The rules by which an outage holds a shard back, in walks of virtual time, each with its control.

No line of the product runs here: server/test_outage_agrees compares its scripts with this shard.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from ..support.outage_shard import SECOND, Claimed, OneGroupIsEnough, OutageShard, ProbeKeepsItsPlace, WaitsForItsProbe

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


pytestmark = pytest.mark.nightly

SEEDS = range(4)
BEGINS_S, LASTS_S = 5.0, 90.0
BACK_S = BEGINS_S + LASTS_S


class Seen(NamedTuple):
    """What a walk showed."""

    parked: int
    attempts: int
    dead_calls: int
    """Handler runs while the dependency was down."""
    back_s: float
    """From its return to the first handler that could do its work."""
    openings: int


def names(count: int) -> list[str]:
    return [f"g{number:04d}" for number in range(count)]


def all_fail(shard: OutageShard, seed: int, *, groups: int = 1000, **given: float) -> Seen:
    """A dependency of all is down for 90 s."""
    deaths, dies_at_close = given.get("deaths", 0.0), bool(given.get("dies_at_close"))
    walk = Walk(shard, lambda _, at: BEGINS_S <= at < BACK_S, seed, deaths=deaths, dies_at_close=dies_at_close)
    walk.start(walk.arrivals(names(groups), 0.005, BACK_S + 20))
    walk.run(BACK_S + 30)
    return _seen(walk)


def _seen(walk: Walk) -> Seen:
    done = [at for at, _, is_failed in walk.calls if at >= BACK_S and not is_failed]
    dead_calls = sum(is_failed for at, _, is_failed in walk.calls if at < BACK_S)
    back_s = min(done, default=float("inf")) - BACK_S
    return Seen(walk.shard.parked, walk.most_attempts, dead_calls, back_s, walk.shard.openings)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_of_90_s_parks_nothing_and_costs_no_attempt(seed: int) -> None:
    """The figures of the design: about 28 calls to what is down, and 3.1 s until the queue goes on."""
    seen = all_fail(OutageShard(), seed)
    assert (seen.parked, seen.attempts, seen.openings) == (0, 0, 1)
    assert 20 <= seen.dead_calls <= 32
    assert seen.back_s < 6.0


@pytest.mark.parametrize("seed", SEEDS)
def test_consumers_that_die_change_nothing_of_that_and_few_groups_go_on_as_soon(seed: int) -> None:
    seen = all_fail(OutageShard(), seed, deaths=0.02)
    assert (seen.parked, seen.attempts) == (0, 0)
    assert seen.back_s < 6.0
    assert all_fail(OutageShard(), seed, groups=3).back_s < 6.0


def one_bad(shard: OutageShard, seed: int) -> tuple[float, int]:
    """On a quiet queue: the longest time that a message of another group waited, and how many groups were parked."""
    walk = Walk(shard, lambda group, _: group == "bad", seed)
    walk.start(walk.arrivals(names(40), 50.0, 600.0))
    walk.append("bad")
    walk.run(700.0)
    return max(waited for group, waited in walk.waited.items() if group != "bad"), shard.parked


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bad_group_is_parked_by_policy_and_holds_nobody(seed: int) -> None:
    waited_s, parked = one_bad(OutageShard(), seed)
    assert parked == 1
    assert waited_s < 0.2


def test_without_the_three_groups_one_bad_group_holds_the_others() -> None:
    assert max(one_bad(OneGroupIsEnough(), seed)[0] for seed in SEEDS) > 1.0


def bad_first(shard: OutageShard, seed: int) -> Seen:
    """After the return of the dependency, the group that was probed last fails for a reason of its own."""
    last = "nobody"

    def fails(group: str, at: float) -> bool:
        nonlocal last
        if BEGINS_S <= at < BACK_S:
            last = group
            return True
        return at >= BACK_S and group == last

    walk = Walk(shard, fails, seed)
    walk.start(walk.arrivals(names(12), 1.0, BACK_S + 60))
    walk.run(BACK_S + 90)
    return _seen(walk)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_group_that_failed_a_probe_makes_room_for_another(seed: int) -> None:
    assert bad_first(OutageShard(), seed).back_s < 6.0


def test_where_a_probe_keeps_its_place_the_shard_stands_for_one_bad_group() -> None:
    """It is the only one that is tried, until someone looks."""
    assert max(bad_first(ProbeKeepsItsPlace(), seed).back_s for seed in SEEDS) > 60.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_consumer_that_dies_before_it_ends_the_outage_delays_that_by_a_lease(seed: int) -> None:
    """Its probe was handled; the next one is given when its lease would be over."""
    shard = OutageShard()
    seen = all_fail(shard, seed, dies_at_close=True)
    assert seen.parked == 0
    assert shard.probe_at is None


def test_where_the_word_of_a_dead_consumer_is_waited_for_the_shard_stands_for_ever() -> None:
    shards = [WaitsForItsProbe() for _ in SEEDS]
    for shard, seed in zip(shards, SEEDS, strict=True):
        all_fail(shard, seed, dies_at_close=True)
    assert any(shard.probe_at is not None for shard in shards)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_comes_and_goes_opens_once_an_outage(seed: int) -> None:
    """3 s down, 3 s up, ten times."""
    shard = OutageShard()
    walk = Walk(shard, lambda _, at: at % 6 >= 3 and at < 60, seed)
    walk.start(walk.arrivals(names(1000), 0.005, 70.0))
    walk.run(80.0)
    assert shard.parked == 0
    assert shard.openings <= 10


@pytest.mark.parametrize("seed", range(3))
def test_some_bad_groups_hold_the_healthy_ones_for_seconds_at_most(seed: int) -> None:
    """10 bad of 60 for 300 s: the figure of the design is 3.7 s."""
    shard, everyone = OutageShard(), names(60)
    bad = set(random.Random(f"bad {seed}").sample(everyone, 10))
    walk = Walk(shard, lambda group, _: group in bad, seed)
    walk.start(walk.arrivals(everyone, 0.05, 300.0))
    walk.run(330.0)
    assert max(waited for group, waited in walk.waited.items() if group not in bad) < 6.0
    assert shard.parked == 10
