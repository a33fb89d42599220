"""That the server is away, as an incident. No server can keep it: each process keeps its own, and sends it itself.

All targets are sent the same message, until another takes its place: one that says it took the message is not sent it
again, one that does not is retried after the hold. What still holds is sent again after a time, and so is
its end. A check that is answered ends it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from typing import NamedTuple

from ...calls.alerts import AlertTimes, Grant, What
from ...texts.alerts import alert_text

HOLD_S = AlertTimes(settle=0.0).hold


class _Message(NamedTuple):
    """What the targets are sent now. Its times are of a clock that goes on, but for `at`, since 1970."""

    what: What
    number: int
    opened_us: int
    lost: float
    now: float
    at: float


class AwayIncident:
    """What a process knows of it; kept when its file is read again."""

    def __init__(self) -> None:
        self._lost: float | None = None
        """Since when no check was answered; None: the last one was."""
        self._error = ""
        self._lock = threading.Lock()
        """Guards the next two; targets are notified by threads of their own."""
        self._message: _Message | None = None
        """None: each target was notified that the last incident is over."""
        self._free_at = dict[str, float]()
        """When a target may be sent the message; infinity: it took it."""

    def check(
        self, now: float, at: float, error: str, targets: Collection[str], *, limit_s: float, repeat_s: float
    ) -> list[Grant]:
        """A check was answered, with `error` "", or it was not: what to send to the targets now, each granted for the
        time of a hold. It is sent from `limit_s` on; 0: never.
        """
        with self._lock:
            last = self._message
            is_open = last is not None and last.what != "resolved"
            if error:
                self._lost, self._error = now if self._lost is None else self._lost, error
                if 0 < limit_s <= now - self._lost and not is_open:
                    opened_us = last.opened_us if last else round((at - (now - self._lost)) * 1e6)
                    self._send(_Message("open", last.number if last else -1, opened_us, self._lost, now, at))
                elif last and is_open and 0 < repeat_s <= now - last.now:
                    self._send(last._replace(what="again", now=now, at=at))
            else:
                self._lost = None
                if last and is_open:
                    self._send(last._replace(what="resolved", now=now, at=at))
            if (one := self._message) is None:
                return []
            due = [target for target in targets if now >= self._free_at.get(target, 0.0)]
            self._free_at |= dict.fromkeys(due, now + HOLD_S)
            if one.what == "resolved" and all(self._free_at[target] == math.inf for target in targets):
                self._message = None
            return [_grant(one, target, now, at, self._error, limit_s) for target in due]

    def _send(self, message: _Message) -> None:
        self._message = message._replace(number=message.number + 1)
        self._free_at = {target: free_at for target, free_at in self._free_at.items() if free_at != math.inf}

    def sent(self, grant: Grant) -> None:
        with self._lock:
            one = self._message
            is_of_now = one and (one.opened_us, one.number) == (grant.opened_us, grant.number)
            self._free_at[grant.target] = math.inf if is_of_now else 0.0


def _grant(one: _Message, target: str, now: float, at: float, error: str, limit_s: float) -> Grant:
    wording = "away"
    if one.what == "resolved":
        now, at, wording = one.now, one.at, "away over"
    away_s = now - one.lost
    said = alert_text(wording, away_s=away_s, error=error)
    return Grant(
        "away", one.what, target, one.opened_us, one.number, str(away_s), str(limit_s), said, False, round(at * 1e6)
    )
