"""Scenario `ordering`: how many messages a second, with every group in order, and what goes wrong.

Each run has two phases with fresh keys and fresh processes:

    mixed   producers append everything while consumers run; from `go` to the end of the last handler
    drain   the backlog is there before; from `go` to consumers that are connected, to the end of the last handler.
            Filling it gives the rate of appending alone

The naive version gets the same messages, fewer of them, since it handles each in several round trips.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..kit.phase import PHASES, RATES, PhaseName, Timing, limit_s, perform, wait_drained
from ..kit.report import median_min_max, show_range
from ..kit.rounds import turns
from ..kit.scenario import Scenario, parsed, spreads
from ..load.fleet import Fleet, MemberFailed
from ..load.history import read_history
from ..load.judge import FAULTS, Phase, judge
from ..load.member import Job, Role, System
from ..load.task import forget
from ..load.workload import ZIPF_GROUPS, Spread, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure."""

    scenarios: tuple[Spread, ...]
    messages: int
    naive_messages: int
    producers: int
    consumers: int
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "scenarios": [scenario.name for scenario in self.scenarios]}


USUAL = Parameters(
    scenarios=(Spread(1), Spread(100), Spread(5000), Spread(ZIPF_GROUPS, True)),
    messages=100_000,
    naive_messages=10_000,
    producers=2,
    consumers=2,
    runs=5,
    warmup=1,
)
SMOKE = replace(
    USUAL, scenarios=(Spread(100), Spread(ZIPF_GROUPS, True)), messages=400, naive_messages=200, runs=1, warmup=0
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one system: all phases count, or none."""

    scenario: Spread
    system: System
    index: int
    is_warmup: bool
    phases: tuple[Phase, ...]

    @property
    def is_valid(self) -> bool:
        return all(phase.is_valid for phase in self.phases)

    def line(self) -> str:
        """The run in one line, with what went wrong."""
        which = "warm-up" if self.is_warmup else f"run {self.index}"
        rates = ", ".join(f"{phase.name} {phase.rate or 0:,.0f}/s" for phase in self.phases)
        wrong = [f"{phase.name}: {text}" for phase in self.phases for text in phase.faults()]
        return f"{self.scenario.title}, {self.system}, {which}: {'not valid: ' + '; '.join(wrong) if wrong else rates}"

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name,
            "system": self.system,
            "run": self.index,
            "is_warmup": self.is_warmup,
            "is_valid": self.is_valid,
            "phases": {phase.name: phase.as_json() for phase in self.phases},
        }


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the systems in turn, so that a slow minute of the machine falls on both. Raises ServerError."""
    systems: list[System] = ["sequencer", "naive"]
    runs = []
    for spread in parameters.scenarios:
        for turn in turns(parameters.warmup, parameters.runs):
            for system in systems:
                messages = parameters.messages if system == "sequencer" else parameters.naive_messages
                workload = Workload(spread, messages, parameters.producers, seed=turn.seed)
                phases = tuple(run_phase(url, system, name, workload, parameters.consumers) for name in PHASES)
                run = Run(spread, system, turn.index, turn.is_warmup, phases)
                on_run(run)
                runs.append(run)
    return runs


def run_phase(url: str, system: System, name: PhaseName, workload: Workload, consumers: int) -> Phase:
    """One phase with processes and keys of its own, both gone afterwards. Raises ServerError."""
    namespace = f"bench-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory:
        histories = [Path(directory) / f"consumer-{index}.json" for index in range(consumers)]

        def job(role: Role, index: int, history: str = "") -> Job:
            return Job(system, role, url, namespace, workload, index, history)

        timing = Timing()
        try:
            with (
                Fleet([job("produce", index) for index in range(workload.active_producers)]) as producers,
                Fleet([job("consume", index, str(path)) for index, path in enumerate(histories)]) as drainers,
            ):
                perform(name, producers, drainers, workload.messages, timing)
                if system == "sequencer":
                    timing.problem = wait_drained(url, namespace, drainers, limit_s(workload.messages))
                drainers.end()
                drainers.wait(limit_s(workload.messages))
        except MemberFailed as error:
            timing.problem = timing.problem or str(error)
        finally:
            forget(url, namespace)
        handled = read_history(histories)
        return judge(name, workload, handled, timing.began, timing.append_rate, timing.problem)


# -- what came out --------------------------------------------------------------------------------------------

RATE_COLUMNS = ("groups", "system", "messages", "valid runs", *(f"{name}/s" for name in RATES))
FAULT_COLUMNS = ("groups", "system", "valid runs", *(name.replace("_", " ") for name in FAULTS))


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """For each scenario and system: rates of the valid runs, faults of all runs; the warm-up is left out of both."""
    measured: dict[tuple[Spread, System], list[Run]] = {}
    for run in runs:
        if not run.is_warmup:
            measured.setdefault((run.scenario, run.system), []).append(run)
    summary = []
    for (scenario, system), some in measured.items():
        valid = [dict(zip(PHASES, run.phases, strict=True)) for run in some if run.is_valid]
        totals = {name: [sum(getattr(phase, name) for phase in run.phases) for run in some] for name in FAULTS}
        summary.append(
            {
                "scenario": scenario.name,
                "title": scenario.title,
                "system": system,
                "messages": some[0].phases[0].messages,
                "runs": len(some),
                "valid_runs": len(valid),
                "rates": {
                    "mixed": median_min_max(run["mixed"].rate for run in valid),
                    "drain": median_min_max(run["drain"].rate for run in valid),
                    "append": median_min_max(run["drain"].append_rate for run in valid),
                },
                "faults": {
                    name: {**(median_min_max(counts) or {}), "total": sum(counts)} for name, counts in totals.items()
                },
            }
        )
    return summary


def rate_rows(summary: list[dict[str, Any]]) -> Iterator[list[str]]:
    """The table of rates, to RATE_COLUMNS."""
    for entry in summary:
        yield [
            entry["title"],
            entry["system"],
            f"{entry['messages']:,}",
            f"{entry['valid_runs']} of {entry['runs']}",
            *(show_range(entry["rates"][name]) for name in RATES),
        ]


def fault_rows(summary: list[dict[str, Any]]) -> Iterator[list[str]]:
    """The table of faults, to FAULT_COLUMNS."""
    for entry in summary:
        counts = (show_range(entry["faults"][name]) for name in FAULTS)
        yield [entry["title"], entry["system"], f"{entry['valid_runs']} of {entry['runs']}", *counts]


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, Sequence[str], Iterable[Sequence[str]]]]:
    """Title, columns and rows of each table."""
    yield "Messages a second: median (min..max) of the valid runs", RATE_COLUMNS, rate_rows(summary)
    yield "Faults in a run: median (min..max) of all runs but the warm-up", FAULT_COLUMNS, fault_rows(summary)


SCENARIO = Scenario("ordering", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(
    usual: Parameters,
    scenarios: Annotated[
        str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 100,zipf]")
    ] = None,
) -> Parameters:
    """Rates with every group in order: producers and consumers at once, and draining a backlog."""
    return replace(usual, scenarios=parsed("--scenarios", spreads, scenarios, usual.scenarios))
