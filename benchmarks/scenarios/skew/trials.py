"""Scenario `skew`: how a reorder window puts right what arrives out of order, and what it costs in time.

Several producers make events of the same groups. Each event has a true time, which is its message's score, and arrives
later by a random time of up to the skew (uniform; ALLOWANCE_S of it is left for the append itself). They are handled
without a window, with a window of half the skew, and with one of the whole skew, in turn within each round.

An inversion is a handled message whose score lies below that of one handled before it in its group, by the start of the
handlers: `late` as the library defines it, so the server's own count must agree. A message is beyond the window when it
arrived, by its stamp, more than the window after its true time. Only such a message may be inverted: an inversion of
any other makes the run not valid. With the whole skew as window none is beyond it, unless the machine stood still for
ALLOWANCE_S.

Two delays, in ms, to the start of the handler: from the arrival (what the window costs), and from the event.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ...kit.phase import limit_s, wait_drained
from ...kit.report import median_min_max
from ...kit.rounds import turns
from ...kit.times import ServerClock, quantiles, server_clock, show_quantiles
from ...load.fleet import Fleet, MemberFailed
from ...load.history import Row, read_history
from ...load.member import QUEUE, Parent, Role, System
from ...load.order_check import Handled, check_history
from ...load.task import Task, consume, play, scratch
from ...load.workload import Spread, Workload

MODULE = "benchmarks.scenarios.skew.trials"
ALLOWANCE_S = 0.02
"""At most a quarter of the skew."""
SHARES = (0.0, 0.5, 1.0)
"""Windows, over the skew."""
DELAYS = ("after_arrival", "after_event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `rate` is the messages a second of all producers together."""

    skew_s: float
    seconds: float
    rate: int
    groups: int
    producers: int
    consumers: int
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(skew_s=0.3, seconds=3.0, rate=600, groups=20, producers=3, consumers=2, runs=5, warmup=1)
SMOKE = replace(USUAL, skew_s=0.06, seconds=0.3, groups=5, producers=2, consumers=1, runs=1, warmup=0)


class Event(NamedTuple):
    """One event: seconds after the begin at which it happens and its message is sent."""

    sent_s: float
    true_s: float
    group: str
    id: str


def plan(workload: Workload, producer: int, seconds: float, skew_s: float) -> list[Event]:
    """One producer's events, in the order in which they are sent. Every producer has events of every group. Pure."""
    chance = random.Random(f"{workload.seed}/{producer}")
    delay_s = skew_s - min(ALLOWANCE_S, skew_s / 4)
    events = []
    for number in range(producer, workload.messages, workload.producers):
        true_s, group = chance.uniform(0, seconds), chance.randrange(workload.spread.groups)
        events.append(Event(true_s + chance.uniform(0, delay_s), true_s, f"g{group}", f"{producer}-{number}"))
    return sorted(events)


def inversions(handled: Iterable[Handled]) -> list[Handled]:
    """The messages that began to be handled after one with a higher score in their group. Pure."""
    top: dict[str, float] = {}
    found = []
    for record in sorted(handled, key=lambda record: (record.started, record.ended)):
        if record.score < top.setdefault(record.group, record.score):
            found.append(record)
        top[record.group] = max(top[record.group], record.score)
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """One run with one window. Delays in ms."""

    window_s: float
    index: int
    is_warmup: bool
    messages: int
    inversions: int
    beyond: int
    """Messages that arrived more than the window after their true time."""
    inverted_within: int
    """Inversions of messages that arrived in time."""
    max_skew_s: float
    after_arrival: list[float]
    after_event: list[float]
    problem: str = ""
    system: System = "sequencer"

    @property
    def is_valid(self) -> bool:
        return not self.problem and not self.inverted_within

    def line(self) -> str:
        """The run in one line, with what went wrong."""
        which = "warm-up" if self.is_warmup else f"run {self.index}"
        said = f"{self.inversions} of {self.messages} inverted, {self.beyond} arrived beyond the window"
        if self.inverted_within:
            said = f"not valid: {self.inverted_within} inverted that arrived within the window; {said}"
        return f"window {self.window_s:g} s, {which}: {'not valid: ' + self.problem if self.problem else said}"

    def as_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in DELAYS}
        return {**plain, "is_valid": self.is_valid, **{f"{name}_ms": quantiles(getattr(self, name)) for name in DELAYS}}


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the windows in turn within each round. Raises ServerError."""
    runs = []
    for turn in turns(parameters.warmup, parameters.runs):
        messages = max(1, round(parameters.rate * parameters.seconds))
        workload = Workload(Spread(parameters.groups), messages, parameters.producers, seed=turn.seed)
        for share in SHARES:
            run = run_window(url, parameters, workload, share)
            run = replace(run, index=turn.index, is_warmup=turn.is_warmup)
            on_run(run)
            runs.append(run)
    return runs


def run_window(url: str, parameters: Parameters, workload: Workload, share: float) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    clock, window_s, problem, late = server_clock(url), parameters.skew_s * share, "", 0
    with scratch(url) as (namespace, directory):
        histories = [directory / f"consumer-{index}.json" for index in range(parameters.consumers)]
        numbers = {"seconds": parameters.seconds, "skew_s": parameters.skew_s, "offset_s": clock.offset_s}

        def task(role: Role, index: int, history: str = "") -> Task:
            return Task("sequencer", role, url, namespace, workload, index, history, MODULE, role, numbers)

        patience_s = limit_s(workload.messages) + parameters.seconds + parameters.skew_s
        try:
            with Sequencer(QUEUE, url, namespace=namespace, reorder_window=window_s) as queue:
                queue.connect()
            with (
                Fleet([task("produce", index) for index in range(parameters.producers)]) as producers,
                Fleet([task("consume", index, str(path)) for index, path in enumerate(histories)]) as drainers,
            ):
                producers.wait_ready()
                drainers.wait_ready()
                drainers.go()
                producers.go()
                producers.wait(patience_s)
                problem = wait_drained(url, namespace, drainers, patience_s)
                drainers.end()
                drainers.wait(patience_s)
            late = counted_late(url, namespace)
        except MemberFailed as error:
            problem = problem or str(error)
        handled = read_history(histories)
    clock = clock.until(server_clock(url))
    return assess(handled, workload, parameters, window_s, clock, late, problem)


def counted_late(url: str, namespace: str) -> int:
    """How many messages the server counted as late. Raises ServerError."""
    link = Link(Endpoint.from_url(url))
    try:
        return int(link.command("HGET", shard_keys(namespace, QUEUE, 0).stats, "late") or 0)
    finally:
        link.close()


def assess(
    handled: list[Handled],
    workload: Workload,
    parameters: Parameters,
    window_s: float,
    clock: ServerClock,
    late: int,
    problem: str = "",
) -> Run:
    """What one history shows, as run 1. Pure."""
    expected = [
        (event.group, event.id)
        for producer in range(workload.producers)
        for event in plan(workload, producer, parameters.seconds, parameters.skew_s)
    ]
    verdict, inverted = check_history(expected, handled), inversions(handled)
    # Disorder is counted here by score alone, and only of what the window promises; the rest must be right anyway.
    names = ("losses", "duplicates", "overlaps", "inventions")
    faults = [f"{count} {name}" for name in names if (count := getattr(verdict, name))]
    if not problem and not faults and late != len(inverted):
        faults.append(f"the server counted {late} late messages, the history shows {len(inverted)}")

    def skew_s(record: Handled) -> float:
        return record.stamp / 1e6 - record.score

    starts = [record.started + clock.offset_s for record in handled]
    in_time_s = window_s - clock.error_s if window_s else 0.0
    return Run(
        window_s=window_s,
        index=1,
        is_warmup=False,
        messages=len(expected),
        inversions=len(inverted),
        beyond=sum(skew_s(record) > window_s for record in handled),
        inverted_within=sum(skew_s(record) <= in_time_s for record in inverted) if window_s else 0,
        max_skew_s=max(map(skew_s, handled), default=0.0),
        after_arrival=[(at - record.stamp / 1e6) * 1e3 for at, record in zip(starts, handled, strict=True)],
        after_event=[(at - record.score) * 1e3 for at, record in zip(starts, handled, strict=True)],
        problem="; ".join([problem] * bool(problem) + faults),
    )


# -- the processes --------------------------------------------------------------------------------------------


def produce(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """Append each event's message at its time. A late process sends late: that is a skew too, and is measured."""
    numbers = task.numbers
    events = plan(task.workload, task.index, numbers["seconds"], numbers["skew_s"])
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        began = time.monotonic()
        for event in events:
            time.sleep(max(0.0, began + event.sent_s - time.monotonic()))
            score = began + event.true_s + numbers["offset_s"]
            queue.append({"sent_s": event.sent_s}, [event.group], id=event.id, score=score)


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """For each window: counts and delays over all valid runs together; the warm-up is left out."""
    measured: dict[float, list[Run]] = {}
    for run in runs:
        if not run.is_warmup:
            measured.setdefault(run.window_s, []).append(run)
    summary = []
    for window_s, some in measured.items():
        valid = [run for run in some if run.is_valid]
        summary.append(
            {
                "window_s": window_s,
                "runs": len(some),
                "valid_runs": len(valid),
                "messages": sum(run.messages for run in valid),
                "inversions": sum(run.inversions for run in valid),
                "inversions_a_run": median_min_max(run.inversions for run in valid),
                "beyond": sum(run.beyond for run in valid),
                "max_skew_s": max((run.max_skew_s for run in valid), default=None),
                **{f"{name}_ms": quantiles([ms for run in valid for ms in getattr(run, name)]) for name in DELAYS},
            }
        )
    return summary


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    delays = [f"{since} {name}" for since in ("arrival", "event") for name in ("p50", "p99")]
    rows = [
        [
            f"{entry['window_s']:g} s",
            f"{entry['valid_runs']} of {entry['runs']}",
            f"{entry['messages']:,}",
            f"{entry['inversions']:,}",
            f"{entry['beyond']:,}",
            *(cell for name in DELAYS for cell in show_quantiles(entry[f"{name}_ms"], ("p50", "p99"))),
        ]
        for entry in summary
    ]
    title = "Inversions among messages that arrive out of order, and delays in ms from arrival and from the event"
    yield title, ["window", "valid runs", "messages", "inversions", "beyond it", *delays], rows


if __name__ == "__main__":
    play({"produce": produce, "consume": consume})
