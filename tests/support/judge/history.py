"""What happened, as JSON lines from every process: written by a `Recorder`, judged in `judgement.py`.

A line is one event: `what` happened, `at` (seconds of CLOCK_MONOTONIC, one clock for all processes of a machine), by
`who` (a process). Lines are appended whole by one write, so that a process that is killed leaves no half of one behind
it but the last.

    appending                 a producer is about to append: group, id, score
    appended                  it was told the outcome: stamp, kind ("stored", "duplicate", ...)
    refused, unknown          it was told no, or nothing: kind (the error's class)
    begun, ended, failed      a handler run: group, id, score, stamp, token, attempt, redriven
    fault                     a fault that took effect: kind, from `at` to `until`, on `who` ("": on all)
    seen                      something that shows an effect: kind ("stale token refused", "lease expired", ...)
    healed, drained           the faults are over; nothing is left to do
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from sequencer.store.group import encode_group
from sequencer.values.message import Message


class Event(NamedTuple):
    """One line of a history. Fields that an event does not have keep their defaults."""

    what: str
    at: float
    who: str = ""
    group: str = ""
    id: str = ""
    score: float = 0.0
    stamp: int = 0
    token: int = 0
    attempt: int = 0
    redriven: bool = False
    kind: str = ""
    until: float = 0.0


class Recorder:
    """Appends events to a file. One for a process; threads may share it."""

    def __init__(self, path: str | os.PathLike[str], who: str = "") -> None:
        self.path, self.who = Path(path), who or str(os.getpid())
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: str, **fields: Any) -> None:
        """Write one event; `at` and `who` are now and this process unless given. Raises OSError on a full disk."""
        line = orjson.dumps({"what": what, "at": time.monotonic(), "who": self.who, **fields}) + b"\n"
        if os.write(self._fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def run(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The handler, with each of its runs recorded."""

        def recorded(message: Message, *steps: Any) -> Any:
            fields = run_fields(message)
            self.note("begun", **fields)
            try:
                result = handler(message, *steps)
            except BaseException as error:
                self.note("failed", kind=type(error).__name__, **fields)
                raise
            self.note("ended", **fields)
            return result

        return recorded

    def close(self) -> None:
        os.close(self._fd)


def run_fields(message: Message) -> dict[str, Any]:
    """What an event says of the message whose handler runs."""
    return {
        "group": encode_group(message.group),
        "id": message.id,
        "score": message.score,
        "stamp": message.stamp,
        "token": message.token,
        "attempt": message.attempt,
        "redriven": message.redriven,
    }


def read_events(paths: Iterable[str | os.PathLike[str]]) -> list[Event]:
    """The events of these files in the order of their times. Raises ValueError for a line that is no event.

    The last line of a file may be cut short by a kill: it is left out.
    """
    events: list[Event] = []
    for path in paths:
        with suppress(FileNotFoundError):
            events += _events_of(Path(path))
    events.sort(key=lambda event: event.at)
    return events


def _events_of(path: Path) -> Iterator[Event]:
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            try:
                yield Event(**orjson.loads(line))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number} is not an event: {error}") from error
