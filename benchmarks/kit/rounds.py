"""What scenarios that compare cases have in common: turns, one run of a case, ratios within a round, cells.

A case is one setting of a scenario ("8 consumers"); a round runs each case once, every other round in the opposite
order, so that neither a slow minute nor the place in the round falls on one of them. A run with a message lost, handled
twice or out of order counts for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

import typer

from sequencer.doctor.server import parse_info
from sequencer.errors import ConfigurationError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

from ..load.judge import FAULTS
from ..load.order_check import Handled, check_history
from ..load.placement import Placement, parse, place, server_cpus
from .report import median_min_max
from .times import quantiles

T = TypeVar("T")
Where = Annotated[
    str | None, typer.Option("--placement", help="Processors: apart, together or free.  [apart; with --redis: free]")
]


@dataclass(frozen=True, slots=True)
class Turn:
    """One round: the seed of its workloads, and its number among those that are reported."""

    seed: int
    index: int
    is_warmup: bool


def turns(warmup: int, runs: int) -> Iterator[Turn]:
    """The rounds, those of the warm-up first."""
    for seed in range(warmup + runs):
        is_warmup = seed < warmup
        yield Turn(seed, seed + 1 - (0 if is_warmup else warmup), is_warmup)


def in_turn(cases: Sequence[T], turn: Turn) -> Sequence[T]:
    """The cases in the order of this round."""
    return cases[::-1] if turn.seed % 2 else cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one case. `samples` are lists of single values, of which the JSON keeps the quantiles only."""

    case: str
    turn: Turn
    messages: int
    problem: str = ""
    single: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str = "sequencer"

    @property
    def is_valid(self) -> bool:
        return not self.problem

    @property
    def figures(self) -> dict[str, float]:
        """All figures of the run by name; a quantile is called `SAMPLES p99`."""
        spread = {
            f"{name} {which}": value
            for name, values in self.samples.items()
            for which, value in (quantiles(values) or {}).items()
        }
        return {**self.single, **spread}

    def line(self) -> str:
        """The run in one line, with what went wrong."""
        which = "warm-up" if self.turn.is_warmup else f"run {self.turn.index}"
        said = ", ".join(f"{name} {value:,.4g}" for name, value in self.figures.items())
        return f"{self.case}, {self.system}, {which}: {'not valid: ' + self.problem if self.problem else said}"

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "system": self.system,
            "run": self.turn.index,
            "is_warmup": self.turn.is_warmup,
            "is_valid": self.is_valid,
            "problem": self.problem,
            "messages": self.messages,
            "settings": dict(self.settings),
            "figures": self.figures,
        }


def wrong_in(numbers: Mapping[tuple[str, str], int], handled: Sequence[Handled], problem: str = "") -> str:
    """What is wrong with a history, in words, after what is known already; "" when nothing is. Pure.

    `numbers` has each (group, id) with its place in its group, as the producer appended it: neither score nor stamp of
    the system's own counts, since a system that gave them wrongly and kept to them would look fine.
    """
    known = [record._replace(score=0.0, stamp=numbers.get((record.group, record.id), 0)) for record in handled]
    verdict = check_history(numbers, known)
    counts = [f"{count} {name.replace('_', ' ')}" for name in FAULTS if (count := getattr(verdict, name))]
    case = [f"for example {verdict.cases[0]}"] if verdict.cases else []
    return "; ".join([*([problem] if problem else []), *counts, *case])


def measured(
    parameters: Any, cases: Sequence[T], run: Callable[[T, Turn], Run], on_run: Callable[[Run], None]
) -> list[Run]:
    """All runs, the cases in turn within each round. The parameters have `warmup` and `runs`. Raises ServerError."""
    runs = []
    for turn in turns(parameters.warmup, parameters.runs):
        for case in in_turn(cases, turn):
            runs.append(replace(run(case, turn), turn=turn))
            on_run(runs[-1])
    return runs


# -- the server ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """What a server has done, ever or since another look: seconds of CPU, and how often each command ran."""

    cpu_s: float
    calls: Mapping[str, int]

    def since(self, earlier: Work) -> Work:
        calls = {name: count - earlier.calls.get(name, 0) for name, count in self.calls.items()}
        return Work(self.cpu_s - earlier.cpu_s, {name: count for name, count in calls.items() if count})


def server_work(url: str) -> Work:
    """The server's own account of its work; nothing is reset. Raises ServerError."""
    link = Link(Endpoint.from_url(url))
    try:
        cpu, stats = (parse_info(link.command("INFO", part).decode()) for part in ("cpu", "commandstats"))
    finally:
        link.close()
    calls = {
        name.removeprefix("cmdstat_"): int(text.partition("calls=")[2].partition(",")[0])
        for name, text in stats.items()
        if name.startswith("cmdstat_")
    }
    return Work(float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]), calls)


def chosen_placement(text: str | None, redis: str | None) -> Placement:
    """`apart` unless said otherwise; a server that is not our own is placed only when asked. Raises BadParameter."""
    try:
        return parse(text) if text else "free" if redis else "apart"
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--placement") from None


@contextmanager
def placed(url: str, placement: Placement) -> Iterator[None]:
    """The server on its processor for the time of the block, then where it was. Raises ServerError."""
    cpus = server_cpus(placement)
    if not cpus:
        yield
        return
    link = Link(Endpoint.from_url(url))
    try:
        pid = int(parse_info(link.command("INFO", "server").decode())["process_id"])
    finally:
        link.close()
    try:
        before = os.sched_getaffinity(pid)
        place(pid, cpus)
    except OSError as error:
        raise ConfigurationError(f"server process {pid} can't be placed ({error}); use --placement free") from error
    try:
        yield
    finally:
        place(pid, before)


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: Sequence[Run], base: Callable[[Run], str | None] = lambda _run: None) -> list[dict[str, Any]]:
    """For each case and system: figures of the valid runs, without the warm-up, and each over that of the base case.

    `base` says which case a run is set in relation to, or None. Only runs of the same round are.
    """
    measured: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if not run.turn.is_warmup:
            measured.setdefault((run.case, run.system), []).append(run)
    places = list(dict.fromkeys(run.case for run in sorted(runs, key=lambda run: run.turn.seed)))
    summary = []
    for (case, system), some in sorted(measured.items(), key=lambda item: places.index(item[0][0])):
        valid = [run for run in some if run.is_valid]
        name = base(some[0])
        its = {run.turn.index: run.figures for run in measured.get((name or "", system), []) if run.is_valid}
        pairs = [(run.figures, its[run.turn.index]) for run in valid if run.turn.index in its]
        names = list(dict.fromkeys(figure for run in valid for figure in run.figures))
        samples = {sample: [x for run in valid for x in run.samples[sample]] for sample in some[0].samples}
        summary.append(
            {
                "case": case,
                "system": system,
                "settings": dict(some[0].settings),
                "messages": sum(run.messages for run in valid),
                "runs": len(some),
                "valid_runs": len(valid),
                "figures": {each: median_min_max(run.figures.get(each) for run in valid) for each in names},
                "all_runs": {sample: quantiles(values) for sample, values in samples.items()},
                "base": name,
                "of_base": {each: ratio(pairs, each) for each in names} if name else {},
            }
        )
    return summary


def ratio(pairs: Sequence[tuple[dict[str, float], dict[str, float]]], name: str) -> dict[str, float] | None:
    """One figure of each pair of the same round, the first over the second."""
    return median_min_max(mine[name] / its[name] for mine, its in pairs if name in mine and its.get(name))


def show(found: Mapping[str, float] | None, digits: int = 2) -> str:
    """`median (min..max)` with this many decimals, or only the one number when all are the same."""
    if found is None:
        return "-"
    low, middle, high = (f"{found[name]:,.{digits}f}" for name in ("min", "median", "max"))
    return middle if low == high else f"{middle} ({low}..{high})"


def show_valid(entry: Mapping[str, Any]) -> str:
    return f"{entry['valid_runs']} of {entry['runs']}"
