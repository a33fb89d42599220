"""Processes of a trial: forked from a warmed-up parent that has no connection and no thread, so that one more costs a
few milliseconds, and watched by their wait status.

Linux and macOS only, as the rest. The child works on connections of its own and never returns from `start`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sequencer.testing import wait_until

PATIENCE_S = 20.0
"""A process that takes longer than this is stuck; what it has to do takes less than 2 s."""


@dataclass(slots=True)
class Child:
    """One process and how far it is."""

    name: str
    pid: int
    directory: Path
    status: int | None = None
    """Its wait status once it has ended."""
    stopped_at: float | None = None
    """When its parent saw that it had stopped, by CLOCK_MONOTONIC."""
    healed_at: float = field(default=0.0)

    @property
    def who(self) -> str:
        """How its record calls it."""
        return str(self.pid)

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        return os.WTERMSIG(self.status) if self.status is not None and os.WIFSIGNALED(self.status) else None

    @property
    def is_fine(self) -> bool:
        return self.status == 0

    @property
    def said(self) -> str:
        """What it wrote to its log."""
        path = self.directory / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def poll(self) -> bool:
        """Whether it ended or stopped."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self.stopped_at = self.stopped_at or time.monotonic()
                return True
            if pid:
                self.status = status
        return self.status is not None

    def wait(self) -> None:
        """Wait until it ended or stopped. Raises AssertionError after PATIENCE_S."""
        wait_until(self.poll, PATIENCE_S, f"the end of process {self.name}")

    def resume(self) -> None:
        """Let it go on after its stop."""
        self.healed_at = time.monotonic()
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Kill it unless it has ended."""
        if self.status is None:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                self.status = os.waitpid(self.pid, 0)[1]


def start(name: str, directory: Path, body: Callable[[], None]) -> Child:
    """Run `body` in a process of its own; its log and a traceback, if any, go to `NAME.log`."""
    pid = os.fork()
    if pid:
        return Child(name, pid, directory)
    status = 1
    with suppress(BaseException), open(directory / f"{name}.log", "w", buffering=1) as said:
        try:
            _settle(said)
            body()
            status = 0
        except BaseException:
            traceback.print_exc(file=said)
    os._exit(status)


def _settle(said: IO[str]) -> None:
    """Signals as in a fresh process, and a log of its own: handlers of the parent's are not this one's."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout = sys.stderr = said
    root = logging.getLogger()
    root.handlers = [logging.StreamHandler(said)]
    root.setLevel(logging.WARNING)
    logging.getLogger("sequencer").handlers = []


def write_counts(path: Path, counts: dict[str, int]) -> None:
    """Keep the passages of a process for its parent."""
    path.write_text(json.dumps(counts))


def read_counts(path: Path) -> dict[str, int]:
    """The passages of a process; none when it was killed."""
    counts: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return counts
