"""Scenario `consumers`: what more consumer processes do to the total, while most of them have nothing to do.

The same work with 1, 2, 4, 8 and 32 consumer processes, whose handlers do nothing:

    drain   a backlog over 100 groups is there before; the rate runs from `go` to consumers that are connected, to the
            end of the last handler
    stream  the queue is empty, the consumers wait, and one producer appends one by one on a steady beat; the rate runs
            from its first append to the end of the last handler, and shows whether it was kept

For each the server's CPU time per message (INFO, user and system, of appends too in `stream`), and from INFO
commandstats the calls per message: `claims` are calls of scripts by EVALSHA and EVAL, without the appends; `waits` are
calls of BLPOP, each of which ends when its consumer wakes up. Consumers that wake up for nothing (a herd) would show in
all of them. The totals are to be those of one consumer, within what the machine can do: its processes share
processors. A run counts only if every message was handled once and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..kit.phase import limit_s, wait_drained
from ..kit.report import show_range
from ..kit.rounds import Run, Turn, Work, measured, placed, server_work, show, show_valid, wrong_in
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario
from ..load.arrivals import MODULE, delays, numbers_of
from ..load.fleet import Fleet, MemberFailed
from ..load.history import read_history
from ..load.member import Role
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus
from ..load.task import Task, scratch
from ..load.workload import Spread, Workload

Kind = Literal["drain", "stream"]
KINDS: tuple[Kind, ...] = ("drain", "stream")
SCRIPTS = ("evalsha", "eval")
SETTLE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `rate` in messages a second."""

    consumers: tuple[int, ...]
    backlog: int
    rate: int
    seconds: float
    groups: int
    runs: int
    warmup: int
    placement: Placement = "free"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(consumers=(1, 2, 4, 8, 32), backlog=100_000, rate=1000, seconds=4.0, groups=100, runs=5, warmup=1)
SMOKE = replace(USUAL, consumers=(1, 3), backlog=500, rate=300, seconds=0.6, groups=10, runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the cases in turn within each round. Raises ServerError."""
    cases = [(kind, consumers) for kind in KINDS for consumers in parameters.consumers]
    with placed(url, parameters.placement):
        return measured(parameters, cases, lambda case, turn: run_case(url, parameters, *case, turn.seed), on_run)


def name_of(kind: Kind, consumers: int) -> str:
    """What a case is called."""
    return f"{kind}, {consumers}"


def run_case(url: str, parameters: Parameters, kind: Kind, consumers: int, seed: int) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    messages = parameters.backlog if kind == "drain" else max(2, round(parameters.rate * parameters.seconds))
    workload, cpus = Workload(Spread(parameters.groups), messages, 1, seed), client_cpus(parameters.placement)
    patience_s, began, problem = limit_s(messages) + parameters.seconds, 0.0, ""
    numbers, work = {"rate": parameters.rate, "is_steady": 1}, Work(0.0, {})
    with scratch(url) as (namespace, directory):
        sent_file = directory / "producer.json"
        histories = [directory / f"consumer-{index}.json" for index in range(consumers)]

        def task(role: Role, play: str, path: str) -> Task:
            return Task("sequencer", role, url, namespace, workload, 0, path, MODULE, play, numbers)

        play = "fill" if kind == "drain" else "produce"
        try:
            with (
                Fleet([task("produce", play, str(sent_file))], cpus) as producers,
                Fleet([task("consume", "consume", str(path)) for path in histories], cpus) as drainers,
            ):
                producers.wait_ready()
                drainers.wait_ready()
                if kind == "drain":
                    producers.go()
                    producers.wait(patience_s)
                before = server_work(url)
                began = drainers.go()
                if kind == "stream":
                    producers.go()
                    producers.wait(patience_s)
                problem = wait_drained(url, namespace, drainers, patience_s)
                work = server_work(url).since(before)
                drainers.end()
                drainers.wait(patience_s)
        except MemberFailed as error:
            problem = problem or str(error)
        sent, handled = read_history([sent_file]), read_history(histories)
    run = assess(sent, handled, workload, kind, began, work, problem)
    return replace(run, case=name_of(kind, consumers), settings={"kind": kind, "consumers": consumers})


def assess(
    sent: Sequence[Handled],
    handled: Sequence[Handled],
    workload: Workload,
    kind: Kind,
    began: float,
    work: Work,
    problem: str = "",
) -> Run:
    """What the histories and the server's account show, as run 1. Pure."""
    expected, is_stream = workload.numbers(), kind == "stream"
    if is_stream and not problem and numbers_of(sent) != expected:
        problem = f"the producer appended {len(sent)} messages of {len(expected)}, or others"
    since = min((record.started for record in sent), default=began) if is_stream else began
    seconds = max((record.ended for record in handled), default=since) - since
    calls = sum(work.calls.get(name, 0) for name in SCRIPTS) - (len(expected) if is_stream else 0)
    single = {
        "cpu us": work.cpu_s * 1e6 / len(expected),
        "claims": calls / len(expected),
        "waits": work.calls.get("blpop", 0) / len(expected),
    }
    counts = [sum(record.consumer == name for record in handled) for name in {one.consumer for one in handled}]
    if seconds > 0:
        single["rate"] = len({(record.group, record.id) for record in handled}) / seconds
    if counts:
        single["busiest"] = max(counts) / len(handled)
    return Run(
        case="",
        turn=Turn(0, 1, False),
        messages=len(expected),
        problem=wrong_in(expected, handled, problem),
        single=single,
        samples={"from append": delays(sent, handled, SETTLE_S).from_append} if is_stream else {},
    )


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """Each case, in relation to the fewest consumers with the same work."""
    fewest = min((run.settings["consumers"] for run in runs), default=1)
    return summarise_runs(runs, lambda run: name_of(run.settings["kind"], fewest))


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rows = [
        [
            entry["settings"]["kind"],
            str(entry["settings"]["consumers"]),
            show_valid(entry),
            show_range(entry["figures"].get("rate")),
            show(entry["of_base"].get("rate")),
            show(entry["figures"].get("cpu us"), 1),
            show(entry["of_base"].get("cpu us")),
            show(entry["figures"].get("claims")),
            show(entry["figures"].get("waits")),
        ]
        for entry in summary
    ]
    columns = ["work", "consumers", "valid runs", "messages/s", "of 1", "server us", "of 1", "claims", "waits"]
    yield "Total rate; the server's CPU us, claims and waits a message: median (min..max)", columns, rows


SCENARIO = Scenario("consumers", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(usual: Parameters) -> Parameters:
    """Total rate and server CPU with 1 to 32 consumer processes, most of them idle."""
    return usual
