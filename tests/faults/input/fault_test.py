"""Input: whatever is passed, stored by others, or answered, no crash other than our own errors, no two groups under one
key, nothing half written.

Inputs of hypothesis, a batch for each seed: values and options, appends on a real server, records that others changed,
replies that are wrong, command lines. Beside them a coverage-guided fuzzer, where it is installed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sequencer.errors import ServerNotUsable

from ..report import Result, Scale
from .fuzz import BYTES, INSTALL, MADE, is_installed, run_fuzzer

if TYPE_CHECKING:
    from .explore import Findings, Target

EFFECTS = (
    "bad value refused",
    "append refused",
    "record changed",
    "reply refused",
    "reply replaced",
    "command refused",
)
"""What must have taken effect, or nothing was tried."""
NIGHTLY_S = 900.0
FUZZ_PART = 0.4
"""The part of a time limit that the fuzzer gets."""
RUNS = 10_000_000
"""A bound on a fuzzer's executions, far beyond what its time allows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done: batches by seed, or as many as fit into the time; and seconds for each fuzzed target."""

    seeds: int
    fuzzed: Sequence[str]
    fuzz_s: float
    seconds: float | None = None
    """After which no further batch is begun."""


ALL = (*BYTES, *MADE)
PLANS: Mapping[Scale, Plan] = {
    "smoke": Plan(1, ("records",), 1.0),
    "ci": Plan(2, ("letters", "group names", "groups", "bodies"), 1.0, 12.0),
    "nightly": Plan(1_000_000, ALL, NIGHTLY_S * FUZZ_PART / len(ALL), NIGHTLY_S * (1 - FUZZ_PART)),
}


def run(scale: Scale, *, seed: int | None = None, seconds: float | None = None) -> Result:
    """Attempt inputs at this scale; `seed`: that batch alone, and the fuzzer with that seed; `seconds`: for so long."""
    name, command = "input", f"python -m tests.faults input --scale {scale}"
    if importlib.util.find_spec("hypothesis") is None:
        return Result(name=name, command=command, skipped="hypothesis is missing: pip install --group test")
    from .explore import Findings

    plan, began, findings = PLANS[scale], time.monotonic(), Findings()
    if seconds is not None:
        plan = Plan(1_000_000, plan.fuzzed, seconds * FUZZ_PART / len(plan.fuzzed), seconds * (1 - FUZZ_PART))
    first, seeds = (0, plan.seeds) if seed is None else (seed, 1)
    try:
        done = _batches(findings, first, seeds, plan.seconds)
    except ServerNotUsable as error:
        return Result(name=name, command=command, skipped=str(error))
    figures = _fuzz(findings, plan, first)
    idle = [what for what in EFFECTS if not findings.effects[what]]
    nothing = [f"{what}: not once, so nothing was shown; repeat: {command}" for what in idle if not findings.problems]
    return Result(
        name=name,
        command=command,
        runs=sum(findings.tried.values()),
        unit="inputs",
        seeds=f"{first}..{first + done - 1}",
        faults=dict(findings.effects),
        figures={"inputs": dict(findings.tried), **figures},
        problems=[*findings.problems.values(), *nothing],
        seconds=time.monotonic() - began,
    )


def all_targets(made: Any) -> list[Target]:
    """Every target, on this bench."""
    from . import calls, cli, records, replies, settings, values

    found = [*values.targets(), *settings.targets()]
    on_server = (calls, records, replies, cli)
    return [*found, *[target for module in on_server for target in module.targets(made)]]


def _batches(findings: Findings, first: int, seeds: int, seconds: float | None) -> int:
    """One batch of each target for each seed, until the time is over; how many seeds there were."""
    from .bench import bench
    from .explore import explore

    until = None if seconds is None else time.monotonic() + seconds
    with bench() as made:
        targets = all_targets(made)
        for count in range(seeds):
            for target in targets:
                explore(target, first + count, findings)
            if until is not None and time.monotonic() >= until:
                return count + 1
    return seeds


def _fuzz(findings: Findings, plan: Plan, seed: int) -> dict[str, Any]:
    if not is_installed():
        return {"coverage-guided": f"left out, because atheris is not installed: {INSTALL}"}
    figures: dict[str, Any] = {}
    for name in plan.fuzzed:
        done = run_fuzzer(name, plan.fuzz_s, RUNS, seed, findings)
        figures[f"fuzzed {name}"] = {
            "executions": done.executions,
            "coverage": done.coverage,
            "features": done.features,
        }
    return figures
