"""How a consumer is stopped, by its supervisor or by signals, and how it reports. Nothing here waits.

stage 1   take nothing new; what runs is finished and acknowledged
stage 2   release and stop now, in the middle of a handler if need be
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .forks import signals_taken

log = logging.getLogger("sequencer")

Report = Callable[[dict[str, Any]], None]
"""Sends one event to the supervisor. Never raises, and nobody may be listening."""


def ignore(_event: dict[str, Any]) -> None:
    """A Report where there is no supervisor."""


class Stop:
    """The highest stage that was asked for, and when the first was. Signal handlers and threads may write it."""

    def __init__(self) -> None:
        self._is_now = False
        self.at: float | None = None  # when stage 1 was asked for, by `time.monotonic`

    @property
    def stage(self) -> int:
        """Made of what is only ever set: a number that is read and written could go back."""
        return 2 if self._is_now else int(self.at is not None)

    def request(self, stage: int) -> None:
        """Ask for this stage; a higher one that was asked for before stays."""
        if self.at is None:
            self.at = time.monotonic()
        if stage > 1:
            self._is_now = True


@contextmanager
def stop_on_signals(stop: Callable[[], None], interrupt: Callable[[], None]) -> Iterator[None]:
    """First SIGINT or SIGTERM: `stop`; second: `interrupt`. In a thread other than the main one it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def on_signal(_number: int, _frame: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            stop()
            log.warning("finishing the current message; signal again to abort it")
        else:
            log.warning("stopping now: releasing what is held")
            interrupt()

    with signals_taken({signal.SIGINT: on_signal, signal.SIGTERM: on_signal}):
        yield
