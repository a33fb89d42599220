"""Signals: those that ask to stop, their names, and the pipe by which they and other threads wake the supervisor."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..consume.forks import SignalHandler, signals_taken

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Each of them asks to stop; one that was ignored when we started stays so (`nohup`, background jobs)."""


def stop_signals_in_use() -> list[signal.Signals]:
    """Those of STOP_SIGNALS that are not ignored."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def ending_text(returncode: int) -> str:
    """How a process ended, from its status as Popen has it: `signal SIGKILL`, `exit status 1`."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:  # those for real time have numbers only
        return f"signal {-returncode}"


class SignalPipe:
    """Counts the requests to stop, and has a descriptor to wait for them: a pipe that signals and threads write to."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        for fd in (self.read_fd, self._write_fd):
            os.set_blocking(fd, False)
        self._requests: deque[None] = deque()
        self._reloads = False
        self._lock, self._is_closed = threading.RLock(), False

    def request_stop(self) -> None:
        """Ask for the next stage of stopping. Safe in a signal handler or any thread."""
        self._requests.append(None)
        self._wake()

    def request_reload(self) -> None:
        """Ask for a reload. Safe in a signal handler or any thread."""
        self._reloads = True
        self._wake()

    def _wake(self) -> None:
        with self._lock, suppress(OSError):  # the pipe is full: its reader wakes all the same
            if not self._is_closed:  # its number may be another's by now
                os.write(self._write_fd, b"\0")

    def take_requests(self) -> int:
        """How many stages were asked for since the last call."""
        with suppress(BlockingIOError):
            while os.read(self.read_fd, 4096):
                pass
        count = 0
        while self._requests:
            self._requests.popleft()
            count += 1
        return count

    def take_reload(self) -> bool:
        """Whether a reload was asked for since the last call."""
        is_asked, self._reloads = self._reloads, False
        return is_asked

    @contextmanager
    def handlers(self, *, reloads: bool = False) -> Iterator[None]:
        """Within, a signal to stop is a request, and the end of a child wakes too; only in the main thread.

        `reloads`: SIGHUP asks for a reload, not for a stop; so does one that was blocked until now.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard: dict[int, SignalHandler] = {number: lambda *_: self.request_stop() for number in stop_signals_in_use()}
        if reloads and signal.SIGHUP in heard:
            heard[signal.SIGHUP] = lambda *_: self.request_reload()
        with signals_taken({**heard, signal.SIGCHLD: lambda *_: None}):
            if reloads:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
            # Written to by the system's handler: a signal just before the wait would not end that otherwise.
            old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
            try:
                yield
            finally:
                signal.set_wakeup_fd(old_fd)

    def close(self) -> None:
        """Close both ends; a request after that is only counted."""
        with self._lock:
            self._is_closed = True
            for fd in (self.read_fd, self._write_fd):
                os.close(fd)
