"""One producer or consumer process of a benchmark: `python -m benchmarks.load.member`.

Standard input brings a Job as a JSON line, later the line `go`, and its end means stop. Standard output brings the line
`ready` once everything is imported, made and connected, and at the end a Report as a JSON line. So start-up is never
measured, and no process outlives the one that started it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sequencer.client import Sequencer
from sequencer.consume.threads import Consumer
from sequencer.values.message import Message

from .history import Row, write_history
from .naive import NaiveQueue
from .workload import Planned, Spread, Workload

QUEUE = "bench"
System = Literal["sequencer", "naive"]
Role = Literal["produce", "consume"]
Batch = list[tuple[Planned, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do. `history` is the file that a consumer writes."""

    system: System
    role: Role
    url: str
    namespace: str
    workload: Workload
    index: int = 0
    history: str = ""
    module: str = "benchmarks.load.member"
    """What the process runs."""

    @property
    def naive_prefix(self) -> str:
        return f"{self.namespace}:naive"

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Job:
        job = cls(**json.loads(line))
        fields: Any = job.workload
        return replace(job, workload=Workload(**{**fields, "spread": Spread(**fields["spread"])}))


@dataclass(slots=True)
class Report:
    """When this process was done, by CLOCK_MONOTONIC."""

    ended: float


class Parent:
    """The other end of standard input and output."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_ending = threading.Event()

    def line(self) -> bytes:
        """The next line, empty at the end. Reads the descriptor: a buffered reader may not be left to a thread."""
        while b"\n" not in self._rest:
            piece = os.read(0, 65536)
            if not piece:
                return b""
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def ready(self, on_end: Callable[[], None]) -> None:
        """Say that all is prepared, and return at `go`. `on_end` is called in another thread at the end of input.

        What was prepared is the benchmark's own: the collector need not look at it again while the time runs.
        """
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        if self.line() != b"go":
            sys.exit(1)

        def watch() -> None:
            while self.line():
                pass
            self.is_ending.set()
            on_end()

        threading.Thread(target=watch, name="benchmark-watch", daemon=True).start()


def scores_ms() -> Iterator[int]:
    """The time now in ms, again and again, never going back: within a ms all are equal, which is the hard case."""
    last = 0
    while True:
        last = max(last, int(time.time() * 1000))
        yield last


def produce_sequencer(job: Job, parent: Parent, batch: Batch) -> None:
    with Sequencer(QUEUE, job.url, namespace=job.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        queue.append_many(
            {"group": [message.group], "id": message.id, "score": score, "body": body}
            for (message, body), score in zip(batch, scores_ms(), strict=False)
        )


def produce_naive(job: Job, parent: Parent, batch: Batch) -> None:
    queue = NaiveQueue(job.url, job.naive_prefix)
    queue.connect()
    parent.ready(lambda: os._exit(1))
    queue.append_all((message, score, body) for (message, body), score in zip(batch, scores_ms(), strict=False))
    queue.close()


def drain(queue: Sequencer, parent: Parent, handle: Callable[[Message], None], **options: Any) -> None:
    """Say that this process is ready, and consume until the parent ends it."""
    consumers: list[Consumer] = []

    def stop() -> None:
        for consumer in consumers:
            consumer.stop()

    def started(consumer: Consumer) -> None:
        consumers.append(consumer)
        if parent.is_ending.is_set():
            stop()

    queue.connect()
    parent.ready(stop)
    queue.consume(handle, on_start=started, **options)


def consume_sequencer(job: Job, parent: Parent, rows: list[Row]) -> None:
    add, clock = rows.append, time.monotonic

    def handle(message: Message) -> None:
        started = clock()
        add((message.group[0], message.id, message.score, message.stamp, message.token, started, clock()))

    with Sequencer(QUEUE, job.url, namespace=job.namespace) as queue:
        drain(queue, parent, handle)


def consume_naive(job: Job, parent: Parent, rows: list[Row]) -> None:
    queue = NaiveQueue(job.url, job.naive_prefix)
    queue.connect()
    parent.ready(lambda: None)
    queue.consume(rows.append, f"consumer-{job.index}", parent.is_ending.is_set)
    queue.close()


PRODUCE = {"sequencer": produce_sequencer, "naive": produce_naive}
CONSUME = {"sequencer": consume_sequencer, "naive": consume_naive}


def main() -> None:
    parent = Parent()
    line = parent.line()
    if not line:
        sys.exit(1)
    job = Job.parse(line)
    if job.role == "produce":
        batch = [(message, message.body()) for message in job.workload.planned(job.index)]
        PRODUCE[job.system](job, parent, batch)
        report = Report(time.monotonic())
    else:
        rows: list[Row] = []
        CONSUME[job.system](job, parent, rows)
        report = Report(time.monotonic())
        write_history(job.history, rows)
    print(json.dumps(asdict(report)), flush=True)


if __name__ == "__main__":
    main()
