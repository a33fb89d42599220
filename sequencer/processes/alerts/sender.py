"""Sends notices to one target, in a thread of its own: retries, and says what fails. A slow target delays nobody."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .notice import DeliveryFailed, Notice
from .targets.table import Target

ATTEMPTS = 3
BETWEEN_S = 1.0
"""From the end of an attempt to the next."""
ALL_ATTEMPTS_S = 18.0
"""From the start of the first attempt to the end of the last: a sender's right to send lasts 30 s."""
MAX_WAITING = 100
"""Notices that wait for their target; more are refused."""
MAX_LOGGED = 20
"""Different failures that are logged until a notice is taken again."""
TOO_LATE = "its time was over before it could be sent: what was sent before it took too long"
_log = logging.getLogger("sequencer.alerts")


class _Offer(NamedTuple):
    until: float
    notice: Notice
    on_sent: Callable[[], object]


class Sender:
    """Sends notices to one target, in the order in which they are offered."""

    def __init__(self, target: Target, on_failed: Callable[[str, str], object]) -> None:
        """`on_failed(name of the target, text)` is called in the thread of the sender: once for each text, until a
        notice is taken again. The text holds no secret.
        """
        self._target, self._on_failed = target, on_failed
        self._changed = threading.Condition()
        """Guards the next three."""
        self._waiting: deque[_Offer] = deque()
        self._is_sending = self._is_closed = False
        self._logged: set[str] = set()
        threading.Thread(target=self._run, name=f"alerts to {target.name}", daemon=True).start()

    def offer(self, until: float, notice: Notice, on_sent: Callable[[], object]) -> bool:
        """Send the notice soon; not if it can't be begun before `until` (of `time.monotonic`). Never waits.

        `on_sent()` is called in the thread of the sender, after the target took it. False: it is not even queued, since
        too many wait, or the sender is closed.
        """
        with self._changed:
            if self._is_closed or len(self._waiting) >= MAX_WAITING:
                return False
            self._waiting.append(_Offer(until, notice, on_sent))
            self._changed.notify_all()
            return True

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is being sent."""
        with self._changed:
            return not self._waiting and not self._is_sending

    def close(self) -> None:
        """Send nothing more, not even what waits. An attempt in progress is not waited for."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while (offer := self._next()) is not None:
            try:
                self._deliver(offer)
            except BaseException as error:  # whatever it is, the next notice is sent
                self._log(_unforeseen(error))

    def _next(self) -> _Offer | None:
        """Waits for one; None once the sender is closed."""
        with self._changed:
            self._is_sending = False
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._is_closed:
                return None
            self._is_sending = True
            return self._waiting.popleft()

    def _deliver(self, offer: _Offer) -> None:
        started = time.monotonic()
        if started >= offer.until:
            self._log(TOO_LATE)
            return
        failure = ""
        for number in range(ATTEMPTS):
            if number and (self._pause() or time.monotonic() + self._target.timeout_s > started + ALL_ATTEMPTS_S):
                break
            failure = failure_of(self._target, offer.notice)
            if not failure:
                self._logged.clear()
                offer.on_sent()
                return
        self._log(failure)

    def _pause(self) -> bool:
        """Between two attempts; whether the sender is closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, BETWEEN_S)

    def _log(self, failure: str) -> None:
        """Once for each text, until a notice is taken again."""
        if failure in self._logged or len(self._logged) >= MAX_LOGGED:
            return
        self._logged.add(failure)
        try:
            self._on_failed(self._target.name, failure)
        except Exception as error:
            _log.error("alerts to %s: %s; and logging that failed: %s", self._target.name, failure, _unforeseen(error))


def failure_of(target: Target, notice: Notice) -> str:
    """One attempt: what it failed with, without a secret; "" where the target took the notice."""
    try:
        target.send(notice)
    except DeliveryFailed as error:
        return str(error)
    except BaseException as error:
        return _unforeseen(error)
    return ""


def _unforeseen(error: BaseException) -> str:
    """Its type and place only: its text may hold a URL."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    worker = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return f"unforeseen: {type(error).__name__}{worker}"
