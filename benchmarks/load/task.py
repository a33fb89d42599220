"""Processes of a scenario that does more than `member`: a task each, in the module of the scenario itself.

A module ends with `play({...})`, its functions by the kind of task; `Fleet` starts `python -m MODULE` for each task.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.values.message import Message

from .history import Row, write_history
from .member import QUEUE, Job, Parent, Report, drain


@dataclass(frozen=True, slots=True)
class Task(Job):
    """A Job with a module, a kind that this module knows, and numbers for it."""

    module: str = ""
    kind: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


Play = Callable[[Task, Parent, list[Row]], None]


@contextmanager
def scratch(url: str) -> Iterator[tuple[str, Path]]:
    """A namespace and a directory of one run's own; its keys and its files are gone afterwards. Raises ServerError."""
    namespace = f"bench-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory:
        try:
            yield namespace, Path(directory)
        finally:
            forget(url, namespace)


def play(kinds: Mapping[str, Play]) -> None:
    """Be the process of one task: the other end of `Fleet`."""
    parent = Parent()
    line = parent.line()
    if not line:
        sys.exit(1)
    task = Task.parse(line)
    assert isinstance(task, Task)
    rows: list[Row] = []
    kinds[task.kind](task, parent, rows)
    report = Report(time.monotonic())
    if task.history:
        write_history(task.history, rows)
    print(json.dumps(asdict(report)), flush=True)


def consume(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Consume until stopped. Numbers: `work_s`, how long a handler waits."""
    add, clock, sleep = rows.append, time.monotonic, time.sleep
    work_s = task.numbers.get("work_s", 0.0)

    def handle(message: Message) -> None:
        started = clock()
        if work_s:
            sleep(work_s)
        add((message.group[0], message.id, message.score, message.stamp, message.token, started, clock()))

    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        drain(queue, parent, handle)


def forget(url: str, namespace: str) -> None:
    """Delete the keys of one phase, and no others: the server may be someone's own. Raises ServerError."""
    link = Link(Endpoint.from_url(url))
    try:
        for pattern in (f"{{{namespace}:*", f"{namespace}:*"):
            cursor = b"0"
            while True:
                cursor, keys = link.command("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                if keys:
                    link.command("UNLINK", *keys)
                if cursor == b"0":
                    break
    finally:
        link.close()
