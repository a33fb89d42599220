"""Who is charged when a process with many worker slots dies: a walk over the model of a shard, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import LeasedGroup, claim
from sequencer.calls.settle import Ack, Nack, ack, nack
from sequencer.drain.suspects import MOST, Suspects
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys

from ..support.examples import examples
from ..support.model.shard import ModelShard

KEYS = shard_keys("n", "q", "0")
LEASE_S, MAX_ATTEMPTS = 1.0, 5
RESTART_S, PAUSE_S = 0.2, 0.02


class NoRule(Suspects):
    """A control: charged suspects run in company."""

    def room(self) -> int:
        return max(0, MOST - len(self.running))


@dataclass
class Process:
    """A consumer with many slots. It claims whenever some are free, and tells what ended at once."""

    name: str
    suspects: Suspects
    alive_from: float = 0.0
    deaths: int = 0
    asks_again_at: float = 0.0
    working: dict[str, tuple[float, LeasedGroup]] = field(default_factory=dict)


class Walk:
    """Processes, healthy groups that never run dry, killers, and deaths from outside."""

    def __init__(self, seed: int, rule: str, *, healthy: int, killers: int, slots: int, deaths: int) -> None:
        self.random, self.rule, self.slots = random.Random(seed), rule, slots
        self.shard = ModelShard(Policy())
        self.began_us = self.shard.now_us
        self.charged, self.parked, self.waits = Counter[str](), list[str](), list[float]()
        self.ready_since: dict[str, float] = {}
        self.processes = [Process(f"p{n}", self.new_suspects()) for n in range(2)]
        self.handled = 0
        self.numbers = Counter[str]()
        self.death_times = sorted(self.random.uniform(0.3, 4.0) for _ in range(deaths))
        self.last_death = 0.0
        self.suspects_until = 0.0
        for n in range(healthy):
            self.append(f"healthy{n}")
        for n in range(killers):
            self.append(f"killer{n}")

    def new_suspects(self) -> Suspects:
        return (NoRule if self.rule == "in company" else Suspects)(MAX_ATTEMPTS)

    @property
    def now(self) -> float:
        return (self.shard.now_us - self.began_us) / 1e6

    def append(self, group: str) -> None:
        self.numbers[group] += 1
        self.ready_since[group] = self.now
        name = str(self.numbers[group])
        self.shard.run(append(KEYS, [Item(group, name, "", b"[1]", "")]))

    def run(self, seconds: float) -> None:
        while self.now < seconds:
            self.shard.now_us += 10_000
            if self.death_times and self.death_times[0] <= self.now:
                self.death_times.pop(0)
                self.die(self.random.choice(self.processes))
            for process in self.processes:
                if process.alive_from <= self.now:
                    self.step(process)
            if any(group in self.shard.leases for group in self.shard.due()):
                self.suspects_until = self.now
        assert self.shard.problems() == []

    def die(self, process: Process) -> None:
        process.working.clear()
        process.deaths += 1
        process.alive_from = self.now + RESTART_S
        process.suspects = self.new_suspects()
        self.last_death = self.now

    def step(self, process: Process) -> None:
        for key, (ends, leased) in [*process.working.items()]:
            if ends > self.now:
                continue
            if key.startswith("killer"):
                self.die(process)
                return
            del process.working[key]
            self.end(process, leased)
        if (free := self.slots - len(process.working)) and process.asks_again_at <= self.now:
            self.claim(process, free)

    def claim(self, process: Process, free: int) -> None:
        limits, owner = ClaimLimits(free, free, 1 << 20), f"{process.name}-{process.deaths}"
        if self.rule in ("all alone", "as one slot"):
            limits = ClaimLimits(1, 1, 1 << 20) if self.rule == "all alone" else limits
            call = claim(KEYS, "q", owner, LEASE_S, limits, ahead=self.rule == "as one slot" and bool(process.working))
        else:
            room, some = process.suspects.room(), bool(process.suspects.running) and self.rule != "in company"
            call = claim(
                KEYS, "q", owner, LEASE_S, limits, suspects=room, has_suspect=some, ahead=bool(process.working)
            )
        claimed = self.shard.run(call)
        process.asks_again_at = 0.0 if claimed.groups else self.now + PAUSE_S
        for leased in claimed.groups:
            (message,) = leased.messages
            self.charged[leased.key] = max(self.charged[leased.key], message.attempt - 1)
            if leased.expired_owner:
                process.suspects.began(leased.key, leased.token, was_charged=message.attempt > 1)
            if not leased.expired_owner:
                self.waits.append(self.now - self.ready_since[leased.key])
            if message.attempt > MAX_ATTEMPTS:
                self.parked.append(leased.key)
                self.shard.run(
                    nack(KEYS, Nack(leased.key, leased.token, leased.members[0], 5, None, b"{}", "park", ""))
                )
                process.suspects.finished(leased.key, leased.token)
                continue
            lasts_s = 0.005 if leased.key.startswith("killer") else self.random.uniform(0.01, 0.05)
            process.working[leased.key] = self.now + lasts_s, leased

    def end(self, process: Process, leased: LeasedGroup) -> None:
        entry = Ack(leased.key, leased.token, leased.members, True)
        self.shard.run(ack(KEYS, [entry]))
        process.suspects.finished(leased.key, leased.token)
        self.handled += 1
        self.append(leased.key)

    @property
    def innocents(self) -> Counter[str]:
        return Counter({key: count for key, count in self.charged.items() if key.startswith("healthy") and count})

    @property
    def p99(self) -> float:
        return sorted(self.waits)[int(len(self.waits) * 0.99)]


def walked(seed: int, rule: str = "") -> Walk:
    walk = Walk(seed, rule, healthy=40, killers=2, slots=12, deaths=3)
    walk.run(12.0)
    return walk


def killed_once(rule: str) -> Walk:
    """One death of a process with 100 slots, beside healthy groups."""
    walk = Walk(1, rule, healthy=150, killers=0, slots=100, deaths=1)
    walk.run(4.0)
    return walk


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(60)))
def test_killers_are_parked_and_nobody_else(seed: int) -> None:
    walk = walked(seed)
    assert sorted(walk.parked) == ["killer0", "killer1"]
    assert max(walk.innocents.values(), default=0) <= 2
    assert walk.suspects_until <= walk.last_death + LEASE_S + 1.0


@pytest.mark.slow
def test_one_death_charges_nobody_and_healthy_groups_go_on() -> None:
    walk = killed_once("")
    assert walk.last_death
    assert not walk.innocents
    assert walk.p99 < killed_once("as one slot").p99 / 2  # the control: claims stop at a suspect


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["in company", "all alone"])
def test_the_walk_finds_who_is_charged_too_often(rule: str) -> None:
    assert any(max(walked(seed, rule).innocents.values()) > 2 for seed in range(5))
