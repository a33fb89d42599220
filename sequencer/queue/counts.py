"""How much is in a queue: backlog, lag, groups by state, totals and rates. An operation over a net; nothing writes.

Backlog and lag are counted from the groups themselves, not from counters that could drift: exactly up to EXACT_GROUPS
groups, from an evenly spread sample above. Groups by state are counted by the server, each count at its own moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..calls.net_protocol import Command, Net
from ..doctor.leases import due_seen, paused_times, paused_with_messages
from ..store.failure import decode_failure
from ..store.keys import PAUSED, ShardKeys
from ..store.record import number_of
from ..store.replies import Reading, pairs, texts
from ..values.history import HistoryInfo
from ..values.views import OutageInfo, QueueInfo, QueueSnapshot
from .history.buckets import buckets_of
from .session import Session
from .state import group_state, is_leased
from .views import PAGE, leases_of, no_consumers, now_of, pages

EXACT_GROUPS = 20_000
"""Up to this many groups the backlog is counted exactly: about a second of small reads."""
TOTALS = (
    *("appended", "handled", "failed", "parked", "expired", "skipped", "late", "refused", "dead", "dropped"),
    *("redriven", "purged", "cancelled", "overtaken", "outages", "swept"),
)


@dataclass(slots=True)
class _Sums:
    """What the shards have together."""

    counts: Counter[str] = field(default_factory=Counter)
    """Of groups, groups by state, messages and dead letters."""
    totals: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(TOTALS, 0)))
    lag_s: float = 0.0
    is_paused: bool = False
    is_estimate: bool = False
    outages: list[OutageInfo] = field(default_factory=list)
    histories: list[HistoryInfo] = field(default_factory=list)


async def info(session: Session) -> QueueInfo:
    """Backlog, lag, groups by state, totals; rates since the last `info()` of this client. Raises ServerError."""
    return await info_of(session, EXACT_GROUPS)


async def info_of(session: Session, exact: int) -> QueueInfo:
    """The same, but backlog and lag come from a sample where a shard has more than `exact` groups, 1,000 at least."""
    shards, sums = await session.shards(), _Sums()
    for keys in shards:
        await _add(sums, session.net, keys, exact)
    now, last, counts = await session.net.now(), session.last_info, sums.counts
    others = sum(counts[state] for state in ("due", "leased", "parked", "paused"))
    append_rate, handle_rate = _rates(sums.totals, now, last)
    found = QueueInfo(
        queue=session.options.queue,
        namespace=session.options.namespace,
        groups=counts["groups"],
        due=counts["due"],
        leased=counts["leased"],
        parked=counts["parked"],
        paused=counts["paused"],
        shards=len(shards),
        backlog=counts["backlog"],
        lag_s=sums.lag_s,
        waiting=max(0, counts["groups"] - others),  # the counts are of different moments
        is_paused=sums.is_paused,
        dead=counts["dead"],
        is_estimate=sums.is_estimate,
        totals=dict(sums.totals),
        append_rate=append_rate,
        handle_rate=handle_rate,
        no_consumers=await no_consumers(session, shards) if counts["due"] and not counts["leased"] else None,
    )
    if sums.outages:
        first = min(sums.outages, key=lambda one: one.since)
        found = replace(found, outage=replace(first, shards=len(sums.outages)))
    if sums.histories:
        least = min(sums.histories, key=lambda one: one.reaches_s)
        found = replace(found, history=replace(least, messages=sum(one.messages for one in sums.histories)))
    session.last_info = now, found
    return found


async def snapshot(session: Session) -> QueueSnapshot:
    """What is due, for how long, parked and dead, exactly; cheap enough for each second. Raises ServerError."""
    keys = await session.shards()
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


async def _add(sums: _Sums, net: Net, keys: ShardKeys, exact: int) -> None:
    now = await now_of(net, keys)
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
        sums.totals.update({name.decode(): int(count) for name, count in pairs(stats)})
        if probe_us:
            sums.outages.append(_outage(now, probe_us, *trouble))
        window_s = int(history_us or 0) / 1e6
    leases = await leases_of(net, keys)
    visible = await _visible(net, keys, list(leases))
    leased = sum(is_leased(visible[group], lease, now) for group, lease in leases.items())
    extra = await _to_be_paused(net, keys, leases, now) if stopped > paused else Counter[str]()
    sampled, waiting, oldest = await _backlog(net, keys, size, exact)
    sums.counts.update(
        groups=size,
        due=due - extra["due"],
        leased=leased,
        parked=parked - extra["parked"],
        paused=paused + sum(extra.values()),
        dead=dead,
        backlog=round(waiting * max(1.0, size / sampled)) if sampled else 0,
    )
    # If the server's clock was set back, nothing gets younger by that.
    latest = max(now, int(clock)) if clock and clock.isdigit() else now
    sums.lag_s = max(sums.lag_s, 0.0 if oldest is None else (latest - oldest) / 1e6)
    sums.is_paused = sums.is_paused or is_paused == b"1"
    sums.is_estimate = sums.is_estimate or 0 < sampled < size
    if window_s:
        sums.histories.append(await _history(net, keys, latest, window_s))


async def _history(net: Net, keys: ShardKeys, now: int, window_s: float) -> HistoryInfo:
    buckets = await buckets_of(net, keys)
    sizes = await net.read([("HLEN", keys.history(bucket.name)) for bucket in buckets])
    with Reading(net.name):
        reaches_s = max(0.0, now - buckets[-1].began_us) / 1e6 if buckets else 0.0
        return HistoryInfo(window_s, min(window_s, reaches_s), sum(max(0, size - 1) for size in sizes))


def _outage(
    now: int, probe_us: bytes, since_us: bytes | None, failure: bytes | None, probes: bytes | None
) -> OutageInfo:
    known = decode_failure(failure or b"")[0]
    since, probe_s = int(since_us or probe_us) / 1e6, max(0.0, (int(probe_us) - now) / 1e6)
    return OutageInfo(since, f"{known.type}: {known.message}".split("\n")[0][:200], probe_s, int(probes or 0), 1)


async def _visible(net: Net, keys: ShardKeys, groups: list[bytes]) -> dict[bytes, float | None]:
    """The visible-at of groups, in us; None for one that ended meanwhile."""
    found: dict[bytes, float | None] = {}
    for page in pages(groups):
        times = (await net.read([("ZMSCORE", keys.schedule, *page)]))[0]
        with Reading(net.name):
            found.update((group, None if at is None else float(at)) for group, at in zip(page, times, strict=True))
    return found


async def _to_be_paused(net: Net, keys: ShardKeys, leases: dict[bytes, bytes], now: int) -> Counter[str]:
    """Groups that are paused, but that no claim has put aside yet, by what the schedule has them for."""
    (words,) = await net.read([paused_times(keys)])
    with Reading(net.name):
        visible = [(group, float(at)) for group, at in pairs(words)]
    unclaimed = (at for group, at in visible if at != PAUSED and not is_leased(at, leases.get(group), now))
    return Counter(group_state(at, None, now) for at in unclaimed)


async def _backlog(net: Net, keys: ShardKeys, size: int, exact: int) -> tuple[int, int, int | None]:
    """Groups looked at, messages in them, and the oldest stamp among their heads: those of parked and paused groups
    wait for an operator.
    """
    starts = range(0, size, PAGE if size <= exact else max(PAGE, size // (exact // PAGE)))
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
