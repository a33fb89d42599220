"""Messages that arrive on a schedule, whatever the system makes of it (an open loop): the plan, and the producers.

One producer process appends one by one, each message at its time: a steady beat, or at random with the same mean rate
(a Poisson process, which is how independent requests arrive). A producer that is held up sends what has become due at
once, and writes down for each message when it was due, when its append began and when that returned. So a delay can be
counted from both: from the append (what the system adds) and from the due time (which also has what waited for an
append before it, or for the producer to wake up: nothing is hidden by a producer that waits for a slow system).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from .history import Row
from .member import QUEUE, Parent
from .order_check import Handled
from .task import Task, consume, play
from .workload import Planned, Workload

MODULE = "benchmarks.load.arrivals"
HOT = "hot"
"""The group that is kept full; no group of a workload is called so."""
FULL = 500
"""Messages that it is filled up to."""
CHECK_S = 0.01


def due_times(workload: Workload, rate: float, *, is_steady: bool) -> list[float]:
    """Seconds after the begin at which each message is due. Pure."""
    if is_steady:
        return [number / rate for number in range(workload.messages)]
    chance, at, times = random.Random(f"{workload.seed}/due"), 0.0, []
    for _ in range(workload.messages):
        at += chance.expovariate(rate)
        times.append(at)
    return times


class Delays(NamedTuple):
    """In ms, for each message that counts."""

    from_append: list[float]
    """From the begin of the append to the begin of the handler."""
    from_due: list[float]
    """From the time at which it was to be appended, to the begin of the handler."""
    append: list[float]
    """How long the append took its caller."""
    behind: list[float]
    """How late the append began."""


def delays(sent: Iterable[Handled], handled: Iterable[Handled], settle_s: float) -> Delays:
    """Of every message that was handled; those due in the first `settle_s` do not count. Pure.

    Rows of a producer: `score` is the due time, `started` and `ended` are those of the append.
    """
    sent = sorted(sent, key=lambda record: record.score)
    since = sent[0].score + settle_s if sent else 0.0
    first: dict[tuple[str, str], float] = {}
    for record in handled:
        name = (record.group, record.id)
        first[name] = min(record.started, first.get(name, record.started))
    found = Delays([], [], [], [])
    for record in sent:
        at = first.get((record.group, record.id))
        if at is not None and record.score >= since:
            found.from_append.append((at - record.started) * 1e3)
            found.from_due.append((at - record.score) * 1e3)
            found.append.append((record.ended - record.started) * 1e3)
            found.behind.append((record.started - record.score) * 1e3)
    return found


def numbers_of(sent: Iterable[Handled]) -> dict[tuple[str, str], int]:
    """Every (group, id) that a producer appended, with its place in the producer's order."""
    return {(record.group, record.id): record.stamp for record in sent}


def reached(sent: Sequence[Handled]) -> float:
    """Messages a second at which the appends began."""
    starts = [record.started for record in sent]
    span_s = max(starts, default=0.0) - min(starts, default=0.0)
    return (len(starts) - 1) / span_s if span_s > 0 else 0.0


# -- the processes --------------------------------------------------------------------------------------------


def produce(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Append each message at its time. Numbers: `rate`, messages a second; `is_steady`, 1 for a steady beat."""
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        on_schedule(task, parent, rows, lambda message, body: queue.append(body, [message.group], id=message.id))


def on_schedule(task: Task, parent: Parent, rows: list[Row], send: Callable[[Planned, Any], Any]) -> None:
    """Send each message at its time, from the parent's `go` on."""
    numbers, add, clock, sleep = task.numbers, rows.append, time.monotonic, time.sleep
    times = due_times(task.workload, numbers["rate"], is_steady=bool(numbers.get("is_steady")))
    events = [(due_s, message, message.body()) for due_s, message in zip(times, task.workload.planned(0), strict=True)]
    wake_up_on_time()
    parent.ready(lambda: os._exit(1))
    began = clock()
    for due_s, message, body in events:
        due = began + due_s
        sleep(max(0.0, due - clock()))
        started = clock()
        send(message, body)
        add((message.group, message.id, due, message.number, 0, started, clock()))


def fill(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """Append all messages at once."""
    items = [
        {"group": [message.group], "id": message.id, "body": message.body()} for message in task.workload.planned(0)
    ]
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        queue.append_many(items)


def wake_up_on_time() -> None:
    """Linux may let a sleeper wake up to 50 us late, to save power; the producer asks for 1 ns, where it may."""
    with suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")


def keep_full(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Fill the hot group up to FULL messages again and again, until told to end.

    `score` of a row is how many messages the group had left when that one was appended.
    """
    number, order, link = 0, shard_keys(task.namespace, QUEUE, 0).order(HOT), Link(Endpoint.from_url(task.url))
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: None)
        while not parent.is_ending.is_set():
            left = link.command("ZCARD", order)
            more = [Planned(HOT, f"{HOT}-{number + n}", number + n) for n in range(1, FULL - left + 1)]
            started = time.monotonic()
            queue.append_many({"group": [HOT], "id": message.id, "body": message.body()} for message in more)
            ended, number = time.monotonic(), number + len(more)
            rows += [(HOT, message.id, left, message.number, 0, started, ended) for message in more]
            parent.is_ending.wait(CHECK_S)
    link.close()


if __name__ == "__main__":
    play({"produce": produce, "fill": fill, "hot": keep_full, "consume": consume})
