"""Chaos: real processes and a proxy between them and a real server, with faults of every kind by seed.

    python -m tests.faults chaos --seed 17 --seconds 60

Three producers, a supervisor with three consumers, a consumer with a loop of its own, and an operator work through the
proxy, while it delays, drops, repeats and refuses, processes are killed or stopped for two leases, and scripts are
flushed. Then it ends, the queue is drained, and the history is judged. A seed stands for what is done and when; what
the processes make of it is up to the machine.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from ..report import Result, Scale, totals
from .run import Outcome, run_seed
from .setting import POLICIES

SECONDS: dict[Scale, float] = {"smoke": 4.5, "ci": 22.0, "nightly": 60.0}
"""How long the nemesis acts in one run."""
TOTAL_S: dict[Scale, float] = {"smoke": 0.0, "ci": 0.0, "nightly": 1740.0}
"""Runs are begun for so long; there is always one."""


@dataclass(slots=True)
class _Sums:
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, outcome: Outcome, command: str) -> None:
        self.outcomes[seed] = outcome
        self.faults.update(outcome.judgement.effects)
        self.problems += [f"{problem} -- {command}" for problem in outcome.problems]


def run(
    scale: Scale, *, seed: int | None = None, seconds: float | None = None, only: str | None = None, mutant: str = ""
) -> Result:
    """Run one seed, or from 1 as many as the scale has time for.

    `seconds`: how long the faults of one run last. `only`: a policy (see POLICIES); without it they take turns, the
    first being the default's. `mutant`: a promise to break, for tests. Raises ValueError, and SequencerError without a
    server.
    """
    if only is not None and only not in POLICIES:
        raise ValueError(f"no policy {only!r}; there are: {', '.join(POLICIES)}")
    lasting, began, sums = seconds or SECONDS[scale], time.monotonic(), _Sums()
    number = 1 if seed is None else seed
    while True:
        policy = only or list(POLICIES)[(number - 1) % len(POLICIES)]
        command = f"python -m tests.faults chaos --seed {number} --seconds {lasting:g} --only {policy}"
        sums.add(number, run_seed(number, lasting, policy=policy, mutant=mutant), command)
        if seed is not None or time.monotonic() - began > TOTAL_S[scale]:
            break
        number += 1
    given = {"seed": seed, "seconds": seconds, "only": only}
    words = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
    return _result(sums, f"python -m tests.faults chaos --scale {scale}{words}", time.monotonic() - began)


def _result(sums: _Sums, command: str, seconds: float) -> Result:
    all_of = [outcome.judgement for outcome in sums.outcomes.values()]
    return Result(
        name="chaos",
        command=command,
        runs=len(all_of),
        unit="seeds",
        seeds=f"{min(sums.outcomes)}..{max(sums.outcomes)}",
        faults=dict(sorted(sums.faults.items())),
        figures={"handler runs that ended well": sum(one.runs for one in all_of)},
        problems=sums.problems,
        seconds=seconds,
        **totals(all_of),
    )
