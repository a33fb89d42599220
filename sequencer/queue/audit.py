"""Proves from what consumers recorded (`audit=True`) that each group was handled in order and one at a time.

A record is one handler run that succeeded; stamp, token and the times of the run are ticks of the shard's clock, in us.
Records come in the order of their acknowledgements. A run that failed, or whose consumer died, left none.

Rules, within a group:
  - Inversion: a message was acknowledged after one with a higher (score, stamp), although it was there when that one's
    lease was taken: its stamp lies below that token. One that arrived later is late, and a redriven one was away: both
    are in order. So are messages with a due time, since these hold back what lies behind them, and rescheduled or
    replaced ones, since these have a new stamp.
  - Overlap: a run began before a run under a smaller token ended.
  - Token going back: an acknowledgement under a smaller token after one under a greater.

A run whose acknowledgement was refused, because its lease was lost, has no place in the order of acknowledgements: it
counts for overlaps alone. A message that was handled again is a duplicate, not an inversion.

Each rule holds for every part of a legal history, so a stream that was trimmed shows no violation that was none; but
within the first lease of a group in it, a run looks like the repeat of one that was trimmed, and shows no inversion.
Memory is bounded by the number of groups, time by the number of records: the KEPT constants are per group.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..calls.net_protocol import Net
from ..errors import DataError
from ..store.group import decode_group
from ..store.keys import ShardKeys
from ..store.replies import Reading, pairs, texts
from ..texts.refusals import refusal_text
from ..values.views import AuditReport
from .pages import read
from .session import Session

KEPT_LEASES = 8
"""Latest leases of a group, with which a run is compared."""
KEPT_STAMPS = 1000
"""Messages after which a duplicate may no longer be known as one: what one lease may hold."""
KEPT_TOPS = 1000
"""Messages of a group, each followed by one with a smaller score, after which an inversion may be missed."""
DRIFT_PART = 1000
"""A run's end is taken as this part of the time since its claim earlier: two clocks that are being set, at 500 ppm each
(adjtimex), differ in rate by 0.1 %."""


class AuditRecord(NamedTuple):
    group: str
    """Encoded."""
    id: str
    score: float
    stamp: int
    token: int
    began: int
    """By the shard's clock in us, as are stamp and token; never too late."""
    ended: int
    redriven: bool
    refused: bool
    """Whether its acknowledgement was refused, because its lease was lost."""
    at_ms: int
    """When it was recorded, by the server's clock since 1970: after its end."""


@dataclass(slots=True)
class _Lease:
    """The runs under one token: from the beginning of the first to the end of the last; the id of the latest."""

    token: int
    id: str
    began: int
    ended: int


class _Top(NamedTuple):
    """A message that no later one has passed by token and by place in order."""

    token: int
    place: tuple[float, int]
    id: str


@dataclass(slots=True)
class _Group:
    first_token: int = 0
    """That of its first record, if the stream was trimmed; else 0."""
    leases: list[_Lease] = field(default_factory=list)
    """The latest."""
    tops: list[_Top] = field(default_factory=list)
    """By token upwards and so by place downwards."""
    accepted: tuple[int, str] = (0, "")
    """The greatest token whose acknowledgement was accepted, and the message it was for."""
    stamps: dict[int, int] = field(default_factory=dict)
    """Stamp -> token of the latest messages that were handled."""

    def handled_under(self, record: AuditRecord) -> int | None:
        """The token under which the message was handled before, if it was; from now on that of this record."""
        known = self.stamps.pop(record.stamp, None)
        self.stamps[record.stamp] = record.token
        if len(self.stamps) > KEPT_STAMPS:
            del self.stamps[next(iter(self.stamps))]
        return known

    def passed_by(self, record: AuditRecord) -> _Top | None:
        """A message handled before this one, though it lies behind and this one was there; notes this one's place."""
        place, found = (record.score, record.stamp), None
        if self.tops and place < self.tops[0].place:
            first = bisect_right(self.tops, record.stamp, key=lambda top: top.token)
            found = next((top for top in self.tops[first : first + 1] if place < top.place), None)
        while self.tops and self.tops[-1].place < place:
            self.tops.pop()
        if not self.tops or record.token > self.tops[-1].token:
            self.tops.append(_Top(record.token, place, record.id))
        if len(self.tops) > 2 * KEPT_TOPS:
            del self.tops[:KEPT_TOPS]
        return found

    def overlap_with(self, run: _Lease) -> dict[str, Any]:
        """Where this run and those of another lease do not exclude each other, fields of that; notes its times."""
        own = next((lease for lease in self.leases if lease.token == run.token), None)
        found = next(filter(None, (_overlap(run, lease) for lease in self.leases if lease is not own)), {})
        if own:
            own.id, own.began, own.ended = run.id, min(own.began, run.began), max(own.ended, run.ended)
        else:
            self.leases = [*self.leases, run][-KEPT_LEASES:]
        return found


def _overlap(one: _Lease, other: _Lease) -> dict[str, Any]:
    """Runs under the smaller token end before the first under the greater one begins."""
    older, newer = (one, other) if one.token < other.token else (other, one)
    by_s = (older.ended - newer.began) / 1e6
    fields = {"id": newer.id, "token": newer.token, "other": older.id, "other_token": older.token, "by_s": by_s}
    return fields if by_s > 0 else {}


class Prover:
    """Takes in records, those of a group in the order of their stream, and keeps the count of what they show."""

    def __init__(self, is_trimmed: bool = False) -> None:
        self._is_trimmed = is_trimmed
        self._groups: dict[str, _Group] = {}
        self._counts: Counter[str] = Counter()
        self._first_at, self._last_at = math.inf, -math.inf
        self._case: tuple[float, str] = (math.inf, "")

    def add(self, record: AuditRecord) -> None:
        """Take in the next record. One that repeats another (its call was sent twice) changes nothing."""
        at = record.at_ms / 1e3
        self._first_at, self._last_at = min(self._first_at, at), max(self._last_at, at)
        group = self._groups.setdefault(record.group, _Group(record.token if self._is_trimmed else 0))
        known = group.handled_under(record)
        if known == record.token:
            return
        self._counts.update(runs=1, duplicates=known is not None, refused=record.refused)
        self._time(group, record)
        if record.refused:
            return
        token, name = group.accepted
        if record.token < token:
            self._violation("token_back", record, other=name, other_token=token)
        group.accepted = max(group.accepted, (record.token, record.id))
        self._place(group, record, is_repeat=known is not None)

    def _time(self, group: _Group, record: AuditRecord) -> None:
        ended = record.ended - max(0, record.ended - record.token) // DRIFT_PART
        if ended >= (record.at_ms + 1) * 1000:
            self._counts["untimed"] += 1
        elif fields := group.overlap_with(_Lease(record.token, record.id, record.began, ended)):
            self._violation("overlap", record, is_refused=record.refused, **fields)

    def _place(self, group: _Group, record: AuditRecord, *, is_repeat: bool) -> None:
        top = group.passed_by(record)
        # The first record of one in the first lease may have been trimmed.
        if top and not (is_repeat or record.token == group.first_token or record.redriven):
            own = {"own_score": record.score, "stamp": record.stamp}
            self._violation("inversion", record, other=top.id, other_score=top.place[0], other_token=top.token, **own)

    def _violation(self, code: str, record: AuditRecord, **fields: Any) -> None:
        self._counts[code] += 1
        if record.at_ms < self._case[0]:
            about = {"id": record.id, "token": record.token, "group": decode_group(record.group), **fields}
            self._case = record.at_ms, refusal_text(code, about)

    def report(self) -> AuditReport:
        counts, is_empty = self._counts, not self._groups
        return AuditReport(
            messages=counts["runs"] - counts["duplicates"],
            groups=len(self._groups),
            duplicates=counts["duplicates"],
            refused=counts["refused"],
            inversions=counts["inversion"],
            overlaps=counts["overlap"],
            tokens_back=counts["token_back"],
            untimed=counts["untimed"],
            first_at=None if is_empty else self._first_at,
            last_at=None if is_empty else self._last_at,
            is_trimmed=self._is_trimmed,
            case=self._case[1] or None,
        )


PAGE = 1000


async def audit(session: Session) -> AuditReport:
    """What the runs that consumers with `audit=True` recorded show of order. Raises ServerError, DataError."""
    return await prove_shards(session.net, await session.shards())


async def prove_shards(net: Net, shards: Iterable[ShardKeys]) -> AuditReport:
    """What the audit streams of these shards show, each up to its end now. Raises ServerError, DataError."""
    last_ids: dict[str, bytes] = {}
    is_trimmed = False
    for stream in (keys.audit for keys in shards):
        if await read(net, bool, ("EXISTS", stream)):
            last_ids[stream], is_cut = await read(net, _last_and_cut, ("XINFO", "STREAM", stream))
            is_trimmed = is_trimmed or is_cut
    prover = Prover(is_trimmed)
    for stream, last in last_ids.items():
        async for record in read_records(net, stream, last):
            prover.add(record)
    return prover.report()


def _last_and_cut(words: list[Any]) -> tuple[bytes, bool]:
    facts = dict(pairs(words))
    return facts[b"last-generated-id"], facts[b"entries-added"] > facts[b"length"]


async def read_records(net: Net, stream: str, last: bytes) -> AsyncIterator[AuditRecord]:
    """The records of one audit stream up to this entry, a page at a time: the server is never blocked."""
    start = b"-"
    while True:
        (entries,) = await net.read([("XRANGE", stream, start, last, "COUNT", PAGE)])
        for name, words in entries:
            with Reading(net.name):
                record = _parse(stream, name.decode(), words)
            yield record
        if len(entries) < PAGE:
            return
        start = b"(" + entries[-1][0]


def _parse(stream: str, name: str, words: list[bytes]) -> AuditRecord:
    found = dict(pairs(texts(words)))
    try:
        stamp, token, began, ended = (int(found[key]) for key in ("stamp", "token", "began", "ended"))
        redriven, refused = (found[key] == "1" for key in ("redriven", "refused"))
        score, at_ms = float(found["score"]), int(name.partition("-")[0])
        return AuditRecord(found["group"], found["id"], score, stamp, token, began, ended, redriven, refused, at_ms)
    except (KeyError, ValueError) as error:
        raise DataError("audit_entry_foreign", entry=name, stream=stream, error=str(error)) from error
