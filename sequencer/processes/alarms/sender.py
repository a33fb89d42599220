"""Sends notices to one target, in a thread of its own: tries again, and says what fails. A slow target delays nobody.

Each try runs in a further thread, which is left alone when its time is over: nothing can end a library that waits, or
the look-up of a name. There is at most one such thread a target. While it goes on, a try of the same notice waits for
it and takes its outcome, so that a slow receiver is not told three times; a try of another notice fails.
"""

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

TRIES = 3
BETWEEN_S = 1.0
"""From the end of a try to the next."""
ALL_TRIES_S = 18.0
"""From the start of the first try to the end of the last: a sender's right to send lasts 30 s."""
LATE_S = 0.3
"""A target that keeps its own time limit is heard this much later."""
MAX_WAITING = 100
"""Notices that wait for their target; more are refused."""
MAX_TOLD = 20
"""Different failures that are told until a notice is taken again."""
TOO_LATE = "its time was over before it could be sent: what was sent before it took too long"
_log = logging.getLogger("sequencer.alarms")


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
        """Guards the four below."""
        self._waiting: deque[_Offer] = deque()
        self._is_sending = self._is_closed = False
        self._told: set[str] = set()
        self._try: _Try | None = None
        """One whose end is not known."""
        threading.Thread(target=self._run, name=f"alarms to {target.name}", daemon=True).start()

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
        """Send nothing more, not even what waits. A try that is under way is not waited for; again is harmless."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while (offer := self._next()) is not None:
            try:
                self._deliver(offer)
            except BaseException as error:  # whatever it is, the next notice is sent
                self._tell(_unforeseen(error))

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
            self._tell(TOO_LATE)
            return
        limit_s, failure = self._target.timeout_s + LATE_S, ""
        for number in range(TRIES):
            if number and (self._pause() or time.monotonic() + limit_s > started + ALL_TRIES_S):
                break
            failure = self._one_try(offer.notice, limit_s)
            if not failure:
                self._told.clear()
                offer.on_sent()
                return
        self._tell(failure)

    def _pause(self) -> bool:
        """Between two tries; whether the sender is closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, BETWEEN_S)

    def _one_try(self, notice: Notice, limit_s: float) -> str:
        """What one try failed with; "" where the target took the notice."""
        if self._try is None or (not self._try.is_under_way and self._try.notice is not notice):
            self._try = _Try(self._target, notice)
        elif self._try.notice is not notice:
            return "an earlier message still waits for its answer"
        if not self._try.ends_within(limit_s):
            return f"no answer within {self._target.timeout_s:g} s"
        ended, self._try = self._try, None
        return ended.failure

    def _tell(self, failure: str) -> None:
        """Once for each text, until a notice is taken again."""
        if failure in self._told or len(self._told) >= MAX_TOLD:
            return
        self._told.add(failure)
        try:
            self._on_failed(self._target.name, failure)
        except Exception as error:
            _log.error("alarms to %s: %s; and telling that failed: %s", self._target.name, failure, _unforeseen(error))


class _Try:
    """A notice on its way to a target."""

    def __init__(self, target: Target, notice: Notice) -> None:
        self.notice, self.failure = notice, ""
        self._target = target
        self._thread = threading.Thread(target=self._send, name=f"a try to {target.name}", daemon=True)
        self._thread.start()

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _send(self) -> None:
        self.failure = failure_of(self._target, self.notice)


def failure_of(target: Target, notice: Notice) -> str:
    """One try, in this thread: what it failed with, without a secret; "" where the target took the notice."""
    try:
        target.send(notice)
    except DeliveryFailed as error:
        return str(error) or "it did not say why"
    except BaseException as error:
        return _unforeseen(error)
    return ""


def _unforeseen(error: BaseException) -> str:
    """Its type and place only: its text may hold a URL."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return f"unforeseen: {type(error).__name__}{place}"
