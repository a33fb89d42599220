"""The processes of a chaos run, seen from the one that starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ...support.judge.history import Recorder
from ..strays import strays
from .setting import Setting

END_S = 10.0


class Child:
    """One process of `part.py`, started when made."""

    def __init__(self, setting: Setting, role: str, *words: str) -> None:
        self.role = role
        with (Path(setting.home) / f"{role}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.faults.chaos.part", role, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=setting.environment(),
            )
        self.pid = self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ask(self, **order: Any) -> int:
        """Give an order; the answer, or 0 when the process is gone, or was ended."""
        assert self._process.stdin
        assert self._process.stdout
        if self._process.stdin.closed:
            return 0
        try:
            self._process.stdin.write(orjson.dumps(order) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return 0
        line = self._process.stdout.readline()
        return int(orjson.loads(line)) if line.endswith(b"\n") else 0

    def signal(self, number: int) -> None:
        """Send a signal; a process that has ended gets none."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ends by itself within so long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return not self.is_running

    def end(self) -> bool:
        """Ask it to end, and insist; whether it ended when asked."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        is_ended = self.wait(END_S)
        if not is_ended:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        return is_ended


class Paused:
    """Processes that were stopped, and when each goes on."""

    def __init__(self, recorder: Recorder, mark: str) -> None:
        """`mark`: what all processes of this run have in their environment."""
        self._recorder, self._mark = recorder, mark
        self._since: list[tuple[float, float, Child, int]] = []

    def add(self, child: Child, which: int, seconds: float) -> None:
        """Stop a process for so long."""
        now = time.monotonic()
        pid = send(child, signal.SIGSTOP, which)
        if pid:
            self._since.append((now + seconds, now, child, pid))

    def go_on(self, *, everything: bool = False) -> None:
        """Continue those whose time is over; the pause counts then, for it had its whole length."""
        for one in list(self._since):
            until, since, child, pid = one
            if everything or time.monotonic() >= until:
                self._since.remove(one)
                if child.role != "consumers":
                    child.signal(signal.SIGCONT)
                elif not child.ask(signal=int(signal.SIGCONT), pid=pid) and pid in strays(self._mark):
                    with suppress(ProcessLookupError):  # its supervisor ended meanwhile
                        os.kill(pid, signal.SIGCONT)
                self._recorder.note("fault", at=since, until=time.monotonic(), who=str(pid), kind="process paused")

    @property
    def pids(self) -> set[int]:
        return {pid for _, _, _, pid in self._since}


def send(child: Child, number: signal.Signals, which: int) -> int:
    """Signal a process: for consumers, that of one of them. Returns its id, 0 if there was none."""
    if child.role == "consumers":
        return child.ask(signal=int(number), index=which)
    if not child.is_running:
        return 0
    child.signal(number)
    return child.pid
