"""A model of incidents, in times of us: what is told, by whom, and when. Written from the rules, not the script."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SETTLE, GAP, AGAIN, HOLD, STALE = 2, 60, 600, 30, 900
"""Seconds, as the walks take them."""


class Offer(NamedTuple):
    """The right to tell a target."""

    kind: str
    what: str
    target: str
    opened: int
    number: int


@dataclass(slots=True)
class To:
    """What a target was told."""

    asked: int
    number: int = 0
    said: str = ""
    """"open" or "resolved", which it took last; "resolving": it may have taken that; "": none of these is known."""
    sent: int = 0
    hold: int = 0


@dataclass(slots=True)
class Record:
    """An incident."""

    opened: int
    seen: int
    limit: int
    quiet: int | None = None
    resolved: int | None = None
    to: dict[str, To] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.resolved is not None and all(one.said == "resolved" for one in self.to.values())


class Incidents:
    """All incidents of a queue."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def look(
        self,
        now: int,
        seen: Mapping[str, str],
        targets: Sequence[str],
        news: Mapping[str, Collection[str]],
        limit: int = 1,
    ) -> set[Offer]:
        """Somebody with this limit sees these verdicts, by kind, and news, by kind for targets; what that caller may
        tell.
        """
        for record in self.records.values():
            _hold_to(record, now)
        for kind, verdict in seen.items():
            self._take(now, kind, verdict, limit)
        offers: set[Offer] = set()
        for kind, record in list(self.records.items()):
            if record.resolved is None and _is_past(now, record.seen, STALE):
                record.resolved = now
            for target in targets:
                offers |= self._offer(now, kind, record, target, target in news.get(kind, ()))
            record.to = {
                name: one for name, one in record.to.items() if name in targets or not _is_past(now, one.asked, STALE)
            }
            if record.is_done:
                del self.records[kind]
        return offers

    def _take(self, now: int, kind: str, verdict: str, limit: int) -> None:
        record = self.records.get(kind)
        is_there = record is not None and record.resolved is None and not _is_past(now, record.seen, STALE)
        if record and is_there and limit > record.limit:
            return
        if verdict == "open":
            record = self.records.setdefault(kind, Record(now, now, limit))
            record.quiet = record.resolved = None
        elif record and record.resolved is None:
            if verdict == "keep":
                record.quiet = None
            elif record.quiet is None:
                record.quiet = now
            elif _is_past(now, record.quiet, SETTLE):
                record.resolved = now
        if record:
            record.seen, record.limit = now, limit

    def _offer(self, now: int, kind: str, record: Record, target: str, has_news: bool) -> set[Offer]:
        one = record.to.get(target)
        if one is None and record.resolved is None:
            one = record.to[target] = To(now)
        if one is None:
            return set()
        one.asked = now
        what = self._wanted(now, record, one, has_news)
        if not what or one.hold > now:
            return set()
        one.hold = now + HOLD * 1_000_000
        if what == "open" and one.said == "resolving":
            one.number += 1
        if what in ("open", "resolved"):
            one.said = "" if what == "open" else "resolving"
        return {Offer(kind, what, target, record.opened, one.number)}

    @staticmethod
    def _wanted(now: int, record: Record, one: To, has_news: bool) -> str:
        if record.resolved is not None:
            return "resolved" if one.said != "resolved" else ""
        if one.said != "open":
            return "open"
        if has_news and _is_past(now, one.sent, GAP):
            return "news"
        return "again" if _is_past(now, one.sent, AGAIN) else ""

    def sent(self, now: int, offer: Offer) -> bool:
        """The target took it."""
        record = self.records.get(offer.kind)
        one = record.to.get(offer.target) if record and record.opened == offer.opened else None
        if record is None or one is None or one.number != offer.number:
            return False
        one.number, one.sent, one.hold = one.number + 1, now, 0
        one.said = "resolved" if offer.what == "resolved" else "open"
        if record.is_done:
            del self.records[offer.kind]
        return True


def _hold_to(record: Record, now: int) -> None:
    """A time ahead is of a clock that was set back: it counts as now."""
    record.seen = min(record.seen, now)
    record.quiet = None if record.quiet is None else min(record.quiet, now)
    for one in record.to.values():
        one.asked, one.sent = min(one.asked, now), min(one.sent, now)
        one.hold = min(one.hold, now + HOLD * 1_000_000)


def _is_past(now: int, at: int, seconds: int) -> bool:
    return now - at >= seconds * 1_000_000
