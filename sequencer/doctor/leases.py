"""What keeps groups from moving: a lease that is held for so long that its handler may hang; nobody consumes; parked.

Nothing is written for that. A consumer holds leases while it works, and otherwise claims what is due within IDLE_S.
Where a group has been due for longer, and nobody holds any, no consumer is working.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

from ..calls.net_protocol import Alone, Command
from ..errors import SequencerError, ServerNotUsable, ServerUnavailable
from ..net.link import ConnectionAlone, finish
from ..store.group import decode_group
from ..store.keys import PAUSED, ShardKeys, consumer_name
from ..store.record import number_of, owner_of
from ..store.replies import Reading, micros, pairs, scanned, text
from ..texts.findings import Finding
from ..values.owner import NoConsumers, is_held_long
from .scope import PAGE, Scope

NO_CONSUMERS_S = 10.0
"""A group that has been due for this long, while nobody holds any, says that nobody consumes: twice IDLE_S."""


def held_long(scope: Scope) -> Iterator[Finding]:
    """Each group that is leased for more than LONG_LEASES leases: it may be meant so."""
    for keys in scope.shards:
        now_us = micros(scope.link.command("TIME"))
        for page in scope.pages("HSCAN", keys.leases):
            leases = [(text(group), lease) for group, lease in page if number_of(lease)]
            times = scope.link.command("ZMSCORE", keys.schedule, *[group for group, _ in leases]) if leases else []
            for (group, lease), at in zip(leases, times, strict=True):
                since_us, until_us = number_of(lease), float(at or 0)
                if now_us < until_us < PAUSED and is_held_long(now_us, since_us, until_us):
                    fields = {"owner": owner_of(lease), "held_s": (now_us - since_us) / 1e6}
                    yield scope.found("held long", group=decode_group(group), **fields)


# -- nobody consumes --------------------------------------------------------------------------------------------


class DueSeen(NamedTuple):
    """What is due in one shard."""

    now_us: int
    due: int
    """Groups that a claim would take; none while the queue is paused, or an outage lets no message through."""
    since_us: float | None
    """Since when the first of them is due."""
    is_paused: bool
    has_outage: bool
    """Whether an outage holds the shard back, or lets a probe through now."""
    totals: list[bytes | None]
    """Of the shard's counts those that a consumer makes grow."""


class _ShardSeen(NamedTuple):
    found: DueSeen
    is_held: bool
    """Whether a consumer has a group in progress."""
    last_lease: tuple[float, bytes] | None
    """When the lease that ran out last did so, and what it was."""


async def find_no_consumers(
    alone: Alone, shards: Sequence[ShardKeys], namespace: str, queue: str
) -> NoConsumers | None:
    """Whether groups are due and nobody consumes; None also where the user may not see that. Raises ServerError.

    It reads twice: between two commands of ours a consumer may have released all that it had, and not claimed yet.
    """
    try:
        before = [await _shard_seen(alone, keys) for keys in shards]
        if not _is_no_consumers(before):
            return None
        seen = [await _shard_seen(alone, keys) for keys in shards]
    except ServerNotUsable:
        return None
    if not _is_no_consumers(seen) or [one.found.totals for one in seen] != [one.found.totals for one in before]:
        return None
    found = [one.found for one in seen]
    now_us, since_us = found[0].now_us, min(one.since_us for one in found if one.since_us is not None)
    last = max((one.last_lease for one in seen if one.last_lease), default=None)
    clients = await clients_named(alone, consumer_name(namespace, queue))
    return NoConsumers(
        groups=sum(one.due for one in found),
        since=since_us / 1e6,
        waits_s=max(0.0, now_us - since_us) / 1e6,
        last_owner=owner_of(last[1]) if last else "",
        last_until=last[0] / 1e6 if last else None,
        connections=None if clients is None else len(clients),
    )


def _is_no_consumers(seen: Sequence[_ShardSeen]) -> bool:
    """Whether something has been due for long, and no consumer holds a group of any shard: it serves them all."""
    if any(one.is_held for one in seen):
        return False
    return any(since is not None and now - since >= NO_CONSUMERS_S * 1e6 for (now, _, since, *_), *_ in seen)


async def _shard_seen(alone: Alone, keys: ShardKeys) -> _ShardSeen:
    found = await due_seen(alone, keys)
    return _ShardSeen(found, *await _leases_seen(alone, keys, found.now_us))


def paused_with_messages(keys: ShardKeys) -> Command:
    """How many paused groups have messages. A claim has put all of them aside where as many wait at PAUSED."""
    return ("ZINTERCARD", 2, keys.schedule, keys.paused)


def paused_times(keys: ShardKeys) -> Command:
    """Paused groups that have messages, with their visible-at in us."""
    return ("ZINTER", 2, keys.schedule, keys.paused, "WEIGHTS", 1, 0, "WITHSCORES")


async def due_seen(alone: Alone, keys: ShardKeys) -> DueSeen:
    """What is due in a shard, exactly, in two round trips. Raises ServerError."""
    time, (paused, probe_us), stopped, put_aside, totals, from_us = await alone.read(
        [
            ("TIME",),
            ("HMGET", keys.policy, "paused", "probe_us"),
            paused_with_messages(keys),
            ("ZCOUNT", keys.schedule, PAUSED, PAUSED),
            ("HMGET", keys.stats, "handled", "failed", "expired", "parked", "outages"),
            ("HGET", keys.outage, "from_us"),
        ]
    )
    now_us, is_paused, left = micros(time), paused == b"1", max(0, int(stopped) - int(put_aside))
    if is_paused or (probe_us and int(from_us or 0) <= now_us < int(probe_us)):
        return DueSeen(now_us, 0, None, is_paused, bool(probe_us), totals)
    commands: list[Command] = [
        ("ZCOUNT", keys.schedule, "-inf", now_us),
        ("ZRANGEBYSCORE", keys.schedule, "-inf", now_us, "WITHSCORES", "LIMIT", 0, left + 1),
        *([paused_times(keys)] if left else []),
    ]
    due, first, *times = await alone.read(commands)
    held_back = {group for group, at in pairs(times[0]) if float(at) <= now_us} if times else set()
    free = [float(at) for group, at in pairs(first) if group not in held_back]
    since_us = max(free[0], min(float(probe_us or 0), now_us)) if free else None
    return DueSeen(now_us, max(0, int(due) - len(held_back)), since_us, False, bool(probe_us), totals)


async def _leases_seen(alone: Alone, keys: ShardKeys, now_us: int) -> tuple[bool, tuple[float, bytes] | None]:
    """Whether one of them holds, and else the one that ran out last."""
    last: tuple[float, bytes] | None = None
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await alone.read([("HSCAN", keys.leases, cursor, "COUNT", PAGE)])
        cursor, words = scanned(page)
        leases = [(group, lease) for group, lease in pairs(words) if number_of(lease)]
        (times,) = await alone.read([("ZMSCORE", keys.schedule, *[group for group, _ in leases])]) if leases else [[]]
        for (_, lease), at in zip(leases, times, strict=True):
            until_us = float(at or 0)
            if now_us < until_us < PAUSED:
                return True, None
            if until_us <= now_us:
                last = max(last or (until_us, lease), (until_us, lease))
    return False, last


async def clients_named(alone: Alone, name: str) -> list[dict[str, str]] | None:
    """The connections with this name, as CLIENT LIST has them; None where the user may not ask, or a node is away."""
    lines = list[str]()
    try:
        nodes = await alone.nodes()
    except ServerUnavailable:
        return None
    for node in nodes:
        (said,) = await node.answers([("CLIENT", "LIST")])
        if isinstance(said, SequencerError):
            return None
        with Reading(alone.name):
            lines += said.decode("utf-8", "replace").splitlines()
    clients = [dict(word.partition("=")[::2] for word in line.split(" ")) for line in lines]
    return [one for one in clients if one.get("name") == name]


def parked_groups(scope: Scope) -> Iterator[Finding]:
    """Groups that stand still until an operator lets them go on: no fault of the data."""
    if count := sum(scope.link.commands([("ZCOUNT", keys.schedule, "inf", "inf") for keys in scope.shards])):
        yield scope.found("parked groups", count=count)


def without_consumers(scope: Scope) -> Iterator[Finding]:
    """A warning where groups are due and nobody consumes: it may be meant so. Raises ServerError."""
    alone = ConnectionAlone(scope.link.connection(), scope.link.endpoint.name)
    if found := finish(find_no_consumers(alone, scope.shards, scope.namespace, scope.queue)):
        yield scope.found("no consumers", **asdict(found))
