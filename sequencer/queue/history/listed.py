"""The history of a queue: messages that ended, the newest end first. An operation over a net; nothing writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ...errors import ConfigurationError, shown
from ...store.group import encode_group
from ...store.item import Group
from ...values.checks import MAX_LIMIT, check_choice, check_limit, seconds_of
from ...values.durations import Duration
from ...values.history import OUTCOMES, MessageInfo, Outcome
from ..session import Session
from ..views import now_of
from .buckets import CONTENTS, Bucket, buckets_of, escaped, read_bucket
from .known import info_of, with_contents

When = Duration | datetime


class HistoryFilter(NamedTuple):
    """Which messages: those that fit all that is given."""

    group: str | None
    """Encoded."""
    since: float
    """Seconds since 1970; so is `until`."""
    until: float
    outcome: Outcome | None
    kind: str | None

    def fits(self, info: MessageInfo) -> bool:
        ended_at = info.finished_at or 0.0
        is_meant = self.outcome in (None, info.state) and self.kind in (None, info.kind)
        return is_meant and self.since <= ended_at <= self.until


def history(
    session: Session,
    group: Group | None = None,
    *,
    since: When | None = None,
    until: When | None = None,
    outcome: Outcome | None = None,
    kind: str | None = None,
    limit: int | None = None,
) -> AsyncIterator[MessageInfo]:
    """Messages that ended, the newest end first: all of them, or at most `limit`; those that fit all that is given.

    `since` and `until` are a duration before now, or an aware datetime. Messages are read as you iterate, a 24th of the
    window at a time; a million takes about a second of the server's time. What is returned has no length, and is false
    when nothing is left. Of an id that ended several times within a 24th of the window, its
    last end is kept. Empty unless the queue has a `history_window`. Raises ConfigurationError, InvalidGroup.
    """
    if limit is not None:
        check_limit(limit)
    if outcome is not None:
        check_choice("outcome", outcome, OUTCOMES)
    if kind is not None and not isinstance(kind, str):
        raise ConfigurationError("kind_invalid", value=shown(kind))
    span = _checked("since", since), _checked("until", until)
    key = None if group is None else encode_group(group)
    return _history(session, key, span, outcome, kind, MAX_LIMIT if limit is None else limit)


async def _history(
    session: Session,
    group: str | None,
    span: tuple[float | datetime | None, float | datetime | None],
    outcome: Outcome | None,
    kind: str | None,
    limit: int,
) -> AsyncIterator[MessageInfo]:
    net = session.net
    shards = [await session.keys_of(group)] if group else await session.shards()
    now = await now_of(net) / 1e6
    since, until = [_moment(when, now, default) for when, default in zip(span, (0.0, float("inf")), strict=True)]
    wanted = HistoryFilter(group, since, until, outcome, kind)
    pattern = None if group is None else f"{escaped(group)}\n*"
    buckets: list[Bucket] = []
    for keys in shards:
        buckets += await buckets_of(net, keys)
    buckets.sort(key=lambda bucket: bucket.end_us, reverse=True)
    found: list[_Found] = []
    left = limit
    for at, bucket in enumerate(buckets):
        if bucket.end_us < since * 1e6:
            break
        if bucket.began_us // 1000 <= until * 1000 + BEFORE_MS:
            found += [_Found(bucket, *one) for one in (await _in_bucket(session, bucket, pattern, wanted)).items()]
        found.sort(key=_ended_at, reverse=True)
        older = buckets[at + 1].end_us / 1e6 if at + 1 < len(buckets) else 0.0
        sure = [one for one in found if _ended_at(one) >= older]
        found = found[len(sure) :]
        async for info in _shown(session, sure[:left]):
            yield info
        left -= len(sure)
        if left <= 0:
            return
    async for info in _shown(session, found[:left]):
        yield info


BEFORE_MS = 86_400_000
"""So long before its bucket began a message may have ended: its consumer could not reach the server."""


class _Found(NamedTuple):
    bucket: Bucket
    field: str
    info: MessageInfo


async def _shown(session: Session, found: list[_Found]) -> AsyncIterator[MessageInfo]:
    """With their contents, read as they are taken."""
    for at in range(0, len(found), CONTENTS):
        some = found[at : at + CONTENTS]
        for bucket, of_bucket in groupby(some, key=attrgetter("bucket")):
            for info in await with_contents(session, bucket, {one.field: one.info for one in of_bucket}):
                yield info


async def _in_bucket(
    session: Session, bucket: Bucket, pattern: str | None, wanted: HistoryFilter
) -> dict[str, MessageInfo]:
    found: dict[str, MessageInfo] = {}
    async for field, value in read_bucket(session.net, bucket, pattern):
        info = info_of(field, value)
        if info and wanted.fits(info):
            found[field] = info
    return found


def _ended_at(found: _Found) -> float:
    return found.info.finished_at or 0.0


def _checked(name: str, when: When | None) -> float | datetime | None:
    if not isinstance(when, datetime):
        return None if when is None else seconds_of(name, when)
    if when.tzinfo is None:
        raise ConfigurationError("time_zone_missing", name=name, value=shown(when))
    return when


def _moment(when: float | datetime | None, now: float, default: float) -> float:
    """Seconds since 1970."""
    if when is None:
        return default
    if isinstance(when, datetime):
        return when.timestamp()
    return now - when
