"""The worker's end of scenario `usual`: `python -m workers.player PEER`. It plays the part of one producer or consumer.

It has what a system's module asks of a `Stage`, and more: handlers that take their time or fail, producers that keep a
pace, and a journal that outlives `kill -9` if asked. The parent ends a consumer by closing its standard input, and
reads how many messages it handled in a file that is mapped into memory: so nothing is asked of the server meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from .stage import Message

COUNT_BYTES = 8
Event = tuple[Any, ...]
"""("ran", group, id, began, ended), of a handler or an append; "began" and "failed" of a handler, without the end."""


class HandlerFailed(Exception):
    """The handler of a message that the scenario wants to fail."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one process is to do. `plan`: the file of its messages; `journal`: the file to write.

    `work_s`: how long each handler sleeps; `slow`: how long those of single ids do; `failing`: ids whose handler fails.
    `is_safe`: each event is written at once, and so outlives `kill -9`. `pace`: appends a second, 0 for no pause.
    """

    role: str
    batch: bool
    host: str
    port: int
    name: str
    owner: str
    plan: str
    result: str
    setting: dict[str, Any] = field(default_factory=dict)
    work_s: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)
    is_safe: bool = False
    pace: float = 0.0

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"


class Journal:
    """Events of this process, and their number where the parent sees it."""

    def __init__(self, part: Part) -> None:
        self._file = os.open(part.result, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        counter = Path(f"{part.result}.count")
        counter.write_bytes(bytes(COUNT_BYTES))
        with counter.open("r+b") as file:
            self._counter = mmap.mmap(file.fileno(), COUNT_BYTES)
        self._is_safe, self._events, self._count = part.is_safe, list[Event](), 0

    def began(self, group: str, message_id: str) -> None:
        """Said of handlers in a safe journal only."""
        if self._is_safe:
            self._write([("began", group, message_id, time.monotonic())])

    def add(self, what: str, group: str, message_id: str, began: float, ended: float) -> None:
        event = (what, group, message_id, began, ended)
        if self._is_safe:
            self._write([event])
        else:
            self._events.append(event)
        self._count += 1
        self._counter[:] = self._count.to_bytes(COUNT_BYTES, "little")

    def close(self) -> None:
        """Write what is not written yet."""
        self._write(self._events)

    def _write(self, events: Iterable[Event]) -> None:
        os.write(self._file, b"".join(json.dumps(event).encode() + b"\n" for event in events))


class PlayerJob:
    """What a system's module asks of its job: attributes of the part, and the messages, at their pace."""

    def __init__(self, part: Part, journal: Journal) -> None:
        self.part, self.setting, self.batch = part, part.setting, part.batch
        self.url, self.host, self.port, self.name = part.url, part.host, part.port, part.name
        self._journal = journal

    def planned(self) -> Any:
        """A list for an append in batches; one by one, an iterator: who asks for the next has appended the last."""
        messages = [Message(*row) for row in json.loads(Path(self.part.plan).read_bytes())]
        return messages if self.batch else self._one_by_one(messages)

    def _one_by_one(self, messages: list[Message]) -> Iterator[Message]:
        clock, pace, began = time.monotonic, self.part.pace, time.monotonic()
        for position, message in enumerate(messages):
            if pace:
                time.sleep(max(0.0, began + position / pace - clock()))
            started = clock()
            yield message
            self._journal.add("ran", message.group, message.id, started, clock())


class PlayerStage:
    """As `Stage`, for a player."""

    def __init__(self, part: Part) -> None:
        self._part, self._journal = part, Journal(part)
        self._failing = set(part.failing)
        self.job = PlayerJob(part, self._journal)

    def begin(self) -> None:
        """Say that all is prepared, and return at `go`."""
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        os.dup2(2, 1)  # what a system prints from now on must not fill a pipe that nobody reads
        if sys.stdin.buffer.readline() != b"go\n":
            os._exit(1)
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def end(self) -> None:
        """All appends are acknowledged."""

    def note(self, group: str, message_id: str) -> None:
        """The handler: it takes its time, fails if it is to, and is noted."""
        self._journal.began(group, message_id)
        began = time.monotonic()
        if work_s := self._part.slow.get(message_id, self._part.work_s):
            time.sleep(work_s)
        if message_id in self._failing:
            self._journal.add("failed", group, message_id, began, time.monotonic())
            raise HandlerFailed(message_id)
        self._journal.add("ran", group, message_id, began, time.monotonic())

    def close(self) -> None:
        self._journal.close()

    def _end_with_parent(self) -> None:
        while os.read(0, 4096):
            pass
        if self._part.role == "consume":
            self.close()
        os._exit(0 if self._part.role == "consume" else 1)  # no two systems stop alike


def play(system: Any) -> None:
    """Be the process of one part. `system`: a module, or a class, with `produce(stage)` and `consume(stage)`."""
    part = Part(**json.loads(sys.stdin.buffer.readline()))
    stage = PlayerStage(part)
    outcome = (system.produce if part.role == "produce" else system.consume)(stage)
    if asyncio.iscoroutine(outcome):
        asyncio.run(outcome)
    if part.role == "produce":
        stage.close()
        sys.stderr.flush()
        os._exit(0)
    while True:  # a consumer that found nothing more: it is told when to end
        time.sleep(1)


if __name__ == "__main__":
    play(import_module(f".with_{sys.argv[1]}", __package__))
