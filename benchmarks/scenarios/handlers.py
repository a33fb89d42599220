"""Scenario `handlers`: how much of their time slow handlers are busy, with 8 consumers under one supervisor.

A backlog is there before, evenly spread over many groups, or over just as many as there are consumers; what
`sequencer consume -n 8` runs (the same supervisor and the same consumer processes, with default options) then drains
it, with handlers that sleep 1 ms, 20 ms or 1 s. The queue is paused until all consumers are connected, so that their
start-up does not count.

The steady part is the time in which as many groups as there are consumers still had a message that was not begun: as
long as that is so, every handler could be busy, and after it order alone keeps some of them idle. It begins with the
first of all handlers; that the others begin later counts against the figure. It ends when the number of groups that
have something left falls below that of the consumers.

    busy   time spent in handlers in the steady part, over consumers x its length: the figure
    ideal  the same with each handler counted as what it was asked to sleep: a sleep that takes longer, because the
           machine is busy, counts in `busy` and not here
    sleep  how long a handler took, over what it was asked to sleep

A run counts only if every message was handled once and in order, and if each consumer handled some.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from sequencer.client import Sequencer
from sequencer.processes.pool import Pool
from sequencer.processes.supervisor import Supervisor
from sequencer.processes.worker.config import WorkerConfig
from sequencer.testing import wait_until

from ..kit.phase import limit_s, wait_drained
from ..kit.rounds import Run, Turn, measured, placed, show, show_valid, summarise, wrong_in
from ..kit.scenario import Scenario
from ..load.fleet import READY_S, Fleet, MemberFailed
from ..load.history import read_history
from ..load.member import QUEUE
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus, place
from ..load.task import scratch
from ..load.workload import Planned

APP = "benchmarks.load.sleeper:handle"
TARGET = 0.95
"""Of their time, handlers are to be busy at least so much."""
END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure: each `work_s` with each number of groups."""

    work_s: tuple[float, ...]
    groups: tuple[int, ...]
    consumers: int
    seconds: float
    """What a backlog comes to at least, if all handlers are busy."""
    least: int
    """Messages for each consumer at least."""
    runs: int
    warmup: int
    placement: Placement = "free"

    def messages(self, work_s: float, groups: int) -> int:
        """How many are appended: as many for each group."""
        wanted = max(self.least * self.consumers, round(self.seconds / work_s * self.consumers))
        return -(-wanted // groups) * groups

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(work_s=(0.001, 0.02, 1.0), groups=(8, 100), consumers=8, seconds=5.0, least=10, runs=5, warmup=1)
SMOKE = replace(USUAL, work_s=(0.001, 0.02), groups=(3,), consumers=3, seconds=0.2, least=10, runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the cases in turn within each round. Raises ServerError."""
    cases = [(work_s, groups) for work_s in parameters.work_s for groups in parameters.groups]
    with placed(url, parameters.placement):
        return measured(parameters, cases, lambda case, _turn: run_case(url, parameters, *case), on_run)


def plan(parameters: Parameters, work_s: float, groups: int) -> list[Planned]:
    """The backlog: one message of each group after the other. Pure."""
    return [
        Planned(f"g{number % groups}", f"m{number}", number + 1)
        for number in range(parameters.messages(work_s, groups))
    ]


def run_case(url: str, parameters: Parameters, work_s: float, groups: int) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    messages, problem = plan(parameters, work_s, groups), ""
    with scratch(url) as (namespace, directory):
        more = {"work_s": work_s, "directory": str(directory)}
        with Sequencer(QUEUE, url, namespace=namespace) as queue:
            queue.pause()
            queue.append_many(
                {"group": [message.group], "id": message.id, "body": {**message.body(), **more}} for message in messages
            )
            try:
                with supervised(url, namespace, parameters):
                    queue.unpause()
                    problem = wait_drained(url, namespace, Fleet([]), limit_s(len(messages)) + 2 * parameters.seconds)
            except MemberFailed as error:
                problem = problem or str(error)
        handled = read_history(sorted(directory.glob("consumer-*.json")))
    run = assess(handled, messages, parameters.consumers, work_s, problem)
    settings = {"work_s": work_s, "groups": groups}
    return replace(run, case=f"{work_s * 1e3:g} ms, {groups} groups", settings=settings)


@contextmanager
def supervised(url: str, namespace: str, parameters: Parameters) -> Iterator[None]:
    """The supervisor and its consumers, connected; at the end they are told to stop. Raises MemberFailed."""
    config = WorkerConfig(queue=QUEUE, url=url, namespace=namespace, app=APP)
    pool = Pool(config, parameters.consumers, forward=lambda _event: True)
    supervisor = Supervisor([pool])
    status: list[int] = []

    def supervise() -> None:
        place(0, client_cpus(parameters.placement))  # this thread, and with it the processes that it starts
        status.append(supervisor.run())

    thread = threading.Thread(target=supervise, name="benchmark-supervisor")
    thread.start()
    try:
        wait_until(lambda: pool.is_ready, READY_S, "the consumers are connected")
        yield
        supervisor.stop()
        thread.join(END_S)
        if thread.is_alive() or status != [0] or pool.totals.died:
            raise MemberFailed("the consumers did not end well")
    finally:
        while thread.is_alive():  # each stop is a harder one
            supervisor.stop()
            thread.join(1.0)


def steady_part(handled: Sequence[Handled], messages: Sequence[Planned], consumers: int) -> tuple[float, float] | None:
    """From the first handler to when fewer groups than consumers have a message that was not begun. Pure."""
    last = {message.group: message.id for message in messages}
    # A group has nothing left from the moment at which its last message begins.
    used_up = sorted(record.started for record in handled if last.get(record.group) == record.id)
    if len(used_up) < max(consumers, len(last)):
        return None
    begin, end = min(record.started for record in handled), used_up[-consumers]
    return (begin, end) if end > begin else None


def assess(
    handled: Sequence[Handled], messages: Sequence[Planned], consumers: int, work_s: float, problem: str = ""
) -> Run:
    """What the history shows, as run 1. Pure."""
    part, single = steady_part(handled, messages, consumers), {}
    if part:
        begin, end = part
        whole_s = consumers * (end - begin)
        within_s = [max(0.0, min(record.ended, end) - max(record.started, begin)) for record in handled]
        taken_s = [record.ended - record.started for record in handled]
        single = {
            "busy": sum(within_s) / whole_s,
            "ideal": sum(part_s / all_s for part_s, all_s in zip(within_s, taken_s, strict=True)) * work_s / whole_s,
            "sleep": sum(taken_s) / len(taken_s) / work_s,
            "steady s": end - begin,
        }
    elif not problem:
        problem = "there was no steady part"
    working = len({record.consumer for record in handled})
    if not problem and working < consumers:
        problem = f"{working} of {consumers} consumers handled messages"
    return Run(
        case="",
        turn=Turn(0, 1, False),
        messages=len(messages),
        problem=wrong_in({(one.group, one.id): one.number for one in messages}, handled, problem),
        single=single,
    )


# -- what came out --------------------------------------------------------------------------------------------


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rows = [
        [
            f"{entry['settings']['work_s'] * 1e3:g} ms",
            str(entry["settings"]["groups"]),
            show_valid(entry),
            *(show(entry["figures"].get(name), 3) for name in ("busy", "ideal", "sleep")),
            show(entry["figures"].get("steady s"), 1),
        ]
        for entry in summary
    ]
    title = f"Part of their time that consumers spent in handlers: median (min..max); at least {TARGET}"
    yield title, ["handler", "groups", "valid runs", "busy", "ideal", "sleep / asked", "steady s"], rows


SCENARIO = Scenario("handlers", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(usual: Parameters) -> Parameters:
    """The part of their time that 8 consumers spend in handlers of 1 ms, 20 ms and 1 s."""
    return usual
