"""Sends notices to one target, in a thread of its own: retries, and says what fails. A slow target delays nobody."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .notice import DeliveryFailed, Notice
from .targets import Target

ATTEMPTS = 3
BETWEEN_S = 1.0
"""From the end of an attempt to the next."""
ALL_ATTEMPTS_S = 18.0
"""From the start of the first attempt to the end of the last: a sender's right to send lasts 30 s."""
MAX_WAITING = 100
"""Notices that wait for their target; more are refused."""


class Sender:
    """Sends notices to one target, in the order in which they are offered."""

    def __init__(self, target: Target, on_failed: Callable[[str, DeliveryFailed], object]) -> None:
        """`on_failed(name of the target, error)` is called in the thread of the sender, not twice in a row with one
        text, until a notice is taken again.
        """
        self._target, self._on_failed = target, on_failed
        self._waiting: queue.Queue[tuple[float, Notice, Callable[[], object]] | None] = queue.Queue(MAX_WAITING)
        """None ends the thread."""
        self._closed = threading.Event()
        self._last_failure = ""
        threading.Thread(target=self._run, name=f"alerts to {target.name}", daemon=True).start()

    def offer(self, until: float, notice: Notice, on_sent: Callable[[], object]) -> bool:
        """Send the notice soon; not if it can't be begun before `until` (of `time.monotonic`). Never waits.

        `on_sent()` is called in the thread of the sender, after the target took it. False: it is not even queued, since
        too many wait, or the sender is closed.
        """
        with suppress(queue.Full):
            if not self._closed.is_set():
                self._waiting.put_nowait((until, notice, on_sent))
                return True
        return False

    @property
    def is_idle(self) -> bool:
        return not self._waiting.unfinished_tasks

    def close(self) -> None:
        """Send nothing more, not even what waits. An attempt in progress is not waited for; again is harmless."""
        self._closed.set()
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
                self._waiting.task_done()
        self._waiting.put(None)

    def _run(self) -> None:
        while (offer := self._waiting.get()) is not None:
            try:
                self._deliver(*offer)
            except BaseException as error:  # whatever it is, the next notice is sent
                self._log(_unforeseen(error))
            self._waiting.task_done()
        self._waiting.task_done()

    def _deliver(self, until: float, notice: Notice, on_sent: Callable[[], object]) -> None:
        started, failure = time.monotonic(), DeliveryFailed("alert_too_late")
        last_start = started + ALL_ATTEMPTS_S - self._target.timeout_s
        for number in range(ATTEMPTS if started < until else 0):
            if number and (self._closed.wait(BETWEEN_S) or time.monotonic() > last_start):
                break
            if (found := failure_of(self._target, notice)) is None:
                self._last_failure = ""
                on_sent()
                return
            failure = found
        self._log(failure)

    def _log(self, failure: DeliveryFailed) -> None:
        if str(failure) != self._last_failure:
            self._last_failure = str(failure)
            self._on_failed(self._target.name, failure)


def failure_of(target: Target, notice: Notice) -> DeliveryFailed | None:
    """One attempt: what it failed with; None where the target took the notice."""
    try:
        target.send(notice)
    except DeliveryFailed as error:
        return error
    except BaseException as error:
        return _unforeseen(error)
    return None


def _unforeseen(error: BaseException) -> DeliveryFailed:
    """Its type and place only: its text may hold a URL."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = {"file": Path(frame.filename).name, "line": frame.lineno}
    return DeliveryFailed("alert_unforeseen", type=type(error).__name__, **place)
