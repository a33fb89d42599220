"""What one seed plays: the queue and its policy, who takes part, what is appended, and how bad the weather is."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ...support.steps_model.declared import Step
from .step_plan import is_inline, step_plan

QUEUE = "jobs"
NAMESPACE = "sim"
POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    "no dedup": {"dedup_window": 0},
    "late refused": {"on_late": "refuse"},
    "late dropped": {"on_late": "drop"},
    "late dead": {"on_late": "dead_letter"},
    "window": {"reorder_window": 0.3},
    "sequence": {"sequence": True, "gap_timeout": 0.8, "on_gap": "park"},
    "sequence, gaps skipped": {"sequence": True, "gap_timeout": 0.8, "on_gap": "skip"},
}
LONGEST_WAIT_S = 0.8
"""The longest gap or window of these."""
STRAGGLE_S = 2.0
"""Longer than a gap waits: where gaps are skipped, most numbers that were missing have been by then."""
STRAGGLERS = 0.7
"""Of the numbers that are missing: how many come after all."""
TRIPS_US = ((20, 500), (20, 500), (2_000, 15_000))
RATES = (0.0, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a seed. Times in seconds of virtual time."""

    seed: int
    policy: str
    shards: int
    lease_s: float
    max_attempts: int
    on_failure: str
    backoff_s: float
    backoff_cap_s: float
    consumers: int
    storm_s: float
    """How long faults happen."""
    trip_us: tuple[int, int]
    """How long what is sent is on its way, from and to: through one machine, or over a long line."""
    fault_rate: float
    crash_rate: float
    pause_rate: float
    flushes: int
    steps_us: tuple[int, ...]
    """By how much the server's clock is stepped, one step each."""
    failure_rate: float
    """Of handler runs."""
    operations: int
    """How often an operator does something to the queue."""
    audits: int
    redrives: bool
    """Whether dead letters are put back after the storm."""
    batches: tuple[tuple[tuple[dict[str, Any], ...], ...], ...] = field(repr=False)
    """Of each producer: what it appends, batch by batch."""
    stragglers: tuple[tuple[dict[str, Any], ...], ...] = field(repr=False)
    """Of each producer: what it appends in the end, `STRAGGLE_S` later and one by one: numbers that were missing."""
    steps: tuple[Step, ...] = ()
    """Of each message; none where a plain handler takes it."""
    is_inline: bool = False
    """Whether a handler runs them as it goes."""
    on_unresolved: str = "park"
    are_apart: bool = False
    """Whether shards are as on nodes of a cluster, each with its own connections."""

    @property
    def options(self) -> dict[str, Any]:
        """As Sequencer takes them."""
        return {
            "max_attempts": self.max_attempts,
            "on_failure": self.on_failure,
            "backoff": self.backoff_s,
            "backoff_cap": self.backoff_cap_s,
            "on_unresolved": self.on_unresolved,
        }


def scenario(seed: int, *, backward: bool = False, steps: bool = False) -> Scenario:
    """What this seed plays. With `backward`, the server's clock also goes back; with `steps`, messages have steps."""
    rng = random.Random(f"scenario {seed}")
    policy = rng.choice(list(POLICIES))
    lease_s = rng.choice((0.5, 1.0, 2.0))
    rate = rng.choice(RATES)
    is_wild = rate > 0
    clock_steps: list[int] = []
    if backward or (is_wild and rng.random() < 0.15):
        clock_steps = [round(lease_s * rng.uniform(0.3, 3) * 1e6) for _ in range(rng.randrange(1, 3))]
    if backward:
        clock_steps += [-round(lease_s * rng.uniform(0.1, 2) * 1e6) for _ in range(2)]
    rng.shuffle(clock_steps)
    return Scenario(
        seed=seed,
        policy=policy,
        shards=rng.choice((1, 1, 2)),
        lease_s=lease_s,
        max_attempts=rng.randrange(2, 6),
        on_failure=rng.choice(("park", "dead_letter", "drop")),
        backoff_s=rng.choice((0.02, 0.1)),
        backoff_cap_s=0.4,
        consumers=rng.randrange(2, 4),
        storm_s=rng.uniform(3.0, 8.0),
        trip_us=random.Random(f"trip {seed}").choice(TRIPS_US),
        fault_rate=rate,
        crash_rate=rng.choice((0.0, 0.005, 0.015)) if is_wild else 0.0,
        pause_rate=rng.choice((0.0, 0.004, 0.012)) if is_wild else 0.0,
        flushes=rng.randrange(3) if is_wild else 0,
        steps_us=tuple(clock_steps),
        failure_rate=rng.choice((0.0, 0.05, 0.3)),
        operations=rng.choice((0, 4, 12)),
        audits=1,
        redrives=rng.random() < 0.5,
        batches=(batches := _batches(rng, policy)),
        stragglers=tuple(_stragglers(seed, number, own, policy) for number, own in enumerate(batches)),
        steps=(plan := step_plan(seed, always=steps)),
        is_inline=bool(plan) and is_inline(seed),
        on_unresolved=random.Random(f"question {seed}").choice(("park", "dead_letter")),
        are_apart=random.Random(f"apart {seed}").random() < 0.5,
    )


def _batches(rng: random.Random, policy: str) -> tuple[tuple[tuple[dict[str, Any], ...], ...], ...]:
    is_sequence, is_scored = "sequence" in policy, rng.random() < 0.6 or "late" in policy
    producers = rng.randrange(1, 3)
    groups = [("g", number) for number in range(rng.randrange(2, 9))]
    numbers = dict.fromkeys(groups, 0)
    all_batches = []
    for producer in range(producers):
        own = groups[producer::producers] or groups[:1] if is_sequence else groups
        batches: list[tuple[dict[str, Any], ...]] = []
        for number in range(rng.randrange(6, 22)):
            batch = []
            for place in range(rng.choice((1, 1, 1, 3, 6))):
                group = rng.choice(own)
                item: dict[str, Any] = {"group": group, "id": (id := f"{producer}.{number}.{place}"), "body": id}
                if is_sequence:
                    numbers[group] += 1 if rng.random() > 0.04 else 2
                    item["score"] = numbers[group]
                elif is_scored:
                    item["score"] = number * 10 + rng.randrange(-15, 15)
                if rng.random() < 0.08:
                    item["delay"] = round(rng.uniform(0.05, 1.5), 3)
                batch.append(item)
            if batches and rng.random() < 0.2:  # an id comes again with other content, most likely while it is pending
                old = max(batches[-1], key=lambda item: item.get("delay", 0.0))
                if all((old["group"], old["id"]) != (item["group"], item["id"]) for item in batch):
                    batch.append({**old, "body": f"{old['id']}!"})
            if is_sequence:
                rng.shuffle(batch)
            batches.append(tuple(batch))
            if rng.random() < 0.15:  # told twice by someone further up
                batches.append(rng.choice(batches))
        all_batches.append(tuple(batches))
    return tuple(all_batches)


def _stragglers(seed: int, producer: int, batches: tuple[tuple[dict[str, Any], ...], ...], policy: str) -> Any:
    """Most of the numbers that this producer left out."""
    if "sequence" not in policy:
        return ()
    rng, numbers = random.Random(f"stragglers {seed} {producer}"), defaultdict[Any, set[int]](set)
    for batch in batches:
        for item in batch:
            numbers[item["group"]].add(item["score"])
    missing = [(group, n) for group, own in numbers.items() for n in range(1, max(own)) if n not in own]
    chosen = [place for place in missing if rng.random() < STRAGGLERS]
    return tuple(
        {"group": group, "score": n, "id": (id := f"{producer}.late.{number}"), "body": id}
        for number, (group, n) in enumerate(chosen)
    )
