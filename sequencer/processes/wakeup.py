"""How signals and other threads wake the supervisor's loop: they leave a note and a byte in a pipe."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Each of them asks to stop; one that was ignored when we started stays so (`nohup`, background jobs)."""


def heard_signals() -> list[signal.Signals]:
    """Those of STOP_SIGNALS that are not ignored."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


class Wakeup:
    """A note for each stage of stopping that was asked for, and a descriptor to wait for."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        for fd in (self.read_fd, self._write_fd):
            os.set_blocking(fd, False)
        self._notes: deque[None] = deque()
        self._lock, self._is_closed = threading.RLock(), False

    def note(self) -> None:
        """Ask for the next stage. Safe in a signal handler or any thread."""
        self._notes.append(None)
        with self._lock, suppress(OSError):  # the pipe is full of wake-ups
            if not self._is_closed:  # its number may be another's by now
                os.write(self._write_fd, b"\0")

    def take(self) -> int:
        """How many stages were asked for since the last look."""
        with suppress(BlockingIOError):
            while os.read(self.read_fd, 4096):
                pass
        count = 0
        while self._notes:
            self._notes.popleft()
            count += 1
        return count

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Within, signals to stop are notes, and the end of a child wakes too; only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = {number: signal.signal(number, lambda *_: self.note()) for number in heard_signals()}
        old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        # Written to by the system's handler: a signal just before the wait would not end that otherwise.
        old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old_fd)
            for number, handler in old.items():
                signal.signal(number, handler)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for fd in (self.read_fd, self._write_fd):
                os.close(fd)
