"""Consumers and supervisor stopped the way init systems, terminals and orchestrators do it; without a standard error;
with threads that linger, outputs that stand still, messages that kill.

Each case is run as it is, and must pass; then with its negative control, of which each must be found.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sequencer.server import EmbeddedServer

from ..report import Result, Scale
from ..server.host import Interrupted, is_ended, workplace
from . import cases_signals, cases_work
from .case import Case
from .scene import LeftOut, Scene

CASES: Sequence[Case] = [*cases_work.CASES, *cases_signals.CASES]
SIDE_BY_SIDE = 5
"""They wait more than they work."""
SMOKE = ("control-group", "stray-signal")
ROUNDS = {"smoke": 1, "ci": 1, "nightly": 20}
ATTEMPTS = 3
"""How often a case is run with a control, until that shows: a few controls depend on what comes first."""


@dataclass
class Seen:
    """What a case showed, as it is and with its controls."""

    runs: int = 0
    controls: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    left_out: str = ""
    seconds: float = 0.0


def run(scale: Scale, *, only: str | None = None) -> Result:
    """Run all cases with all controls, or the case `only`. Raises ValueError when there is no such case."""
    names = [case.name for case in CASES]
    if only not in (None, *names):
        raise ValueError(f"only={only!r} must be one of {', '.join(names)}")
    chosen = [case for case in CASES if only in (None, case.name) and (scale != "smoke" or only or case.name in SMOKE)]
    began = time.monotonic()
    seen = run_cases(chosen * ROUNDS[scale])
    left_out = sorted({f"{name}: {one.left_out}" for name, one in seen if one.left_out})
    slowest = sorted(((one.seconds, name) for name, one in seen), reverse=True)[:3]
    return Result(
        name="signals",
        command=f"python -m tests.faults signals --scale {scale}{f' --only {only}' if only else ''}",
        runs=sum(one.runs for _, one in seen),
        unit="cases",
        faults=dict(sum((one.faults for _, one in seen), Counter())),
        figures={
            "negative control found": sum(one.controls for _, one in seen),
            "slowest cases with their controls": ", ".join(f"{name} {seconds:.0f} s" for seconds, name in slowest),
            **({"left out": "; ".join(left_out)} if left_out else {}),
        },
        problems=tuple(dict.fromkeys(problem for _, one in seen for problem in one.problems)),
        seconds=time.monotonic() - began,
    )


def run_cases(cases: Sequence[Case]) -> list[tuple[str, Seen]]:
    """Run them a few at a time, each with its controls. However this ends, nothing of them goes on."""
    is_ended.clear()
    with (
        workplace() as directory,
        EmbeddedServer(directory / "server") as server,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):
        workers = [directory / str(number) for number in range(len(cases))]
        try:
            return list(pool.map(lambda case, worker: (case.name, _run_case(case, server.url, worker)), cases, workers))
        except BaseException:
            is_ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_case(case: Case, url: str, directory: Path) -> Seen:
    began, seen = time.monotonic(), Seen()
    for problem in _problems(case, url, directory, seen):
        seen.problems.append(f"{case.name}: {problem}; python -m tests.faults signals --only {case.name}")
    seen.seconds = time.monotonic() - began
    return seen


def _problems(case: Case, url: str, directory: Path, seen: Seen) -> Iterator[str]:
    try:
        problem = _play(case, Scene(url, directory / "real"), seen.faults)
    except LeftOut as why:
        seen.left_out = str(why)
        return
    seen.runs += 1
    if problem:
        yield problem
        return
    for control, shown in case.controls.items():
        for number in range(ATTEMPTS):
            problem = _play(case, Scene(url, directory / f"{control}-{number}", control), Counter())
            if shown in problem:
                break
        if not problem:
            yield f"the control {control!r} passes"
        elif shown not in problem:
            yield f"the control {control!r} is not found by {shown!r} but by: {problem}"
        else:
            seen.controls += 1


def _play(case: Case, scene: Scene, faults: Counter[str]) -> str:
    """One run; what was wrong in it, or nothing. Raises LeftOut, Interrupted."""
    try:
        case.play(scene)
    except (LeftOut, Interrupted):
        raise
    except Exception as error:
        return f"{error}" if isinstance(error, AssertionError) and error.args else f"{type(error).__name__}: {error}"
    finally:
        scene.close()
    faults.update(scene.faults)
    return ""
