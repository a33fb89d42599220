"""Scenario `timers`: how late timers fire, and how many are lost, beside timers made of key-expiry events.

The same timers are set twice: as messages with a delay, and as keys with a time to live, whose expiry a process hears
of by `notify-keyspace-events`. Half of them have a group of their own, the others share SHARED groups. Two phases:

    load  timers come due while the consumers also handle ordinary messages, which one producer appends one by one at a
          steady rate and each of which keeps a handler busy for a time; `busy` is the part of their time that
          consumers spent in handlers. The load begins `lead_s` before the first timer is due
    idle  every timer comes due while no consumer runs and nobody listens; they start `outage_s` after the last one

Lateness is the start of the handler, or the arrival of the event, minus the due time, by the server's clock; in phase
idle, minus the moment at which the consumers may begin (`go`), or the listener. Lost timers have not fired when the
queue is empty; an expiry event, `grace_s` after the last due time or after the listener began. A run of sequencer is
valid when every timer fired once and none before its time, and every message of the load was handled once and in order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ...kit.phase import limit_s, wait_drained
from ...kit.report import median_min_max
from ...kit.times import ServerClock, quantiles, server_clock, show_quantiles
from ...load.fleet import Fleet, MemberFailed
from ...load.history import read_history
from ...load.judge import FAULTS
from ...load.member import Role
from ...load.order_check import Handled, check_history
from ...load.task import Task, scratch
from ...load.workload import Spread, Workload
from .alerts import MODULE, TIMER, expiry_events, plan

System = Literal["sequencer", "key expiry"]
PhaseName = Literal["load", "idle"]
SYSTEMS: tuple[System, ...] = ("sequencer", "key expiry")
PHASES: tuple[PhaseName, ...] = ("load", "idle")
PROMISE_MS = 50.0
"""Timers are to fire within this under load."""
COUNTS = ("fired", "lost", "twice", "early", "over")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `rate` in messages a second, of ordinary messages over `groups` groups; times in seconds."""

    timers: int
    spread_s: float
    """Timers come due over this time, at random."""
    lead_s: float
    """The least delay of a timer: by then all are set, and the load runs."""
    outage_s: float
    grace_s: float
    rate: int
    work_s: float
    """How long each handler takes."""
    groups: int
    consumers: int
    runs: int

    @property
    def load_s(self) -> float:
        return self.lead_s + self.spread_s + 0.5

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(
    timers=1000,
    spread_s=5.0,
    lead_s=1.0,
    outage_s=1.0,
    grace_s=1.5,
    rate=1000,
    work_s=0.001,
    groups=100,
    consumers=2,
    runs=5,
)
SMOKE = replace(
    USUAL, timers=40, spread_s=0.1, lead_s=0.2, outage_s=0.3, grace_s=0.3, rate=100, groups=10, consumers=1, runs=1
)


@dataclass(frozen=True, slots=True)
class Run:
    """One phase of one system. Lateness in ms, of the first time that each timer fired."""

    system: System
    phase: PhaseName
    index: int
    timers: int
    fired: int
    lost: int
    twice: int
    early: int
    busy: float | None
    lateness: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def is_valid(self) -> bool:
        return not self.problem and not (self.lost or self.twice or self.early)

    @property
    def over(self) -> int:
        """How many fired later than PROMISE_MS."""
        return sum(ms > PROMISE_MS for ms in self.lateness)

    def line(self) -> str:
        """The run in one line."""
        counts = f"{self.fired} of {self.timers} fired, {self.lost} lost, {self.twice} twice, {self.early} early"
        found = quantiles(self.lateness)
        late = f"; ms late: p50 {found['p50']:.1f}, p99 {found['p99']:.1f}, max {found['max']:.1f}" if found else ""
        wrong = f"; {self.problem}" if self.problem else ""
        return f"{self.system}, {self.phase}, run {self.index}: {counts}{late}{wrong}"

    def as_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "lateness"}
        return {**plain, "is_valid": self.is_valid, "over": self.over, "late_ms": quantiles(self.lateness)}


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the systems in turn within each phase of each round. Raises ServerError.

    For key expiry the server's `notify-keyspace-events` is changed while it runs, and then put back.
    """
    runs = []
    with expiry_events(url):
        for number in range(parameters.runs):
            for phase in PHASES:
                for system in SYSTEMS:
                    run = replace(run_phase(url, parameters, system, phase, number), index=number + 1)
                    on_run(run)
                    runs.append(run)
    return runs


def run_phase(url: str, parameters: Parameters, system: System, phase: PhaseName, seed: int) -> Run:
    """One phase with processes and keys of its own, both gone afterwards. Raises ServerError."""
    clock, has_load = server_clock(url), phase == "load"
    # A workload of one producer, which sends at a steady rate here.
    workload = Workload(Spread(parameters.groups), round(parameters.rate * parameters.load_s) * has_load, 1, seed)
    numbers = {**asdict(parameters), "offset_s": clock.offset_s}
    setters = ["set" if system == "sequencer" else "expire", *(["load"] if has_load else [])]
    hearers = ["consume"] * (parameters.consumers if has_load or system == "sequencer" else 0)
    hearers += ["listen"] if system == "key expiry" else []
    began, problem = 0.0, ""
    with scratch(url) as (namespace, directory):

        def task(role: Role, kind: str, path: Path | str = "") -> Task:
            return Task("sequencer", role, url, namespace, workload, 0, str(path), MODULE, kind, numbers)

        histories = [directory / f"{kind}-{index}.json" for index, kind in enumerate(hearers)]
        producers = Fleet([task("produce", kind) for kind in setters])
        drainers = Fleet([task("consume", kind, path) for kind, path in zip(hearers, histories, strict=True)])

        def finish(until: float) -> str:
            patience_s = limit_s(parameters.timers + workload.messages)
            wrong = wait_drained(url, namespace, drainers, patience_s)
            if system == "key expiry":  # nothing says when the last event has come
                time.sleep(max(0.0, until - time.monotonic()))
            drainers.end()
            drainers.wait(patience_s)
            return wrong

        try:
            began, problem = (beside_load if has_load else after_outage)(producers, drainers, parameters, finish)
        except MemberFailed as error:
            problem = str(error)
        handled = read_history(histories)
    clock = clock.until(server_clock(url))
    since = None if has_load else began + clock.offset_s
    run = assess(handled, workload, parameters, system, clock, seed, since, problem)
    return replace(run, phase=phase, busy=busy(handled, parameters) if has_load else None)


Finish = Callable[[float], str]


def beside_load(producers: Fleet, drainers: Fleet, parameters: Parameters, finish: Finish) -> tuple[float, str]:
    """Timers come due while all run. When consumers began (CLOCK_MONOTONIC), and a problem. Raises MemberFailed."""
    with producers, drainers:
        producers.wait_ready()
        drainers.wait_ready()
        began = drainers.go()
        producers.go()
        producers.wait(limit_s(parameters.timers) + 3 * parameters.load_s)
        return began, finish(time.monotonic() + parameters.grace_s)


def after_outage(producers: Fleet, drainers: Fleet, parameters: Parameters, finish: Finish) -> tuple[float, str]:
    """The same with timers that come due before consumers begin. Raises MemberFailed."""
    with producers:
        producers.wait_ready()
        producers.go()
        producers.wait(limit_s(parameters.timers))
    time.sleep(parameters.lead_s + parameters.spread_s + parameters.outage_s)
    with drainers:
        drainers.wait_ready()
        began = drainers.go()
        return began, finish(began + parameters.grace_s)


def assess(
    handled: list[Handled],
    workload: Workload,
    parameters: Parameters,
    system: System,
    clock: ServerClock,
    seed: int,
    since: float | None,
    problem: str = "",
) -> Run:
    """What one history shows, as run 1; lateness from `since` by the server's clock, else from the due time. Pure."""
    expected = [(alert.group, alert.id) for alert in plan(seed, asdict(parameters))]
    fired = [record for record in handled if record.id.startswith(TIMER)]
    counts = Counter(record.id for record in fired)
    first: dict[str, Handled] = {}
    for record in sorted(fired, key=lambda record: record.started):
        first.setdefault(record.id, record)
    starts = {name: record.started + clock.offset_s for name, record in first.items()}
    faults = wrong_in(handled, [*expected, *workload.numbers()], workload) if system == "sequencer" else []
    return Run(
        system=system,
        phase="load",
        index=1,
        timers=len(expected),
        fired=len(first),
        lost=len({name for _, name in expected} - first.keys()),
        twice=sum(count > 1 for count in counts.values()),
        early=sum(starts[name] < record.score - clock.error_s for name, record in first.items()),
        busy=None,
        lateness=[(starts[name] - (since or record.score)) * 1e3 for name, record in first.items()],
        problem="; ".join([problem] * bool(problem) + faults),
    )


def wrong_in(handled: list[Handled], expected: list[tuple[str, str]], workload: Workload) -> list[str]:
    """What is wrong with the timers and the load taken together, in words. Pure."""
    numbers = workload.numbers()
    known = [record._replace(stamp=numbers.get((record.group, record.id), record.stamp)) for record in handled]
    verdict = check_history(expected, known)
    counts = [f"{count} {name.replace('_', ' ')}" for name in FAULTS if (count := getattr(verdict, name))]
    return counts + [f"for example {case}" for case in verdict.cases[:1]]


def busy(handled: list[Handled], parameters: Parameters) -> float:
    """The part of their time that consumers spent in handlers, while there was load."""
    spent = sum(record.ended - record.started for record in handled if record.token)
    return spent / (parameters.consumers * parameters.load_s)


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """For each phase and system: counts and lateness over all timers of all runs."""
    measured: dict[tuple[PhaseName, System], list[Run]] = {}
    for run in runs:
        measured.setdefault((run.phase, run.system), []).append(run)
    return [
        {
            "phase": phase,
            "system": system,
            "runs": len(some),
            "valid_runs": sum(run.is_valid for run in some),
            **{name: sum(getattr(run, name) for run in some) for name in ("timers", *COUNTS)},
            "busy": median_min_max(run.busy for run in some),
            "late_ms": quantiles([ms for run in some for ms in run.lateness]),
        }
        for (phase, system), some in measured.items()
    ]


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rows = [
        [
            entry["phase"],
            entry["system"],
            str(entry["runs"]),
            f"{entry['timers']:,}",
            *(f"{entry[name]:,}" for name in COUNTS[:-1]),
            f"{entry['over']:,}" if entry["phase"] == "load" else "-",
            *show_quantiles(entry["late_ms"]),
            f"{entry['busy']['median']:.0%}" if entry["busy"] else "-",
        ]
        for entry in summary
    ]
    names = [name.replace("over", f"> {PROMISE_MS:.0f} ms") for name in COUNTS]
    title = "Timers of all runs, and ms they were late; in phase idle, ms after consumers or listener began"
    yield title, ["phase", "system", "runs", "timers", *names, "p50", "p99", "max", "busy"], rows
