"""Signals: those that ask to stop, their names, and the pipe by which they and other threads wake the supervisor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..consume.forks import SignalHandler, signals_taken

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Each of them asks to stop; one that was ignored when we started stays so (`nohup`, background jobs)."""


def stop_signals_in_use() -> list[signal.Signals]:
    """Those of STOP_SIGNALS that are not ignored."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


class SignalPipe:
    """A pipe to which signals and threads write what they ask for, as numbers of signals: a descriptor to wait for."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        for fd in (self.read_fd, self._write_fd):
            os.set_blocking(fd, False)
        self._lock, self._is_closed = threading.RLock(), False

    def ask(self, number: signal.Signals) -> None:
        """SIGTERM asks for the next stage of stopping. Safe in a signal handler or any thread."""
        with self._lock, suppress(BlockingIOError):
            if not self._is_closed:  # its number may be another's
                os.write(self._write_fd, bytes([number]))

    def take(self) -> bytes:
        with suppress(BlockingIOError):
            return os.read(self.read_fd, 65536)
        return b""

    @contextmanager
    def handlers(self, *, reloads: bool = False) -> Iterator[None]:
        """Within, a signal to stop is taken, and the end of a child wakes too; only in the main thread.

        `reloads`: SIGHUP is taken also where it was blocked until now.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard: dict[int, SignalHandler] = dict.fromkeys([*stop_signals_in_use(), signal.SIGCHLD], lambda *_: None)
        # Written by the system's handler: a signal just before the wait would not end that otherwise.
        old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        try:
            with signals_taken(heard):
                if reloads:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
                yield
        finally:
            signal.set_wakeup_fd(old_fd)

    def close(self) -> None:
        """Close both ends; nobody hears what is asked for after that."""
        with self._lock:
            self._is_closed = True
            for fd in (self.read_fd, self._write_fd):
                os.close(fd)
