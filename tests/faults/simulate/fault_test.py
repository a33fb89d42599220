"""Deterministic simulation: the real library in virtual time on a real server, with faults at every step by seed.

Producers, consumers with their renewers, and an operator run as they are, one at a time, in an order that follows from
the seed (`stage.py`); their commands are carried out by a real server, with our scripts, through a network that
loses, repeats and delays (`net.py`). After the storm everything must be drained in time; the history is judged,
and the invariants of the data are checked (`seed.py`). The same seed gives the same trace, to the last line:

    python -m tests.faults simulate --seed 17 --trace
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..report import Result, Scale, totals
from .seed import Played, play_seed, stage_set

SEEDS: dict[Scale, int] = {"smoke": 20, "ci": 175, "nightly": 10_000}
EXPECTED = (
    *("request lost", "reply lost", "request twice", "request delayed past the lease", "reset in a batch", "slow"),
    *("consumer killed with leases", "producer killed", "paused past the lease", "scripts flushed", "clock forward"),
    *("lease taken ahead", "lease taken at a hint", "stale token refused", "lease expired", "script reloaded"),
    *(
        "duplicate refused",
        "unknown outcome raised",
        "message skipped",
        "message redriven",
        "conflict refused",
        "refused batch undone",
    ),
    *("lease taken by worker slots", "suspect taken beside others"),
    *("late refused", "late dropped", "late dead letter", "skipped number came", "duplicate refused"),
)
"""What must have happened somewhere in a run of many seeds, or the run shows nothing."""
PLAIN_EXPECTED = tuple(f"handler raised {name}" for name in ("ValueError", "Retry", "Park", "SetAside"))
"""And to handlers, where some seed has plain ones."""
STEPS_EXPECTED = (
    *("consumer stopped", "save_step answered 0", "step repeated", "step retried", "step raised Retry"),
    *("question asked", "person said done", "person said again", "check found an effect", "check found nothing"),
    "optional step left",
)
"""What must have happened to steps, where there are many seeds with some."""
ENOUGH = 175
"""Seeds from which on each of these is sure to happen."""
MAX_PROBLEMS = 20


def run(
    scale: Scale,
    *,
    seed: int | None = None,
    first: int = 0,
    seconds: float | None = None,
    backward: bool = False,
    steps: bool = False,
    trace: bool = False,
) -> Result:
    """Simulate seeds from `first` on, as many as the scale says, or one `seed`; stop early after `seconds`.

    `backward`: the server's clock also goes back, and everything that waits, waits so much longer. `steps`: the
    messages of each seed have steps, not only those of a part. `trace` prints what happened, line by line.
    """
    seeds = range(first, first + SEEDS[scale]) if seed is None else range(seed, seed + 1)
    began_s = time.monotonic()
    played = list(_play(seeds, seconds, backward, steps, trace))
    words = f"simulate --scale {scale}" if seed is None else f"simulate --seed {seed}"
    words += f" --first {first}" if first and seed is None else ""
    words += "" if seconds is None else f" --seconds {seconds:g}"
    words += " --steps" if steps else ""
    return result_of(played, words, began_s, backward, steps)


def _play(seeds: Iterable[int], seconds: float | None, backward: bool, steps: bool, trace: bool) -> Iterator[Played]:
    until = time.monotonic() + (float("inf") if seconds is None else seconds)
    with stage_set() as ground:
        for seed in seeds:
            one = play_seed(ground, seed, backward=backward, steps=steps)
            if trace:
                sys.stdout.write("\n".join([repr(one.play), *one.trace, *one.problems, ""]))
            one.trace.clear()
            one.events.clear()
            yield one
            if time.monotonic() > until:
                break


def result_of(played: list[Played], words: str, began_s: float, backward: bool, steps: bool = False) -> Result:
    """All seeds together. A run of many seeds also fails when a kind of fault never took effect."""
    faults: Counter[str] = Counter()
    problems: list[str] = []
    option = " --backward" if backward else ""
    for one in played:
        faults += one.faults
        repeat = f"python -m tests.faults simulate --seed {one.play.seed}{option}{' --steps' * steps} --trace"
        problems += [f"seed {one.play.seed}: {text}; repeat with: {repeat}" for text in one.problems]
    if len(played) >= ENOUGH:
        expected = [*EXPECTED]
        expected += STEPS_EXPECTED if any(one.play.steps for one in played) else ()
        expected += PLAIN_EXPECTED if not all(one.play.steps for one in played) else ()
        problems += [f"fault that never took effect: {kind}" for kind in expected if not faults[kind]]
    more, elapsed_s = len(problems) - MAX_PROBLEMS, time.monotonic() - began_s
    return Result(
        name="simulate",
        command=f"python -m tests.faults {words}{option}",
        runs=len(played),
        unit="seeds",
        seeds=f"{played[0].play.seed}..{played[-1].play.seed}" if played else "",
        faults=dict(sorted(faults.items())),
        figures=_figures(played),
        problems=problems[:MAX_PROBLEMS] + ([f"... and {more} more problems"] if more > 0 else []),
        seconds=round(elapsed_s, 1),
        **totals(one.judgement for one in played),
    )


def _figures(played: list[Played]) -> dict[str, Any]:
    policies = Counter(one.play.policy for one in played)
    return {
        "seeds with a problem": sum(bool(one.problems) for one in played),
        "seeds with steps": sum(bool(one.play.steps) for one in played),
        "seeds whose handlers run steps as they go": sum(one.play.is_inline for one in played),
        "commands on the real server": sum(one.commands for one in played),
        "hours of virtual time": round(sum(one.virtual_s for one in played) / 3600, 3),
        **{f"seeds with policy {name!r}": count for name, count in sorted(policies.items())},
    }
