"""That the server is away, as an incident. No server can keep it: each process keeps its own, and tells it itself.

The rules are those of `lua/alert.lua`: a target that says it took a message is not sent it again, one that does not is
retried after the hold; what still holds is told again after a time, and that it is over is told too. A look that is
answered ends it. Times are seconds of a clock that goes on, but for `at`, since 1970.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ...calls.alerts import AlertTimes, What
from ...texts.words import duration

KIND = "away"
HOLD_S = AlertTimes(settle=0.0).hold


class AwayGrant(NamedTuple):
    """What one target is to be told now."""

    target: str
    what: What
    number: int
    """How many messages of the incident the target took before, or may have taken before the server was away again."""
    opened_us: int
    at_us: int
    """Until when it is told of: now, or when the server was back."""
    away_s: float
    """For how long it does not answer, or did not."""
    text: str


@dataclass(slots=True)
class _To:
    number: int = 0
    said: Literal["open", "resolved", "resolving"] | None = None
    """As it took it last; "resolving": it may have taken that; None: nothing, or it may have taken "open"."""
    sent: float = 0.0
    held_until: float = 0.0


@dataclass(slots=True)
class _Incident:
    opened_us: int
    opened: float
    error: str
    lost: float
    """Later than `opened` where it is away again before each target has heard that it was back."""
    back: float | None = None
    to: dict[str, _To] = field(default_factory=dict)


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

    def grants(self, now: float, targets: Collection[str], repeat_s: float) -> list[AwayGrant]:
        """What these targets are to be told now. Each is theirs for the time of a hold."""
        with self._lock:
            if (one := self._incident) is None:
                return []
            if one.back is None:
                for name in targets:
                    one.to.setdefault(name, _To())
            one.to = {name: to for name, to in one.to.items() if name in targets}
            if one.back is not None and all(to.said == "resolved" for to in one.to.values()):
                self._incident = None
            return list(_grants(one, now, repeat_s))

    def sent(self, grant: AwayGrant, now: float) -> None:
        """The target took it."""
        with self._lock:
            to = self._incident.to.get(grant.target) if self._incident else None
            if self._incident and to and self._incident.opened_us == grant.opened_us and to.number == grant.number:
                to.number, to.sent, to.held_until = grant.number + 1, now, 0.0
                to.said = "resolved" if grant.what == "resolved" else "open"


def _grants(one: _Incident, now: float, repeat_s: float) -> Iterator[AwayGrant]:
    until = now if one.back is None else one.back
    away_s, at_us = until - one.lost, one.opened_us + round((until - one.opened) * 1e6)
    text = f"the server does not answer, for {duration(away_s)}: {one.error}"
    if one.back is not None:
        text = f"the server answers again; for {duration(away_s)} it did not: {one.error}"
    for target, to in one.to.items():
        what = _wanted(one, to, now, repeat_s)
        if what and now >= to.held_until:
            to.held_until = now + HOLD_S
            if what == "open" and to.said == "resolving":
                to.number += 1
            if what in ("open", "resolved"):
                to.said = None if what == "open" else "resolving"
            yield AwayGrant(target, what, to.number, one.opened_us, at_us, away_s, text)


def _wanted(one: _Incident, to: _To, now: float, repeat_s: float) -> What | None:
    if one.back is not None:
        return None if to.said == "resolved" else "resolved"
    if to.said != "open":
        return "open"
    return "again" if repeat_s > 0 and now - to.sent >= repeat_s else None
