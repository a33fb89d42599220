"""Scenario `floor`: the server's processor time for each message, beside that of the same keys by plain commands.

`sequencer` appends a backlog with `append_many` and drains it with one consumer and a handler that does nothing, both
with their default options. The others write, read and delete the same keys and check nothing: `raw` by plain commands
in pipelined batches of 100, where all that concerns one key of a batch is one command: what this data model costs at
least (see `raw`); `singles` likewise, but each message has its own commands; `scripts` by scripts (see `scripted`):
what it costs at least with stamps and leases given by the server. They take turns, in the opposite order in every other
round, and each run has keys of its own. A figure is what INFO says of the server's processor time (user and system, all
threads) after a phase less before it, over the messages; what a run before left to be freed is waited for. So it
depends little on where processes run and on what else the machine does, unlike rates, which are given for sequencer
only.

The processor time of sequencer's own process, of all its threads, is measured from `go` to the end of the phase.

A run whose history shows a loss, a duplicate or a wrong order, by the order in which the producer appended, is not
valid. Of the others, every body read is compared with what was appended: else it would be a floor of less work.

It ends within the deduplication window (60 s): no generation of `dedup` is turned over in a run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sequencer.client import Sequencer
from sequencer.consume.forks import owner_name
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.values.message import Message

from ...kit.phase import limit_s
from ...kit.rounds import Run, Turn, in_turn, placed, show, show_valid, turns, wrong_in
from ...kit.server import Gauge
from ...load.fleet import Fleet, MemberFailed
from ...load.history import Row, read_history
from ...load.member import QUEUE, Parent
from ...load.placement import Placement, client_cpus
from ...load.task import Task, play, scratch
from ...load.workload import ZIPF_GROUPS, Spread, Workload
from . import raw, scripted

T = TypeVar("T")

MODULE = "benchmarks.scenarios.floor.trials"
SYSTEMS = ("sequencer", "scripts", "singles", "raw")
PHASES = ("append", "consume")
THREE = (*PHASES, "both")
SERVER, CLIENT, RATE = "us server", "us client", "/s"
MULTIPLES = (("sequencer", "raw"), ("sequencer", "singles"), ("sequencer", "scripts"), ("scripts", "raw"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure."""

    spreads: tuple[Spread, ...]
    messages: int
    placement: Placement
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "spreads": [spread.name for spread in self.spreads], "raw_batch": raw.BATCH}


USUAL = Parameters(
    spreads=(Spread(1), Spread(100), Spread(5000), Spread(ZIPF_GROUPS, True)),
    messages=50_000,
    placement="apart",
    runs=5,
    warmup=1,
)
SMOKE = replace(USUAL, spreads=(Spread(1), Spread(ZIPF_GROUPS, True)), messages=400, runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the systems in turn within each round. Raises ServerError."""
    runs = []
    with placed(url, parameters.placement):
        for spread in parameters.spreads:
            for turn in turns(parameters.warmup, parameters.runs):
                workload = Workload(spread, parameters.messages, 1, seed=turn.seed)
                found = {name: run_once(url, parameters, workload, turn, name) for name in in_turn(SYSTEMS, turn)}
                for name, other in MULTIPLES:
                    found[name] = over(found[name], found[other])
                for name in SYSTEMS:
                    on_run(found[name])
                    runs.append(found[name])
    return runs


def over(ours: Run, floor: Run) -> Run:
    """A run with its figures over those of another as well, if both are valid. Pure."""
    if not (ours.is_valid and floor.is_valid):
        return ours
    names = {f"{name} of {floor.system}": f"{name} {SERVER}" for name in THREE}
    ratios = {over: ours.single[name] / floor.single[name] for over, name in names.items() if floor.single.get(name)}
    return replace(ours, single={**ours.single, **ratios})


def run_once(url: str, parameters: Parameters, workload: Workload, turn: Turn, system: str) -> Run:
    """Both phases of one system with keys of its own, gone afterwards. Raises ServerError."""
    figures: dict[str, float] = {}
    problem = ""
    with scratch(url) as (namespace, directory), Gauge(url) as gauge:
        task = Task("sequencer", "produce", url, namespace, workload, module=MODULE)
        try:
            for phase in PHASES:
                kind = f"{phase} {system}"
                history = str(directory / "consumer.json") if kind == "consume sequencer" else ""
                numbers = {"result": str(directory / f"{phase}.json")}
                todo = replace(task, kind=kind, history=history, numbers=numbers)
                figures |= run_phase(gauge, todo, phase, client_cpus(parameters.placement))
            problem = json.loads((directory / "consume.json").read_text())["problem"]
        except MemberFailed as error:
            problem = str(error)
        if system == "sequencer":
            problem = wrong_in(workload.numbers(), read_history([directory / "consumer.json"]), problem)
        if not problem and (left := gauge.link.command("ZCARD", shard_keys(namespace, QUEUE, 0).schedule)):
            problem = f"{left} groups still had messages at the end"
    if not problem:
        figures[f"both {SERVER}"] = sum(figures[f"{phase} {SERVER}"] for phase in PHASES)
    return Run(
        case=workload.spread.title,
        turn=turn,
        messages=workload.messages,
        problem=problem,
        single={} if problem else figures,
        system=system,
    )


def run_phase(gauge: Gauge, task: Task, phase: str, cpus: set[int] | None) -> dict[str, float]:
    """One process that appends or consumes everything; the phase's figures. Raises MemberFailed, ServerError."""
    messages = task.workload.messages
    with Fleet([task], cpus) as fleet:
        fleet.wait_ready()
        gauge.settle()
        before = gauge.cpu_s()
        fleet.go()
        fleet.wait(limit_s(messages))
        spent_s = gauge.cpu_s() - before
    result = json.loads(Path(task.numbers["result"]).read_text())
    return {
        f"{phase} {SERVER}": spent_s / messages * 1e6,
        f"{phase} {CLIENT}": result["cpu_s"] / messages * 1e6,
        f"{phase} {RATE}": messages / result["wall_s"],
    }


# -- the processes --------------------------------------------------------------------------------------------


def timed(task: Task, parent: Parent, work: Callable[[], T], fault: Callable[[T], str] = lambda _: "") -> None:
    """Do the work when it is told to; time and processor time of this process meanwhile, and what is wrong then."""
    parent.ready(lambda: os._exit(1))
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    result = {"wall_s": wall, "cpu_s": cpu, "problem": fault(done)}
    Path(task.numbers["result"]).write_text(json.dumps(result))


def append_ours(task: Task, parent: Parent, _rows: list[Row]) -> None:
    items = [{"group": [m.group], "id": m.id, "body": m.body()} for m in task.workload.planned(0)]
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        timed(task, parent, lambda: queue.append_many(items))


def consume_ours(task: Task, parent: Parent, rows: list[Row]) -> None:
    """The handler is a list's `append`, the least that leaves something to judge: one process handles one at a time,
    so places in that list stand for times.
    """
    done: list[Message] = []
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        timed(task, parent, lambda: queue.consume(done.append, until_empty=True))
    rows += [(m.group[0], m.id, m.score, m.stamp, m.token, at, at + 0.5) for at, m in enumerate(done)]


def append_scripts(task: Task, parent: Parent, _rows: list[Row]) -> None:
    todo = scripted.chunks(task.workload.planned(0))
    scripts = scripted.Scripts(connected(task), keys_of(task).prefix)
    timed(task, parent, lambda: scripts.append(todo))


def consume_scripts(task: Task, parent: Parent, _rows: list[Row]) -> None:
    scripts = scripted.Scripts(connected(task), keys_of(task).prefix)
    timed(task, parent, lambda: scripts.consume(owner_name()), lambda found: fault(task, found))


def append_raw(task: Task, parent: Parent, _rows: list[Row], ask: raw.Ask = raw.ask) -> None:
    todo, link, keys = raw.batches(task.workload.planned(0)), connected(task), keys_of(task)
    timed(task, parent, lambda: [ask(link, keys, commands) for commands in raw.appends(keys, todo)])


def consume_raw(task: Task, parent: Parent, _rows: list[Row], ask: raw.Ask = raw.ask) -> None:
    todo, link, keys = raw.parts(task.workload.planned(0)), connected(task), keys_of(task)
    steps = raw.consumes(keys, todo, owner_name())
    timed(task, parent, lambda: raw.run(steps, lambda some: ask(link, keys, some)), lambda found: fault(task, found))


def fault(task: Task, found: list[raw.Found]) -> str:
    return raw.fault(task.workload.planned(0), found)


def keys_of(task: Task) -> ShardKeys:
    return raw.keys_of(task.namespace, QUEUE)


def connected(task: Task) -> Link:
    link = Link(Endpoint.from_url(task.url))
    link.connection()
    return link


# -- what came out --------------------------------------------------------------------------------------------


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of each table."""
    rows = [
        [entry["case"], entry["system"], show_valid(entry)]
        + [show(entry["figures"].get(f"{name} {SERVER}")) for name in THREE]
        for entry in summary
    ]
    title = "The server's processor time for each message, us: median (min..max)"
    yield title, ["groups", "system", "valid runs", *THREE], rows
    ours = [entry for entry in summary if entry["system"] == "sequencer"]
    yield (
        "Multiples, in the same round",
        ["groups", "valid runs", "", *THREE],
        [
            [entry["case"], show_valid(entry), f"{system} of {other}"]
            + [show(entry["figures"].get(f"{name} of {other}")) for name in THREE]
            for entry in summary
            for system, other in MULTIPLES
            if entry["system"] == system
        ],
    )
    yield (
        "Sequencer with one process: processor time of that process for each message, us, and messages a second",
        ["groups", "valid runs", *(f"{phase} {what}" for what in ("us", "/s") for phase in PHASES)],
        [
            [entry["case"], show_valid(entry)]
            + [show(entry["figures"].get(f"{phase} {CLIENT}")) for phase in PHASES]
            + [show(entry["figures"].get(f"{phase} {RATE}"), 0) for phase in PHASES]
            for entry in ours
        ],
    )


if __name__ == "__main__":
    play(
        {
            "append sequencer": append_ours,
            "consume sequencer": consume_ours,
            "append scripts": append_scripts,
            "consume scripts": consume_scripts,
            "append raw": append_raw,
            "consume raw": consume_raw,
            "append singles": partial(append_raw, ask=raw.ask_singly),
            "consume singles": partial(consume_raw, ask=raw.ask_singly),
        }
    )
