"""Scenario `growth`: whether rates fall as there is more in the server, and how long one call blocks it.

messages   one group takes 10k, 100k and 1M messages, then one consumer drains it
each       10k, 100k and 1M messages, each of a group of its own, are appended and drained
a group    100k messages are appended and drained, with 1, 10, 100 and 1,000 of them in each group
cold       a load of always the same size (100k messages over 1,000 groups) is appended, then drained by one consumer,
           beside 0, 99k and 999k cold groups, each with one pending message that is due in a day: work for each message
           is the same, and only what else there is grows. The cold ones are not drained.

The name of a row says what was appended and drained.

Each run has keys of its own; sizes take turns, in the opposite order in every other round, and a rate is compared with
that of the smallest size in the same round. Rates: of appending from the first call of `append_many` to its end, of
draining from the start of the first handler to the end of the last. The warm-up is of the smallest sizes only.

How long the server is blocked: p99.9 and the longest of all EVALSHA of a phase, as the server itself measured them
(`INFO latencystats`, Redis 7 or later; CONFIG RESETSTAT begins them again). A phase of fewer than 1,000 calls has its
longest as p99.9. It is time that passed: where another process takes the server's processor away, that counts too, so
these figures, unlike processor time, need a machine with nothing else to do.

Memory of the consumer: resident bytes after the first message, half of them, and the last. The history is judged on
the way, by the last number of each group, so that nothing grows with it: every message must be the next of its group,
and at the end every group's last must have been handled, with no other group left in the schedule than the cold ones.
Otherwise the run is not valid.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sequencer.client import Sequencer
from sequencer.store.keys import shard_keys

from ...kit.rounds import Run, Turn, in_turn, placed, turns
from ...kit.server import Gauge
from ...load.fleet import Fleet, MemberFailed
from ...load.history import Row
from ...load.member import QUEUE, Parent
from ...load.placement import Placement, client_cpus
from ...load.task import Task, play, scratch
from ...load.workload import BODY_BYTES, Spread, Workload
from .stream import Stream, resident_kib

MODULE = "benchmarks.scenarios.growth.trials"
DAY_S = 86_400
LIMIT_S, SLOWEST_RATE = 60.0, 3000
"""A process that takes longer than LIMIT_S, and a second for each SLOWEST_RATE messages, is given up."""
NOTE = "x" * (BODY_BYTES - 33)


class Load(NamedTuple):
    """One size: messages that are appended and drained, evenly over `groups`, beside `cold` groups."""

    kind: str
    size: int
    messages: int
    groups: int
    cold: int

    @property
    def title(self) -> str:
        """What was drained, and beside what."""
        if self.kind == "messages":
            return f"{self.messages:,} messages of one group"
        if self.kind == "each":
            return f"{self.messages:,} messages, each of another group"
        many = f"{self.messages:,} messages, {self.messages // self.groups:,} a group"
        return f"{many}, beside {self.cold:,} cold groups" if self.kind == "cold" else many

    @property
    def numbers(self) -> dict[str, int]:
        return {"messages": self.messages, "groups": self.groups, "cold": self.cold}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `groups` counts those of the load, too, which has `load_groups`."""

    messages: tuple[int, ...]
    each: tuple[int, ...]
    a_group: tuple[int, ...]
    groups: tuple[int, ...]
    load_messages: int
    load_groups: int
    placement: Placement
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def loads(self, *, smallest: bool = False) -> list[Load]:
        """All sizes, from small to large, or the smallest of each kind."""
        ones = [Load("messages", size, size, 1, 0) for size in sorted(self.messages)]
        each = [Load("each", size, size, size, 0) for size in sorted(self.each)]
        groups = {size: max(1, self.load_messages // size) for size in sorted(self.a_group)}
        full = [Load("a group", size, size * count, count, 0) for size, count in groups.items()]
        hot = [min(size, self.load_groups) for size in sorted(self.groups)]
        many = [
            Load("cold", size, self.load_messages // few * few, few, size - few)
            for size, few in zip(sorted(self.groups), hot, strict=True)
        ]
        kinds = (ones, each, full, many)
        return [load for loads in kinds for load in (loads[:1] if smallest else loads)]


USUAL = Parameters(
    messages=(10_000, 100_000, 1_000_000),
    each=(10_000, 100_000, 1_000_000),
    a_group=(1, 10, 100, 1_000),
    groups=(1_000, 100_000, 1_000_000),
    load_messages=100_000,
    load_groups=1_000,
    placement="apart",
    runs=5,
    warmup=1,
)
SMOKE = replace(
    USUAL,
    messages=(200, 1_000),
    each=(100, 300),
    a_group=(1, 20),
    groups=(20, 500),
    load_messages=400,
    load_groups=20,
    runs=1,
    warmup=0,
)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the sizes in turn within each round. Raises ServerError."""
    runs = []
    bases = {load.kind: load.title for load in parameters.loads(smallest=True)}
    with placed(url, parameters.placement), Gauge(url) as gauge, gauge.percentiles():
        for turn in turns(parameters.warmup, parameters.runs):
            for load in in_turn(parameters.loads(smallest=turn.is_warmup), turn):
                run = run_load(url, gauge, load, turn, client_cpus(parameters.placement))
                run = replace(run, settings={**load._asdict(), "base": bases[load.kind]})
                on_run(run)
                runs.append(run)
    return runs


def run_load(url: str, gauge: Gauge, load: Load, turn: Turn, cpus: set[int] | None) -> Run:
    """One size with keys of its own, gone afterwards. Raises ServerError."""
    figures: dict[str, float] = {}
    with scratch(url) as (namespace, directory):
        workload = Workload(Spread(load.groups), load.messages, 1, turn.seed)
        task = Task("sequencer", "produce", url, namespace, workload, module=MODULE)
        problem = ""
        try:
            for phase in ("fill", "append", "drain") if load.cold else ("append", "drain"):
                numbers = {**load.numbers, "result": str(directory / f"{phase}.json")}
                found, problem = run_phase(gauge, replace(task, kind=phase, numbers=numbers), phase, cpus)
                figures |= found
        except MemberFailed as error:
            problem = str(error)
        left = gauge.link.command("ZCARD", shard_keys(namespace, QUEUE, 0).schedule)
        if not problem and left != load.cold:
            problem = f"{left} groups have messages at the end, and {load.cold} should"
    return Run(case=load.title, turn=turn, messages=load.messages, problem=problem, single={} if problem else figures)


def run_phase(gauge: Gauge, task: Task, phase: str, cpus: set[int] | None) -> tuple[dict[str, float], str]:
    """One process with one thing to do; its figures, and what was wrong. Raises MemberFailed, ServerError."""
    messages = task.numbers["cold" if phase == "fill" else "messages"]
    with Fleet([task], cpus) as fleet:
        fleet.wait_ready()
        gauge.settle()
        gauge.reset_calls()
        before = gauge.cpu_s()
        fleet.go()
        fleet.wait(LIMIT_S + messages / SLOWEST_RATE)
        spent_s, calls = gauge.cpu_s() - before, gauge.calls()
    result = json.loads(Path(task.numbers["result"]).read_text())
    figures = {
        f"{phase} /s": messages / result["wall_s"],
        f"{phase} us server": spent_s / messages * 1e6,
        **{f"rss {mark} MB": kib / 1024 for mark, kib in result.get("rss_kib", {}).items()},
    }
    for name, us in (("p99.9", calls.p999_us), ("longest", calls.max_us)):
        if us is not None:
            figures[f"{phase} {name} ms"] = us / 1e3
    return figures, result.get("problem", "")


# -- the processes --------------------------------------------------------------------------------------------


def load_items(messages: int, groups: int) -> Iterator[dict[str, Any]]:
    """Messages of a load, its groups in turn; made on the way, since a million of them would need a gigabyte."""
    for number in range(messages):
        yield {"group": (f"g{number % groups}",), "body": {"number": number // groups + 1, "note": NOTE}}


def cold_items(groups: int) -> Iterator[dict[str, Any]]:
    """One message for each cold group, due in a day."""
    for number in range(groups):
        yield {"group": (f"c{number}",), "body": {"number": number, "note": NOTE}, "delay": DAY_S}


def append(task: Task, parent: Parent, _rows: list[Row]) -> None:
    numbers = task.numbers
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        is_fill = task.kind == "fill"
        items = cold_items(numbers["cold"]) if is_fill else load_items(numbers["messages"], numbers["groups"])
        began = time.monotonic()
        queue.append_many(items)
        wall_s = time.monotonic() - began
    Path(numbers["result"]).write_text(json.dumps({"wall_s": wall_s}))


def drain(task: Task, parent: Parent, _rows: list[Row]) -> None:
    numbers = task.numbers
    stream = Stream(numbers["messages"], resident_kib)
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        queue.consume(stream, max_messages=numbers["messages"])  # the cold groups keep it from being empty
    result = {
        "wall_s": max(stream.ended - stream.began, 1e-9),
        "rss_kib": stream.rss_kib,
        "problem": stream.fault(numbers["groups"], numbers["messages"] // numbers["groups"]),
    }
    Path(numbers["result"]).write_text(json.dumps(result))


if __name__ == "__main__":
    play({"fill": append, "append": append, "drain": drain})
