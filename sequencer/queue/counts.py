"""How much is in a queue: backlog, lag, groups by state, totals and rates. An operation over a net; nothing writes.

Backlog and lag are counted from the groups themselves, not from counters that could drift: exactly up to EXACT_GROUPS
groups, from an evenly spread sample above. Groups by state are counted by the server, each count at its own moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from ..calls.net_protocol import Command, Net, Reader
from ..doctor.leases import due_seen, paused_times, paused_with_messages
from ..store.failure import decode_failure, error_line
from ..store.keys import PAUSED, ShardKeys
from ..store.record import number_of
from ..store.replies import Reading, pairs, scored, texts
from ..values.checks import MAX_LIMIT, check_integer
from ..values.history import HistoryInfo
from ..values.views import OutageInfo, QueueInfo, QueueSnapshot
from .history.buckets import buckets_of
from .pages import read
from .session import Session
from .state import group_state, is_leased
from .views import PAGE, held_leases, leases_of, no_consumers, now_of

EXACT_GROUPS = 20_000
"""Up to this many groups the backlog is counted exactly: about a second of small reads."""
TOTALS = (
    *("appended", "handled", "failed", "parked", "expired", "skipped", "late", "refused", "dead", "dropped"),
    *("redriven", "purged", "cancelled", "overtaken", "outages", "swept"),
)


COUNTED = ("groups", "due", "leased", "parked", "paused", "backlog", "dead")
"""Of groups, groups by state, messages and dead letters: as fields of QueueInfo."""


class _Shard(NamedTuple):
    counts: Counter[str]
    totals: dict[str, int]
    lag_s: float
    is_paused: bool
    is_estimate: bool
    outage: OutageInfo | None
    history: HistoryInfo | None


async def info(session: Session, *, sample: int | None = None) -> QueueInfo:
    """Backlog, lag, groups by state, totals; rates since the last `info()` of this client. Raises ServerError.

    `sample`: in a shard with more groups than that, backlog and lag are estimated from about this many (default 20,000:
    about 0.2 s a shard). 0 reads none: both are 0, and `is_estimate` is true.
    """
    sample = EXACT_GROUPS if sample is None else check_integer("sample", sample, 0, MAX_LIMIT)
    keys, unreachable = await session.reachable()
    shards = [await _shard(session.net, one, sample) for one in keys]
    counts, totals = Counter[str](), Counter(dict.fromkeys(TOTALS, 0))
    for shard in shards:
        counts.update(shard.counts)
        totals.update(shard.totals)
    outages = [one.outage for one in shards if one.outage]
    histories = [one.history for one in shards if one.history]
    first, least = (
        min(outages, key=attrgetter("since"), default=None),
        min(histories, key=attrgetter("reaches_s"), default=None),
    )
    now, last = await session.net.now(), session.last_info
    is_same = last is None or last[1].unreachable == unreachable
    append_rate, handle_rate = _rates(totals, now, last) if is_same else (None, None)
    others = sum(counts[state] for state in ("due", "leased", "parked", "paused"))
    found = QueueInfo(
        queue=session.options.queue,
        namespace=session.options.namespace,
        **{name: counts[name] for name in COUNTED},
        shards=len(await session.shards()),
        lag_s=max(one.lag_s for one in shards),
        waiting=max(0, counts["groups"] - others),  # the counts are of different moments
        is_paused=any(one.is_paused for one in shards),
        is_estimate=any(one.is_estimate for one in shards),
        totals=dict(totals),
        append_rate=append_rate,
        handle_rate=handle_rate,
        no_consumers=await no_consumers(session) if counts["due"] and not counts["leased"] else None,
        outage=first and replace(first, shards=len(outages)),
        history=least and replace(least, messages=sum(one.messages for one in histories)),
        unreachable=unreachable,
    )
    session.last_info = now, found
    return found


async def snapshot(session: Session) -> QueueSnapshot:
    """What is due, for how long, parked and dead, exactly; cheap enough for each second. Raises ServerError."""
    keys, unreachable = await session.reachable()
    async with session.net.alone() as alone:
        with Reading(session.net.name):
            shards = [await due_seen(alone, one) for one in keys]
            ends: list[Command] = []
            for one in keys:
                ends += [("ZCOUNT", one.schedule, "inf", "inf"), ("ZCARD", one.dead)]
            counts = [int(count) for count in await alone.read(ends)]
    return QueueSnapshot(
        queue=session.options.queue,
        due=sum(shard.due for shard in shards),
        waits_s=max(0.0, *(0.0 if one.since_us is None else (one.now_us - one.since_us) / 1e6 for one in shards)),
        parked=sum(counts[::2]),
        dead=sum(counts[1::2]),
        is_paused=any(shard.is_paused for shard in shards),
        has_outage=any(shard.has_outage for shard in shards),
        unreachable=unreachable,
    )


def _rates(
    totals: Mapping[str, int], now: float, last: tuple[float, QueueInfo] | None
) -> tuple[float | None, float | None]:
    """Messages a second since the last `info`, appended and handled; the times are of a clock that never goes back."""
    if last is None or now <= last[0]:
        return None, None
    span, before = now - last[0], last[1].totals
    appended, handled = (max(0, totals[name] - before[name]) / span for name in ("appended", "handled"))
    return appended, handled


async def _shard(net: Net, keys: ShardKeys, sample: int) -> _Shard:
    now = await now_of(net)
    commands: list[Command] = [
        ("ZCARD", keys.schedule),
        ("ZCOUNT", keys.schedule, "-inf", now),
        ("ZCOUNT", keys.schedule, PAUSED, PAUSED),
        ("ZCOUNT", keys.schedule, "inf", "inf"),
        ("HGETALL", keys.stats),
        ("ZCARD", keys.dead),
        ("HMGET", keys.policy, "paused", "probe_us", "history_us"),
        ("HMGET", keys.outage, "since_us", "failure", "probes"),
        ("GET", keys.clock),
        paused_with_messages(keys),
    ]
    size, due, paused, parked, stats, dead, rules, trouble, clock, stopped = await net.read(commands)
    is_paused, probe_us, history_us = rules
    with Reading(net.name):
        size, due, paused, parked, dead, stopped = map(int, (size, due, paused, parked, dead, stopped))
        totals = {name.decode(): int(count) for name, count in pairs(stats)}
        outage = _outage(now, probe_us, *trouble) if probe_us else None
        window_s = int(history_us or 0) / 1e6
    leases = await leases_of(net, keys)
    leased = len(await held_leases(net, keys, leases, now))
    extra = await _to_be_paused(net, keys, leases, now) if stopped > paused else Counter[str]()
    sampled, waiting, oldest = await backlog(net, keys, size, sample)
    counts = Counter(
        groups=size,
        due=due - extra["due"],
        leased=leased,
        parked=parked - extra["parked"],
        paused=paused + extra.total(),
        dead=dead,
        backlog=round(waiting * max(1.0, size / sampled)) if sampled else 0,
    )
    # If the server's clock was set back, nothing gets younger by that.
    latest = max(now, int(clock)) if clock and clock.isdigit() else now
    lag_s = max(0.0, (latest - (latest if oldest is None else oldest)) / 1e6)
    history = await _history(net, keys, latest, window_s) if window_s else None
    return _Shard(counts, totals, lag_s, is_paused == b"1", sampled < size, outage, history)


async def _history(net: Net, keys: ShardKeys, now: int, window_s: float) -> HistoryInfo:
    buckets = await buckets_of(net, keys)
    sizes = await net.read([("HLEN", keys.history(bucket.name)) for bucket in buckets])
    with Reading(net.name):
        reaches_s = max(0.0, now - buckets[-1].began_us) / 1e6 if buckets else 0.0
        return HistoryInfo(window_s, min(window_s, reaches_s), sum(max(0, size - 1) for size in sizes))


def _outage(
    now: int, probe_us: bytes, since_us: bytes | None, failure: bytes | None, probes: bytes | None
) -> OutageInfo:
    since, probe_s = int(since_us or probe_us) / 1e6, max(0.0, (int(probe_us) - now) / 1e6)
    return OutageInfo(since, error_line(decode_failure(failure or b"")[0]), probe_s, int(probes or 0), 1)


async def _to_be_paused(net: Net, keys: ShardKeys, leases: dict[bytes, bytes], now: int) -> Counter[str]:
    """Groups that are paused, but that no claim has put aside yet, by what the schedule has them for."""
    visible = await read(net, scored, paused_times(keys))
    unclaimed = (at for group, at in visible if at != PAUSED and not is_leased(at, leases.get(group), now))
    return Counter(group_state(at, None, now) for at in unclaimed)


async def backlog(net: Reader, keys: ShardKeys, size: int, sample: int) -> tuple[int, int, int | None]:
    """Groups read, messages in them, and the oldest stamp among heads that wait for no operator."""
    starts = range(0, size if sample else 0, PAGE if size <= sample else max(PAGE, size // max(1, sample // PAGE)))
    sampled = backlog = 0
    stamps: list[int] = []
    for start in starts:
        page: Command = ("ZRANGE", keys.schedule, start, start + PAGE - 1, "WITHSCORES")
        (words,) = await net.read([page])
        if not words:
            break
        commands: list[Command] = []
        with Reading(net.name):
            for name in texts(words[::2]):
                commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0)]
        replies = await net.read(commands)
        sampled += len(words) // 2
        with Reading(net.name):
            backlog += sum(replies[::2])
            heads = zip(replies[1::2], map(float, words[1::2]), strict=True)
            stamps += [number_of(head[0]) for head, at in heads if head and at < PAUSED]
    return sampled, backlog, min(stamps, default=None)
