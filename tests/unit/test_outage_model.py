"""The rules by which an outage holds a shard back, in walks of virtual time, each with its control."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from ..support.outage_shard import OneGroupIsEnough, OutageShard, ProbeKeepsItsPlace, WaitsForItsProbe
from ..support.outage_walk import Walk

pytestmark = pytest.mark.slow  # a quarter of a minute of walks

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
