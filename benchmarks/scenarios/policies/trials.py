"""Scenario `policies`: what each policy of a queue costs, in messages a second and in memory.

Every variant gets the same messages in the two phases of scenario `ordering`, with processes that run the same code; a
variant differs in the queue's policy alone, or (`sequence`) in scores that are numbers.
Variants take turns run by run, so that a slow minute of the machine falls on all of them, and the cost of one is the
median of its rate over the default's *in the same round*. A run whose history shows a loss, a duplicate or a wrong
order in either phase counts for nothing.

`window` opens each message 0.05 s after its arrival, so its mixed rate includes that wait once, at the end.

Memory is what MEMORY USAGE says (all samples) of the keys in which ids, watermarks and history are kept,
once the drain phase has handled everything, over the number of entries. Ids are 16 characters long here, groups at
most 5.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ...kit.phase import PHASES, RATES, PhaseName, Timing, limit_s, perform, wait_drained
from ...kit.rounds import turns
from ...load.fleet import Fleet, MemberFailed
from ...load.history import Row, read_history
from ...load.judge import Phase, judge
from ...load.member import QUEUE, Parent, Role, System, scores_ms
from ...load.task import Task, consume, play, scratch
from ...load.workload import ZIPF_GROUPS, Planned, Spread, Workload

MODULE = "benchmarks.scenarios.policies.trials"


class Variant(NamedTuple):
    """One way to run the workload. The policy is of the queue."""

    name: str
    policy: dict[str, Any]


DEFAULT = Variant("default", {})
VARIANTS = (
    DEFAULT,
    Variant("no-dedup", {"dedup_window": 0}),
    Variant("no-memory", {"dedup_window": 0, "watermark_window": 0}),
    Variant("late-drop", {"on_late": "drop"}),
    Variant("window", {"reorder_window": 0.05}),
    Variant("sequence", {"sequence": True}),
    Variant("history", {"history_window": 3 * 86_400}),
    Variant("bodies", {"history_window": 3 * 86_400, "history_bodies": True}),
)


def parse_variants(text: str) -> tuple[Variant, ...]:
    """Variants by their names, with the default that they are compared with. Raises ValueError."""
    known = {variant.name: variant for variant in VARIANTS}
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"variant {name!r} must be one of {', '.join(known)}")
    return tuple(variant for variant in VARIANTS if variant is DEFAULT or variant.name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure."""

    scenarios: tuple[Spread, ...]
    variants: tuple[Variant, ...]
    messages: int
    producers: int
    consumers: int
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        variants = [variant._asdict() for variant in self.variants]
        return {**asdict(self), "scenarios": [scenario.name for scenario in self.scenarios], "variants": variants}


USUAL = Parameters(
    scenarios=(Spread(1), Spread(100), Spread(5000), Spread(ZIPF_GROUPS, True)),
    variants=VARIANTS,
    messages=50_000,
    producers=2,
    consumers=2,
    runs=5,
    warmup=1,
)
SMOKE = replace(USUAL, scenarios=(Spread(10),), messages=200, producers=1, consumers=1, runs=1, warmup=0)


@dataclass(frozen=True, slots=True)
class DeadLetterContent:
    """Entries of one kind that the server keeps after messages were handled, and their bytes."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one variant: all phases count, or none."""

    scenario: Spread
    variant: str
    index: int
    is_warmup: bool
    phases: tuple[Phase, ...]
    memory: dict[str, DeadLetterContent] = field(default_factory=dict)
    """Of `ids`, `watermarks`, `history` and `bodies`, after the drain phase."""
    system: System = "sequencer"

    @property
    def is_valid(self) -> bool:
        return all(phase.is_valid for phase in self.phases)

    def rates(self) -> dict[str, float | None]:
        """By the names in RATES."""
        mixed, drain = self.phases
        return dict(zip(RATES, (mixed.rate, drain.rate, drain.append_rate), strict=True))

    def line(self) -> str:
        """The run in one line, with what went wrong."""
        which = "warm-up" if self.is_warmup else f"run {self.index}"
        rates = ", ".join(f"{name} {rate or 0:,.0f}/s" for name, rate in self.rates().items())
        wrong = [f"{phase.name}: {text}" for phase in self.phases for text in phase.faults()]
        return f"{self.scenario.title}, {self.variant}, {which}: {'not valid: ' + '; '.join(wrong) if wrong else rates}"

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name,
            "variant": self.variant,
            "run": self.index,
            "is_warmup": self.is_warmup,
            "is_valid": self.is_valid,
            "phases": {phase.name: phase.as_json() for phase in self.phases},
            "memory": {name: asdict(kept) for name, kept in self.memory.items()},
        }


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the variants in turn within each round. Raises ServerError."""
    runs = []
    for spread in parameters.scenarios:
        for turn in turns(parameters.warmup, parameters.runs):
            workload = Workload(spread, parameters.messages, parameters.producers, seed=turn.seed)
            for variant in parameters.variants:
                memory: dict[str, DeadLetterContent] = {}
                phases = tuple(run_phase(url, variant, name, workload, parameters.consumers, memory) for name in PHASES)
                run = Run(spread, variant.name, turn.index, turn.is_warmup, phases, memory)
                on_run(run)
                runs.append(run)
    return runs


def run_phase(
    url: str,
    variant: Variant,
    name: PhaseName,
    workload: Workload,
    consumers: int,
    memory: dict[str, DeadLetterContent],
) -> Phase:
    """One phase with processes and keys of its own, both gone afterwards; fills `memory`. Raises ServerError."""
    timing = Timing()
    with scratch(url) as (namespace, directory):
        histories = [directory / f"consumer-{index}.json" for index in range(consumers)]
        numbers = {"sequence": variant.policy.get("sequence", False)}

        def task(role: Role, index: int, history: str = "") -> Task:
            return Task("sequencer", role, url, namespace, workload, index, history, MODULE, role, numbers)

        try:
            with Sequencer(QUEUE, url, namespace=namespace, **variant.policy) as queue:
                queue.connect()
            with (
                Fleet([task("produce", index) for index in range(workload.active_producers)]) as producers,
                Fleet([task("consume", index, str(path)) for index, path in enumerate(histories)]) as drainers,
            ):
                perform(name, producers, drainers, workload.messages, timing)
                timing.problem = wait_drained(url, namespace, drainers, limit_s(workload.messages))
                drainers.end()
                drainers.wait(limit_s(workload.messages))
            memory.update(kept(url, namespace))
        except MemberFailed as error:
            timing.problem = timing.problem or str(error)
        handled = read_history(histories)
    return judge(name, workload, handled, timing.began, timing.append_rate, timing.problem)


def kept(url: str, namespace: str) -> dict[str, DeadLetterContent]:
    """What the server keeps of handled messages. Raises ServerError."""
    keys = shard_keys(namespace, QUEUE, 0)
    link = Link(Endpoint.from_url(url))
    buckets = [name.decode() for name in link.command("ZRANGE", keys.histories, 0, -1)]
    places: dict[str, tuple[str, Sequence[str]]] = {
        "ids": ("SCARD", (keys.dedup, f"{keys.dedup}:old")),
        "watermarks": ("HLEN", (keys.watermarks, f"{keys.watermarks}:old")),
        "history": ("HLEN", [keys.history(name) for name in buckets]),
        "bodies": ("HLEN", [keys.bodies(name) for name in buckets]),
    }
    try:
        return {
            name: DeadLetterContent(
                sum(link.command(size, key) - _is_begun(link, size, key) for key in some),
                sum(link.command("MEMORY", "USAGE", key, "SAMPLES", 0) or 0 for key in some),
            )
            for name, (size, some) in places.items()
        }
    finally:
        link.close()


def _is_begun(link: Link, size: str, key: str) -> int:
    """1 for watermarks and history: they begin with a field that is of no message."""
    return int(link.command("HEXISTS", key, "")) if size == "HLEN" else 0


# -- the processes --------------------------------------------------------------------------------------------


def numbers_by_group(batch: list[tuple[Planned, dict[str, Any]]]) -> Iterator[int]:
    """Of each message its number in its group, from 1."""
    counts: defaultdict[str, int] = defaultdict(int)
    for message, _ in batch:
        counts[message.group] += 1
        yield counts[message.group]


def produce(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """Append one producer's messages, with the time in ms as score, or their numbers."""
    batch = [(message, message.body()) for message in task.workload.planned(task.index)]
    scores = numbers_by_group(batch) if task.numbers["sequence"] else scores_ms()
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        queue.append_many(
            {"group": [message.group], "id": message.id, "score": score, "body": body}
            for (message, body), score in zip(batch, scores, strict=False)
        )


if __name__ == "__main__":
    play({"produce": produce, "consume": consume})
