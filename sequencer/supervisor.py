"""The parent of n consumer processes: starts them, replaces one that died, recycles, and stops them in stages.

Each consumer is a fresh interpreter (never a fork of this one) in a session of its own, so a terminal's Ctrl-C reaches
the supervisor alone, which decides what it means:

    signal 1   take nothing new; what runs is finished and acknowledged, the rest released
    signal 2   release and stop now, in the middle of a handler if need be
    signal 3   kill; groups then wait for their leases to end

Signal handlers only note; the loop acts. If the supervisor itself dies, its consumers see their standard input end,
and stop.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from .backoff import RestartPolicy
from .interruption import name_of
from .worker import DRAINED, OUTPUT_CLOSED, OUTPUT_FAILED, RECYCLED, SERVER, STOPPED, WRONG_USE, WorkerConfig

STAGES = (
    "stopping: {n} consumers finish the message in hand; again to release it and stop now",
    "stopping now: {n} consumers release what they hold; again to kill them",
    "killed {n} consumers; their groups wait until the leases end",
)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
"""What consumers are sent at each stage: of a number that is still on its way, a second one would not be noticed."""
GAVE_UP = 1
ENDINGS = {OUTPUT_CLOSED: 0, OUTPUT_FAILED: GAVE_UP, WRONG_USE: WRONG_USE}
"""Exit statuses of one consumer that no other could better, and what the supervisor then returns."""


@dataclass(slots=True)
class Slot:
    """One place for a consumer process, and the one in it."""

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    """When to start the next one; only while there is no process and the slot is not done."""
    is_done: bool = False
    fast_deaths: int = 0
    """Deaths in a row in this place, each soon after its start."""


@dataclass(slots=True)
class Totals:
    """What all consumers together did, from their reports; a consumer that was killed made none."""

    handled: int = 0
    failed: int = 0
    lost: int = 0
    started: int = 0
    died: int = 0
    seconds: float = 0.0


class Supervisor:
    """Keeps `processes` consumers running until they are drained, told to stop, or die too fast to go on."""

    def __init__(
        self,
        config: WorkerConfig,
        processes: int,
        *,
        policy: RestartPolicy | None = None,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        self.totals = Totals()
        self._config, self._policy, self._say = config, policy or RestartPolicy(), say
        self._slots = [Slot() for _ in range(processes)]
        self._notes: deque[int] = deque()
        self._stage = 0
        self._fast_deaths = 0
        self._status: int | None = None
        self._wake_read, self._wake_write = os.pipe()
        self._report_read, self._report_write = os.pipe()
        for fd in (self._wake_read, self._wake_write, self._report_read):
            os.set_blocking(fd, False)
        self._reports = b""
        self._ready, self._seen = threading.Event(), set[int]()
        self._exits: dict[int, int] = {}

    def stop(self) -> None:
        """The next stage of stopping. A note only: safe in a signal handler or any thread."""
        self._notes.append(1)
        self._wake()

    @property
    def pids(self) -> list[int]:
        """The processes of the consumers that run now."""
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait, in another thread, until every first consumer is connected."""
        return self._ready.wait(timeout_s)

    def run(self) -> int:
        """Supervise to the end. Returns 0, 1 when it gave up, 2 or 3 when consumers can't work at all."""
        began = time.monotonic()
        with tempfile.TemporaryFile() as lock, self._signals(), selectors.DefaultSelector() as selector:
            self._config = replace(self._config, lock_fd=lock.fileno(), report_fd=self._report_write)
            selector.register(self._wake_read, selectors.EVENT_READ)
            selector.register(self._report_read, selectors.EVENT_READ)
            try:
                while not all(slot.is_done for slot in self._slots):
                    self._start_due()
                    selector.select(self._next_wait_s())
                    self._take_notes()
                    self._read_reports()
                    self._reap()
            finally:
                self._kill_all()
                self._read_reports()
                for fd in (self._wake_read, self._wake_write, self._report_read, self._report_write):
                    os.close(fd)
        self.totals.seconds = time.monotonic() - began
        return self._status or 0

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = {n: signal.signal(n, lambda *_: self.stop()) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: self._wake())
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except OSError:
            return  # the pipe is full of wake-ups, or the run has ended

    def _next_wait_s(self) -> float:
        # SIGCHLD wakes the loop in the main thread; in another thread a short look has to do.
        longest = 5.0 if threading.current_thread() is threading.main_thread() else 0.02
        starts = [slot.start_at for slot in self._slots if slot.process is None and not slot.is_done]
        return max(0.0, min([longest, *[at - time.monotonic() for at in starts]]))

    def _start_due(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.process is None and not slot.is_done and slot.start_at <= now:
                fds = (self._config.lock_fd, self._report_write)
                slot.process = subprocess.Popen(
                    # -P: a folder named `sequencer` in the working directory must not stand in for this package.
                    [sys.executable, "-P", "-m", "sequencer.worker"],
                    stdin=subprocess.PIPE,
                    pass_fds=[fd for fd in fds if fd is not None],
                    start_new_session=True,
                )
                slot.started_at = now
                self.totals.started += 1
                assert slot.process.stdin is not None
                try:
                    slot.process.stdin.write(self._config.line())
                    slot.process.stdin.flush()
                except BrokenPipeError:
                    continue  # it died at once: reaped in this round like any other

    def _take_notes(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        while self._notes:
            self._notes.popleft()
            if self._stage < len(STAGES):
                self._stage += 1
                self._say(STAGES[self._stage - 1].format(n=len(self.pids)))
                self._signal_all(SIGNALS[self._stage - 1])

    def _signal_all(self, number: int) -> None:
        for slot in self._slots:
            if slot.process is None:
                slot.is_done = True
            elif slot.process.poll() is None:
                slot.process.send_signal(number)

    def _reap(self) -> None:
        for slot in self._slots:
            process = slot.process
            if process is None or process.poll() is None:
                continue
            slot.process = None
            if process.stdin:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            self._read_reports()
            self._decide(slot, process.pid, self._exits.pop(process.pid, None), process.returncode)

    def _decide(self, slot: Slot, pid: int, status: int | None, returncode: int) -> None:
        """What follows from the end of a consumer.

        `status` is what it announced; a `returncode` without that is the doing of others: a signal, or os._exit in a
        handler.
        """
        is_planned = status in (DRAINED, RECYCLED, STOPPED, OUTPUT_CLOSED)
        if self._stage:
            # One that had not begun dies of the signal itself.
            is_planned = is_planned or -returncode in SIGNALS
            slot.is_done = True
        elif status == DRAINED:
            slot.is_done = True
        elif status in ENDINGS:
            self._end(slot, ENDINGS[status])
        elif is_planned:
            slot.start_at = 0.0
        else:
            self._replace(slot, pid, status, returncode)
        if not is_planned:
            self.totals.died += 1

    def _replace(self, slot: Slot, pid: int, status: int | None, returncode: int) -> None:
        now = time.monotonic()
        lived_s = now - slot.started_at
        others_s = [now - other.started_at for other in self._slots if other.process is not None]
        self._fast_deaths = self._policy.after_death(self._fast_deaths, max([lived_s, *others_s]))
        why = f"signal {name_of(-returncode)}" if returncode < 0 else f"exit status {returncode}"
        slot.fast_deaths = self._policy.after_death(slot.fast_deaths, lived_s)
        if self._policy.gives_up(self._fast_deaths):
            self._say(
                f"giving up: {self._fast_deaths} consumers in a row died within {self._policy.fast_s:g} s ({why})"
            )
            self._end(slot, SERVER if status == SERVER else GAVE_UP)
            return
        delay_s = self._policy.delay_s(slot.fast_deaths, random.random())
        self._say(f"consumer {pid} died ({why}) after {lived_s:.1f} s; its replacement starts in {delay_s:.1f} s")
        slot.start_at = now + delay_s

    def _end(self, slot: Slot, status: int) -> None:
        """No consumer can go on: stop them all, and end with this status."""
        slot.is_done = True
        if self._status is None:
            self._status = status
        self._stage = max(self._stage, 1)
        self._signal_all(signal.SIGTERM)

    def _read_reports(self) -> None:
        try:
            while piece := os.read(self._report_read, 65536):
                self._reports += piece
        except BlockingIOError:
            pass
        *lines, self._reports = self._reports.split(b"\n")
        for line in lines:
            self._take_report(json.loads(line))

    def _take_report(self, event: dict[str, Any]) -> None:
        if event["event"] == "exit":
            self._exits[event["pid"]] = event["status"]
        elif event["event"] == "ended":
            self.totals.handled += event["handled"]
            self.totals.failed += event["failed"]
            self.totals.lost += event["lost"]
        else:
            self._seen.add(event["pid"])
            if len(self._seen) >= len(self._slots):
                self._ready.set()

    def _kill_all(self) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.wait()
                if slot.process.stdin:
                    slot.process.stdin.close()
                slot.process = None
