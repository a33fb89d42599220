"""Scenario `cluster`: what a message costs on a cluster of 1, 2 and 3 primaries, beside one server, in processor time.

All of it runs on one machine, so rates show nothing of what more primaries can carry: what counts is the CPU time a
message, of all nodes together (INFO) and of the clients. The load of each case is the same:

    append  one by one, by this process
    batch   the rest with `append_many`, by this process
    drain   by consumer processes that begin together; handlers note their message and do nothing else

A run counts only if every message was handled once and in order.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Annotated, Any

import typer

from sequencer import Message, Sequencer
from sequencer.server.cluster import EmbeddedCluster

from ..kit.report import show_range
from ..kit.rounds import Run, Turn, measured, server_work, show, show_valid, wrong_in
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario
from ..load.order_check import Handled
from ..load.workload import Spread, Workload

QUEUE = "bench"
CASES = ("server, 1 shard", "server, 16 shards", "1 primary", "2 primaries", "3 primaries")
COSTS = [f"{phase} {who} us" for phase in ("append", "batch", "drain") for who in ("client", "nodes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure."""

    messages: int
    groups: int
    consumers: int
    concurrency: int | None
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(messages=40_000, groups=1000, consumers=2, concurrency=None, runs=3, warmup=0)
SMOKE = replace(USUAL, messages=300, groups=20, runs=1)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """Raises ServerError."""
    return measured(parameters, CASES, lambda case, turn: run_case(url, parameters, case, turn), on_run)


@contextmanager
def places(server: str, case: str) -> Iterator[tuple[str, list[str]]]:
    """Where to connect to, and the URL of each node."""
    if case.startswith("server"):
        yield server, [server]
        return
    with (
        tempfile.TemporaryDirectory(prefix="sequencer-bench-") as name,
        EmbeddedCluster(name, int(case.split()[0])) as cluster,
    ):
        yield cluster.url, [cluster.node(port).url for port in cluster.ports]


def run_case(server: str, parameters: Parameters, case: str, turn: Turn) -> Run:
    workload, spent = Workload(Spread(parameters.groups), parameters.messages, 1, turn.seed), dict[str, float]()
    planned: list[dict[str, Any]] = [
        {"body": one.body(), "group": one.group, "id": one.id} for one in workload.planned(0)
    ]
    singly, batch = planned[: len(planned) // 4], planned[len(planned) // 4 :]
    with ExitStack() as stack:
        url, nodes = stack.enter_context(places(server, case))
        shards = 1 if case.endswith("1 shard") else 16
        queue = stack.enter_context(Sequencer(QUEUE, url, namespace="bench", shards=shards))
        stack.callback(queue.delete)

        def cost(phase: str, messages: int, work: Callable[[], float]) -> None:
            """`work` returns the CPU time of the clients."""
            before = sum(server_work(one).cpu_s for one in nodes)
            client_s = work()
            nodes_s = sum(server_work(one).cpu_s for one in nodes) - before
            spent[f"{phase} client us"], spent[f"{phase} nodes us"] = (1e6 * s / messages for s in (client_s, nodes_s))

        def append() -> float:
            began = time.process_time()
            for one in singly:
                queue.append(**one)
            return time.process_time() - began

        def append_many() -> float:
            began = time.process_time()
            queue.append_many(batch)
            return time.process_time() - began

        handled = list[Handled]()

        def drain() -> float:
            given = [(url, parameters.concurrency)] * parameters.consumers
            with ProcessPoolExecutor(parameters.consumers, get_context("spawn")) as pool:
                done = [one.result() for one in [pool.submit(consume, *words) for words in given]]
            handled.extend(row for rows, _ in done for row in rows)
            return sum(cpu_s for _, cpu_s in done)

        cost("append", len(singly), append)
        cost("batch", len(batch), append_many)
        cost("drain", len(planned), drain)
    seconds = max(one.ended for one in handled) - min(one.started for one in handled)
    spent["drained a second"] = len(handled) / seconds
    problem = wrong_in(workload.numbers(), handled)
    return Run(case=case, turn=turn, messages=len(planned), problem=problem, single=spent)


def consume(url: str, concurrency: int | None) -> tuple[list[Handled], float]:
    """In a process of its own, until the queue is empty: what was handled, and its CPU time."""
    rows, clock, began = list[Handled](), time.monotonic, time.process_time()

    def handle(message: Message) -> None:
        now = clock()
        rows.append(Handled(message.group[0], message.id, message.score, message.stamp, message.token, now, now))

    with Sequencer(QUEUE, url, namespace="bench") as queue:
        queue.consume(handle, until_empty=True, concurrency=concurrency)
    return rows, time.process_time() - began


def tables(summary: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    rows = [
        [
            entry["case"],
            show_valid(entry),
            *[show(entry["figures"].get(name), 1) for name in COSTS],
            show_range(entry["figures"].get("drained a second")),
        ]
        for entry in summary
    ]
    yield "CPU us a message: median (min..max)", ["", "valid runs", *COSTS, "drained a second"], rows


SCENARIO = Scenario("cluster", USUAL, SMOKE, measure, lambda runs: summarise_runs(runs, lambda _: CASES[0]), tables)


@SCENARIO.command
def command(
    usual: Parameters,
    messages: Annotated[int | None, typer.Option(min=100, max=10**7, help="[40000; smoke: 300]")] = None,
    consumers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes.  [2]")] = None,
    concurrency: Annotated[int | None, typer.Option(min=2, max=1000, help="Worker slots of each.  [none]")] = None,
) -> Parameters:
    """CPU time a message on clusters of 1, 2 and 3 primaries, beside one server."""
    return replace(
        usual,
        messages=messages or usual.messages,
        consumers=consumers or usual.consumers,
        concurrency=concurrency,
    )
