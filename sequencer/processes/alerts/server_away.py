"""That the server is away, as an incident. No server can keep it: each process keeps its own, and tells it itself.

The rules are those of `lua/alert.lua`: a target that says it took a message is not sent it again, one that does not is
retried after the hold; what still holds is told again after a time, and that it is over is told too. A look that is
answered ends it. Times are seconds of a clock that goes on, but for `at`, since 1970.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from ...calls.alerts import AlertTimes, Grant, What
from ...texts.words import duration

KIND = "away"
HOLD_S = AlertTimes(settle=0.0).hold


@dataclass(slots=True)
class _Message:
    """What a target was granted last."""

    what: What | None = None
    number: int = -1
    is_taken: bool = False
    at: float = 0.0
    """When it was granted, or taken."""

    def next(self, now: float, repeat_s: float, *, is_over: bool) -> What | None:
        """What the target is to be told now. Another message has another number: it may have taken the last one."""
        if self.what and not self.is_taken and now < self.at + HOLD_S:
            return None
        if is_over:
            return None if self.what == "resolved" and self.is_taken else "resolved"
        if self.what in (None, "resolved"):
            return "open"
        if not self.is_taken:
            return self.what
        return "again" if 0 < repeat_s <= now - self.at else None


@dataclass(slots=True)
class _Incident:
    opened_us: int
    opened: float
    error: str
    lost: float
    """Later than `opened` where it is away again before each target has heard that it was back."""
    back: float | None = None
    to: dict[str, _Message] = field(default_factory=dict)


class ServerAway:
    """What a process knows of it; kept when its file is read again."""

    def __init__(self) -> None:
        self._lost: float | None = None
        """Since when no look was answered; None: the last one was."""
        self._lock = threading.Lock()
        """Guards the next; targets are told by threads of their own."""
        self._incident: _Incident | None = None

    def note(self, now: float, at: float, error: str, limit_s: float) -> None:
        """A look was answered, with `error` "", or it was not. It is told from `limit_s` on; 0: never."""
        with self._lock:
            if not error:
                self._lost = None
                if self._incident and self._incident.back is None:
                    self._incident.back = now
                return
            self._lost = now if self._lost is None else self._lost
            if limit_s <= 0 or now - self._lost < limit_s:
                return
            if self._incident is None:
                self._incident = _Incident(round((at - (now - self._lost)) * 1e6), self._lost, error, self._lost)
            self._incident.back, self._incident.error, self._incident.lost = None, error, self._lost

    def grants(self, now: float, targets: Collection[str], repeat_s: float, limit_s: float) -> list[Grant]:
        """What these targets are to be told now. Each is theirs for the time of a hold."""
        with self._lock:
            if (one := self._incident) is None:
                return []
            one.to = {name: one.to.get(name, _Message()) for name in targets if one.back is None or name in one.to}
            if one.back is not None and all(to.what == "resolved" and to.is_taken for to in one.to.values()):
                self._incident = None
            found = []
            for target, to in one.to.items():
                if what := to.next(now, repeat_s, is_over=one.back is not None):
                    number = to.number if to.what == what and not to.is_taken else to.number + 1
                    one.to[target] = _Message(what, number, at=now)
                    found.append(_grant(one, target, what, number, now, limit_s))
            return found

    def sent(self, grant: Grant, now: float) -> None:
        """The target took it."""
        with self._lock:
            to = self._incident.to.get(grant.target) if self._incident else None
            if self._incident and to and (self._incident.opened_us, to.number) == (grant.opened_us, grant.number):
                to.is_taken, to.at = True, now


def _grant(one: _Incident, target: str, what: What, number: int, now: float, limit_s: float) -> Grant:
    until = now if one.back is None else one.back
    away_s, at_us = until - one.lost, one.opened_us + round((until - one.opened) * 1e6)
    text = f"the server does not answer, for {duration(away_s)}: {one.error}"
    if one.back is not None:
        text = f"the server answers again; for {duration(away_s)} it did not: {one.error}"
    return Grant(KIND, what, target, one.opened_us, number, str(away_s), str(limit_s), text, False, at_us)
