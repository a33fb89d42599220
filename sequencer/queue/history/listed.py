"""The history of a queue: messages that ended, the newest end first. An operation over a net; nothing writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ...errors import ConfigurationError
from ...store.group import encode_group
from ...store.item import Group
from ...store.keys import escaped
from ...values.checks import MAX_LIMIT, check_choice, check_limit, seconds_of
from ...values.durations import Duration
from ...values.history import OUTCOMES, MessageInfo, Outcome
from ..pages import batches
from ..session import Session
from ..views import now_of
from .buckets import Bucket, buckets_of
from .known import CONTENTS, infos_in, with_contents

When = Duration | datetime
BEFORE_MS = 86_400_000
"""So long before its bucket began a message may have ended: its consumer could not reach the server."""


Moment = Callable[[float], float]
"""From now, in seconds since 1970, to such a time."""


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
        raise ConfigurationError("kind_invalid", value=kind)
    ends = _moment("since", since, 0.0), _moment("until", until, float("inf"))
    key = None if group is None else encode_group(group)

    def fits(info: MessageInfo) -> bool:
        return outcome in (None, info.state) and kind in (None, info.kind)

    return _history(session, key, *ends, fits, MAX_LIMIT if limit is None else limit)


class _Found(NamedTuple):
    bucket: Bucket
    field: str
    info: MessageInfo
    ended_at: float


async def _history(
    session: Session, group: str | None, begins: Moment, ends: Moment, fits: Callable[[MessageInfo], bool], limit: int
) -> AsyncIterator[MessageInfo]:
    net = session.net
    shards = [await session.keys_of(group)] if group else (await session.reachable()).shards
    now = await now_of(net) / 1e6
    since, until = begins(now), ends(now)
    pattern = None if group is None else f"{escaped(group)}\n*"
    buckets = [bucket for keys in shards for bucket in await buckets_of(net, keys)]
    buckets.sort(key=attrgetter("end_us"), reverse=True)
    found: list[_Found] = []
    left = limit
    for at, bucket in enumerate(buckets):
        if bucket.end_us < since * 1e6 or left <= 0:
            return
        if bucket.began_us // 1000 <= until * 1000 + BEFORE_MS:
            infos = await infos_in(net, bucket, pattern, fits)
            ended = [_Found(bucket, field, info, info.finished_at or 0.0) for field, info in infos.items()]
            found += [one for one in ended if since <= one.ended_at <= until]
        found.sort(key=attrgetter("ended_at"), reverse=True)
        older = buckets[at + 1].end_us / 1e6 if at + 1 < len(buckets) else 0.0
        sure = [one for one in found if one.ended_at >= older]
        found = found[len(sure) :]
        async for info in _shown(session, sure[:left]):
            yield info
        left -= len(sure)


async def _shown(session: Session, found: Sequence[_Found]) -> AsyncIterator[MessageInfo]:
    for some in batches(found, CONTENTS):
        for bucket, of_bucket in groupby(some, key=attrgetter("bucket")):
            for info in await with_contents(session, bucket, {one.field: one.info for one in of_bucket}):
                yield info


def _moment(name: str, when: When | None, default: float) -> Moment:
    if when is None:
        return lambda now: default
    if not isinstance(when, datetime):
        seconds = seconds_of(name, when)
        return lambda now: now - seconds
    if when.tzinfo is None:
        raise ConfigurationError("time_zone_missing", name=name, value=when)
    at = when.timestamp()
    return lambda now: at
