"""Groups, listed by state: a page, a list, and all that are parked. Nothing here writes.

The schedule is in the order in which groups may be claimed; those that are leased or paused are found by their leases
and their names. A page costs three small reads a group, wherever it begins.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from functools import partial
from heapq import nsmallest
from operator import attrgetter

from ...calls.net_protocol import Command, Net
from ...store.failure import decode_failure
from ...store.group import decode_group
from ...store.keys import PAUSED, ShardKeys
from ...store.record import decode_head, id_of, number_of, owner_of
from ...store.replies import Reading, text
from ...values.checks import MAX_LIMIT, check_choice, check_integer, check_limit
from ...values.views import GroupInfo, GroupState, Page
from ..pages import batches, read, scan
from ..places import FIRST, LOOKED, MAX_PAGE, Place, Row, behind, each, in_shards, place_of, rows_behind
from ..session import Session
from ..state import group_state
from ..views import held_leases, leases_of, now_of

PAGE = 500
STATES: tuple[GroupState, ...] = ("due", "leased", "waiting", "paused", "parked")
PARKED: Place = (math.inf, b"")


async def group_page(
    session: Session, state: GroupState | None = None, *, limit: int = 50, after: str | None = None
) -> Page[GroupInfo]:
    """A page of groups, at most `limit` (up to 500), of those in `state` if given; a few milliseconds in any queue.

    In the order in which they may be claimed, the longest due first; leased groups with the longest held first, parked
    ones by name. `after`: what the page before ends with (`page.after`). A group that stays as it is comes once,
    whatever comes and goes between two pages. A page may be short, even empty: only where its `after` is None nothing
    follows. While many groups are paused, a page of "paused" reads the names of all: about a millisecond a thousand.
    Raises ConfigurationError, ServerError.
    """
    check_integer("limit", limit, 1, MAX_PAGE)
    if state is not None:
        check_choice("state", state, STATES)
    place, net = place_of(after, FIRST), session.net
    (shards, unreachable), now = await session.reachable(), await now_of(net)
    first, last = _bounds(state, now)
    found, place, looked = list[GroupInfo](), max(first, place), 0
    while True:
        rows = [row for row in await _rows(net, shards, state, place, limit, now) if row.score <= last]
        found += await _infos(net, rows, now, state)
        if len(rows) < limit and len(found) <= limit:
            return Page(found, None, unreachable)
        if len(found) >= limit:
            return Page(found[:limit], found[limit - 1].place, unreachable)
        place, looked = rows[-1].place, looked + len(rows)
        if looked >= LOOKED:
            return Page(found, rows[-1].after, unreachable)


async def groups(
    session: Session, state: GroupState | None = None, *, limit: int = 1000, after: str | None = None
) -> list[GroupInfo]:
    """Groups, the longest due first, at most `limit`; only those in `state` if given. Read by pages, as `group_page`.

    `after`: the `place` of the last one of the list before. Raises ConfigurationError, ServerError.
    """
    check_limit(limit)
    return [one async for one in each(partial(group_page, session, state), limit, after)]


def parked(session: Session, *, limit: int | None = None) -> AsyncIterator[GroupInfo]:
    """Parked groups, each with the failure of its head: all of them, or at most `limit`.

    They are read page by page, while they are iterated; one that stays parked comes once, whatever others do meanwhile.
    What is returned has no length (see `snapshot`), and is false when nothing is left. Raises ConfigurationError.
    """
    if limit is not None:
        check_limit(limit)
    return each(partial(group_page, session, "parked"), MAX_LIMIT if limit is None else limit)


async def parked_names(net: Net, keys: ShardKeys) -> AsyncIterator[list[bytes]]:
    """The parked groups of a shard, by pages, in the order of their names. One that stays parked comes exactly once."""
    place, size = PARKED, PAGE
    while size == PAGE:
        found = await behind(net, keys.schedule, place, PAGE)
        if found:
            yield [name for _, name in found]
            place = found[-1]
        size = len(found)


# -- where they are found -----------------------------------------------------------------------------------------


def _bounds(state: GroupState | None, now: int) -> tuple[Place, float]:
    """Between which places of the schedule groups of a state are; the last one is a visible-at."""
    if state == "waiting":
        return (math.nextafter(now, math.inf), b""), math.nextafter(PAUSED, 0)
    return PARKED if state == "parked" else FIRST, now if state == "due" else math.inf


async def _rows(
    net: Net, shards: Sequence[ShardKeys], state: GroupState | None, place: Place, size: int, now: int
) -> list[Row]:
    """Where groups of a state stand that come next, fewer than `size` only at the end; some may be in another state."""
    if state == "leased":
        rows = [row for keys in shards for row in await _leased_rows(net, keys, now)]
    elif state == "paused":
        rows = [row for keys in shards for row in await _paused_rows(net, keys, place, size)]
    else:
        return await rows_behind(net, shards, "schedule", place, size)
    return nsmallest(size, (row for row in rows if row.place > place), key=attrgetter("place"))


async def _leased_rows(net: Net, keys: ShardKeys, now: int) -> list[Row]:
    """By their tokens, which are the time of their claim: a renewal moves no group."""
    held = await held_leases(net, keys, await leases_of(net, keys), now)
    return [Row(number_of(one.lease), group, keys) for group, one in held.items()]


async def _paused_rows(net: Net, keys: ShardKeys, place: Place, size: int) -> list[Row]:
    """Those that a claim has put aside, and those that none has met yet."""
    rows = [Row(*one, keys) for one in await behind(net, keys.schedule, max(place, (PAUSED, b"")), size)]
    rows = [row for row in rows if row.score == PAUSED]
    async for names in scan(net, "SSCAN", keys.paused, count=PAGE):
        for some in batches(names, PAGE):
            times: list[bytes | None] = await read(net, list, ("ZMSCORE", keys.schedule, *some))
            with Reading(net.name):
                met = [(float(at), name) for name, at in zip(some, times, strict=True) if at]
            rows += [Row(*one, keys) for one in met if one[0] != PAUSED]
    return [*{row.member: row for row in rows}.values()]  # SSCAN may name one twice


# -- what is known of them ----------------------------------------------------------------------------------------


async def _infos(net: Net, rows: Sequence[Row], now: int, state: GroupState | None) -> list[GroupInfo]:
    """Those of the rows that are in a state, in their order."""
    found: dict[bytes, GroupInfo] = {}
    for keys, some in in_shards(rows).items():
        found |= await _infos_of_shard(net, keys, some, now, state)
    return [found[row.member] for row in rows if row.member in found]


async def _infos_of_shard(
    net: Net, keys: ShardKeys, rows: Sequence[Row], now: int, state: GroupState | None
) -> dict[bytes, GroupInfo]:
    members = [row.member for row in rows]
    commands: list[Command] = [
        ("ZMSCORE", keys.schedule, *members),
        ("HMGET", keys.leases, *members),
        ("SMISMEMBER", keys.paused, *members),
    ]
    seen = zip(rows, *await net.read(commands), strict=True)
    with Reading(net.name):
        states = [
            (row, float(at), lease, group_state(float(at), lease, now, is_paused=bool(paused)))
            for row, at, lease, paused in seen
            if at is not None
        ]
        fitting = [one for one in states if state in (None, one[3])]
    if not fitting:
        return {}
    names = [text(row.member) for row, *_ in fitting]
    commands = [("HMGET", keys.failures, *names)]
    for name in names:
        commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0, "WITHSCORES")]
    failures, *replies = await net.read(commands)
    sizes, heads = replies[::2], replies[1::2]
    with Reading(net.name):
        ids = [id_of(text(head[0])) if head else "" for head in heads]
    records = await net.read([("HGET", keys.body(name), id) for name, id in zip(names, ids, strict=True)])
    with Reading(net.name):
        known = zip(fitting, sizes, heads, records, failures, strict=True)
        return {one[0].member: _info(now, *one, *rest) for one, *rest in known}


def _info(
    now: int,
    row: Row,
    visible: float,
    lease: bytes | None,
    state: GroupState,
    size: int,
    head: list[bytes],
    record: bytes | None,
    failure_record: bytes | None,
) -> GroupInfo:
    """`head`: member and score; empty when the group ended meanwhile."""
    failure, failed = decode_failure(failure_record) if failure_record else (None, "")
    known, member = decode_head(record or b""), text(head[0]) if head else ""
    tried = failure.attempt if failure and known.written and failed == member else 0  # steps count their own
    token = number_of(lease) if lease else None
    return GroupInfo(
        group=decode_group(text(row.member)),
        state=state,
        backlog=size,
        lag_s=max(0, now - number_of(member)) / 1e6 if head else None,
        due_in_s=None if visible >= PAUSED or state == "paused" else max(0.0, (visible - now) / 1e6),
        head_id=id_of(member) if head else None,
        head_score=float(head[1]) if head else None,
        attempts=max(known.attempts, tried),
        owner=owner_of(lease) if lease else None,
        token=token,
        leased_for_s=max(0, now - token) / 1e6 if token else None,
        failure=failure,
        place=row.after,
    )
