"""Input: whatever is passed, or stored by others, no crash other than our own errors, and nothing half written.

Inputs of hypothesis, a batch for each seed: appends on a server, records that others changed, command lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sequencer.errors import ServerNotUsable

from ..report import Result, Scale
from . import calls, cli, records
from .bench import bench
from .explore import Findings, Target, explore

EFFECTS = ("append refused", "record changed", "command refused")
"""What must have taken effect, or nothing was tried."""
MOST = 1_000_000
PLANS: Mapping[Scale, tuple[int, float]] = {"smoke": (1, 60.0), "ci": (2, 12.0), "nightly": (MOST, 600.0)}
"""Batches, and the seconds after which no further one is begun."""


def run(scale: Scale, *, seed: int | None = None, seconds: float | None = None) -> Result:
    """Attempt inputs at this scale; `seed`: that batch alone; `seconds`: for so long."""
    name, command, began, findings = (
        "input",
        f"python -m tests.faults input --scale {scale}",
        time.monotonic(),
        Findings(),
    )
    batches, limit_s = PLANS[scale] if seconds is None else (MOST, seconds)
    first, batches = (0, batches) if seed is None else (seed, 1)
    try:
        done = _batches(findings, first, batches, began + limit_s)
    except ServerNotUsable as error:
        return Result(name=name, command=command, skipped=str(error))
    idle = [what for what in EFFECTS if not findings.effects[what]]
    nothing = [f"{what}: not once, so nothing was shown; repeat: {command}" for what in idle if not findings.problems]
    return Result(
        name=name,
        command=command,
        runs=sum(findings.tried.values()),
        unit="inputs",
        seeds=f"{first}..{first + done - 1}",
        faults=dict(findings.effects),
        figures={"inputs": dict(findings.tried)},
        problems=[*findings.problems.values(), *nothing],
        seconds=time.monotonic() - began,
    )


def all_targets(made: Any) -> list[Target]:
    """Every target, on this bench."""
    return [*calls.targets(made), *records.targets(made), *cli.targets(made)]


def _batches(findings: Findings, first: int, batches: int, until: float) -> int:
    """One batch of each target for each seed, until the time is over; how many seeds there were."""
    with bench() as made:
        targets = all_targets(made)
        for count in range(batches):
            for target in targets:
                explore(target, first + count, findings)
            if time.monotonic() >= until:
                return count + 1
    return batches
