"""Scenario `fairness`: what one group that never ends costs the others.

Many groups get messages one by one, at random times (see `arrivals`) with a mean rate that keeps the consumers busy for
the part `load` of their time; each handler takes 1 ms (it sleeps). Two cases take turns:

    alone   nothing else
    beside  one more group that always has messages, kept by a producer of its own. That group takes what handler time
            the others leave, a whole consumer at most, since its messages are handled one after the other

All else is the same in both: the schedule of the others' arrivals, the consumers, the handlers. The wait of a message
is the time from the moment before its append to the begin of its handler; the figure is the ratio of the others' p99
beside to that alone, in the same round. Messages due in the first `settle_s` are judged but not counted: the group is
filled then. A run counts only if every message, of the hot group too, was handled once and in order, and if the hot
group never ran empty before the last of the others was appended.

`hot share` is its part of all messages that were handled meanwhile (with two consumers about one half), `busy` the part
of their time that consumers spent in handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..kit.phase import limit_s, wait_drained
from ..kit.rounds import Run, Turn, measured, placed, show, show_valid, wrong_in
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario
from ..load.arrivals import HOT, MODULE, delays, numbers_of, reached
from ..load.fleet import Fleet, MemberFailed
from ..load.history import read_history
from ..load.member import Role
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus
from ..load.task import Task, scratch
from ..load.workload import Spread, Workload

Kind = Literal["alone", "beside"]
KINDS: tuple[Kind, ...] = ("alone", "beside")
TARGET = 2.0
"""The p99 wait beside the hot group is to be at most so many times that alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `load` is the part of the consumers' time that the other groups' handlers take."""

    consumers: tuple[int, ...]
    load: float
    work_s: float
    seconds: float
    settle_s: float
    groups: int
    runs: int
    warmup: int
    placement: Placement = "free"

    def rate(self, consumers: int) -> float:
        """Messages a second of the other groups together."""
        return self.load * consumers / self.work_s

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rates": {str(n): self.rate(n) for n in self.consumers}}


USUAL = Parameters(consumers=(1, 2), load=0.6, work_s=0.001, seconds=10.0, settle_s=1.0, groups=1000, runs=5, warmup=1)
SMOKE = replace(USUAL, consumers=(2,), load=0.2, seconds=0.6, settle_s=0.2, groups=20, runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the cases in turn within each round. Raises ServerError."""
    cases = [(consumers, kind) for consumers in parameters.consumers for kind in KINDS]
    with placed(url, parameters.placement):
        return measured(parameters, cases, lambda case, turn: run_case(url, parameters, *case, turn.seed), on_run)


def name_of(consumers: int, kind: Kind) -> str:
    """What a case is called."""
    return f"{consumers} consumer{'s' if consumers > 1 else ''}, {kind}"


def run_case(url: str, parameters: Parameters, consumers: int, kind: Kind, seed: int) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    rate, cpus, problem = parameters.rate(consumers), client_cpus(parameters.placement), ""
    workload = Workload(Spread(parameters.groups), max(2, round(rate * parameters.seconds)), 1, seed)
    patience_s, numbers = limit_s(workload.messages) + parameters.seconds, {"rate": rate, "work_s": parameters.work_s}
    with scratch(url) as (namespace, directory):
        sent_file, hot_file = directory / "producer.json", directory / "hot.json"
        histories = [directory / f"consumer-{index}.json" for index in range(consumers)]

        def task(role: Role, play: str, path: Path) -> Task:
            return Task("sequencer", role, url, namespace, workload, 0, str(path), MODULE, play, numbers)

        try:
            with ExitStack() as stack:
                hot = stack.enter_context(Fleet([task("produce", "hot", hot_file)] if kind == "beside" else [], cpus))
                producers = stack.enter_context(Fleet([task("produce", "produce", sent_file)], cpus))
                drainers = stack.enter_context(Fleet([task("consume", "consume", path) for path in histories], cpus))
                for fleet in (hot, producers, drainers):
                    fleet.wait_ready()
                for fleet in (hot, drainers, producers):
                    fleet.go()
                producers.wait(patience_s)
                hot.end()
                hot.wait(patience_s)
                problem = wait_drained(url, namespace, drainers, patience_s)
                drainers.end()
                drainers.wait(patience_s)
        except MemberFailed as error:
            problem = problem or str(error)
        sent, filled, handled = read_history([sent_file]), read_history([hot_file]), read_history(histories)
    run = assess(sent, filled, handled, workload, parameters.settle_s, consumers, kind, problem)
    settings = {"consumers": consumers, "kind": kind, "rate": rate}
    return replace(run, case=name_of(consumers, kind), settings=settings)


def assess(
    sent: Sequence[Handled],
    filled: Sequence[Handled],
    handled: Sequence[Handled],
    workload: Workload,
    settle_s: float,
    consumers: int,
    kind: Kind,
    problem: str = "",
) -> Run:
    """What the histories show, as run 1: `sent` of the others' producer, `filled` of the hot group's. Pure."""
    expected = workload.numbers()
    if not problem and numbers_of(sent) != expected:
        problem = f"the producer appended {len(sent)} messages of {len(expected)}, or others"
    if kind == "beside" and not problem:
        problem = ran_empty(filled, max((record.started for record in sent), default=0.0))
    found = delays(sent, handled, settle_s)
    return Run(
        case="",
        turn=Turn(0, 1, False),
        messages=len(expected) + len(filled),
        problem=wrong_in({**expected, **numbers_of(filled)}, handled, problem),
        single={"rate": reached(sent), **shares(sent, handled, settle_s, consumers)},
        samples={"wait": found.from_append, "from due": found.from_due, "behind": found.behind},
    )


def ran_empty(filled: Sequence[Handled], until: float) -> str:
    """Whether the hot group was found without messages after it was first filled; in words, "" if not. Pure.

    `score` of a row: the messages that were left when it was appended.
    """
    if not filled:
        return "the hot group was never filled"
    first = min(record.started for record in filled)
    empty = {record.started for record in filled if first < record.started < until and not record.score}
    return f"the hot group was found empty {len(empty)} times" if empty else ""


def shares(sent: Sequence[Handled], handled: Sequence[Handled], settle_s: float, consumers: int) -> dict[str, float]:
    """While the others' messages that count were appended: the hot group's share, and the busy part. Pure."""
    begin = min((record.score for record in sent), default=0.0) + settle_s
    end = max((record.score for record in sent), default=0.0)
    some = [record for record in handled if begin <= record.started < end]
    if not some:
        return {}
    spent_s = sum(max(0.0, min(record.ended, end) - max(record.started, begin)) for record in handled)
    return {
        "hot share": sum(record.group == HOT for record in some) / len(some),
        "busy": spent_s / (consumers * (end - begin)),
    }


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """Each case, those beside the hot group in relation to those alone."""
    return summarise_runs(
        runs, lambda run: name_of(run.settings["consumers"], "alone") if run.settings["kind"] == "beside" else None
    )


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rows = [
        [
            f"{entry['settings']['consumers']}",
            entry["settings"]["kind"],
            show_valid(entry),
            f"{entry['settings']['rate']:,.0f}/s",
            *(show(entry["figures"].get(f"wait {which}"), 1) for which in ("p50", "p99", "max")),
            show(entry["of_base"].get("wait p99")) if entry["base"] else "1",
            show(entry["figures"].get("hot share")),
            show(entry["figures"].get("busy")),
        ]
        for entry in summary
    ]
    columns = [
        "consumers",
        "hot group",
        "valid runs",
        "others",
        "p50",
        "p99",
        "max",
        "p99 / alone",
        "hot share",
        "busy",
    ]
    yield f"Wait of the other groups' messages in ms; p99 beside over alone (at most {TARGET:g})", columns, rows


SCENARIO = Scenario("fairness", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(usual: Parameters) -> Parameters:
    """The wait of all other groups' messages with and without one group that never ends."""
    return usual
