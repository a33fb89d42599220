"""The worker's end of a cell, the same for every system; `stage.mjs` is its control for Node.

One line of JSON on standard input says what to do. When all is prepared, the process prints `ready` and waits for `go`.
What came out goes to a file, in one piece at the end. A consumer ends itself: SETTLE_S after every message was handled
(what is delivered twice has then been seen), or when nothing was handled for QUIET_S (then something is lost). When
standard input ends, the parent is gone, and so is this process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

POLL_S = 0.05
SETTLE_S = 0.3
QUIET_S = 15.0
"""More than the pauses that a peer makes by itself: GroupMQ waits up to 5 s after it found nothing."""


class Message(NamedTuple):
    """One message to append; `number` counts from 1 in the order of appending."""

    group: str
    id: str
    number: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do. `plan` is the file of all messages, `result` the one to write."""

    role: str
    batch: bool
    host: str
    port: int
    name: str
    messages: int
    plan: str
    result: str
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    def planned(self) -> list[Message]:
        return [Message(*row) for row in json.loads(Path(self.plan).read_bytes())]


class Stage:
    """The job, and what to tell of it: `begin` when prepared, `end` after the last append, `note` in the handler."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.began = self.ended = self.first = self._cpu = self._cpu_before = 0.0
        self._rows: list[tuple[str, str, float]] = []
        self._at_once = self._most_at_once = 0
        self._sleep_s = job.setting.get("sleep_s", 0.0)

    def begin(self) -> None:
        """Say that all is prepared, and return at `go`.

        What was prepared is none of the system's: the collector need not look at it again while the time runs.
        """
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        os.dup2(2, 1)  # what a system prints from now on must not fill a pipe that nobody reads
        if sys.stdin.buffer.readline() != b"go\n":
            os._exit(1)
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        if self.job.role == "consume":
            threading.Thread(target=self._watch, daemon=True).start()
        self.began, self._cpu_before = time.monotonic(), time.process_time()

    def end(self) -> None:
        """All appends are acknowledged."""
        self.ended, self._cpu = time.monotonic(), time.process_time()

    def note(self, group: str, message_id: str) -> None:
        """All that a handler does."""
        self._rows.append((group, message_id, time.monotonic()))

    async def handle(self, group: str, message_id: str) -> None:
        """All that a coroutine does: `note`, after the sleep that the job asks for, if any."""
        if self._sleep_s:
            self._enter()
            await asyncio.sleep(self._sleep_s)
            self._at_once -= 1
        self.note(group, message_id)

    def handle_in_thread(self, group: str, message_id: str) -> None:
        """As `handle`, of a function that blocks its thread."""
        if self._sleep_s:
            self._enter()
            time.sleep(self._sleep_s)
            self._at_once -= 1  # a thread may lose a count now and then: only the most is read, and roughly
        self.note(group, message_id)

    def _enter(self) -> None:
        self.first = self.first or time.monotonic()
        self._at_once += 1
        self._most_at_once = max(self._most_at_once, self._at_once)

    def write(self) -> None:
        """Times by CLOCK_MONOTONIC; `cpu_s` is this process's, from `go` to the last row, to POLL_S."""
        result = {
            "began": self.began,
            "ended": self.ended,
            "first": self.first,
            "cpu_s": self._cpu - self._cpu_before,
            "at_once": self._most_at_once,
            "rows": self._rows,
        }
        Path(self.job.result).write_text(json.dumps(result))

    def _watch(self) -> None:
        seen, since = 0, time.monotonic()
        while True:
            time.sleep(POLL_S)
            now = time.monotonic()
            if len(self._rows) > seen:
                seen, since, self._cpu = len(self._rows), now, time.process_time()
            elif now - since > QUIET_S or (now - since > SETTLE_S and self._is_complete()):
                self.write()
                os._exit(0)  # no two systems stop alike; nothing of what is left matters any more

    def _is_complete(self) -> bool:
        return len({row[:2] for row in self._rows}) >= self.job.messages

    @staticmethod
    def _end_with_parent() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)


def play(system: Any) -> None:
    """Be the process of one job. `system` has `produce(stage)` and `consume(stage)`, plain or async.

    Any: a module, or a class, of one system.
    """
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    stage = Stage(job)
    outcome = (system.produce if job.role == "produce" else system.consume)(stage)
    if asyncio.iscoroutine(outcome):
        asyncio.run(outcome)
    if job.role == "produce":
        stage.write()
        sys.stderr.flush()
        os._exit(0)
    while True:  # a consumer that returned found nothing more: the watcher ends this process
        time.sleep(1)


async def in_windows(stage: Stage, send: Callable[[Message], Awaitable[Any]]) -> None:
    """Append all: one by one, or `window` at a time, each window begun when the one before is acknowledged."""
    messages = stage.job.planned()
    stage.begin()
    if not stage.job.batch:
        for message in messages:
            await send(message)
    else:
        for window in windows(messages, stage.job.setting["window"]):
            await asyncio.gather(*map(send, window))
    stage.end()


def windows(messages: Sequence[Message], size: int) -> list[Sequence[Message]]:
    return [messages[at : at + size] for at in range(0, len(messages), size)]
