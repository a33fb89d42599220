"""Read-only views of a queue, for the client, the command line and whatever shows them. Nothing here writes.

Backlog and lag are counted from the groups themselves, not from counters that could drift: exactly up to EXACT_GROUPS
groups, from an evenly spread sample above. Every page is a bounded pipeline of cheap reads, so the server is never
blocked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..calls.examine import inspect
from ..errors import ConfigurationError, shown
from ..net.link import Link
from ..settings.options import QueueOptions
from ..store.failure import decode_failure
from ..store.group import decode_group
from ..store.keys import PAUSED, LaneKeys, lane_of
from ..store.record import LEASE_HEAD, STAMP_DIGITS, decode_head, number_of, readable_message
from ..store.watermark import late_below
from ..values.message import Message
from ..values.views import GroupInfo, GroupState, QueueInfo
from .state import group_state, is_leased

EXACT_GROUPS = 20_000
"""Up to this many groups the backlog is counted exactly: about a second of small reads."""
PAGE = 500
TOTALS = (
    *("appended", "handled", "failed", "parked", "expired", "skipped", "late", "refused", "dead", "dropped"),
    *("redriven", "purged", "cancelled", "overtaken"),
)
STATES: tuple[GroupState, ...] = ("due", "leased", "waiting", "paused", "parked")


class View:
    """Looks at one queue over one link."""

    def __init__(self, link: Link, lanes: list[LaneKeys], options: QueueOptions) -> None:
        self._link, self._lanes, self._options = link, lanes, options

    def info(self) -> QueueInfo:
        """The queue now. Its rates are None: they need two looks (see `Rates`)."""
        totals = dict.fromkeys(TOTALS, 0)
        groups = due = leased = parked = paused = dead = backlog = 0
        lag_s, is_estimate, is_paused = 0.0, False, False
        for keys in self._lanes:
            now = self._now_us()
            size, ready, held, stopped, stats, buried, is_held = self._link.commands(
                [
                    ("ZCARD", keys.schedule),
                    ("ZCOUNT", keys.schedule, "-inf", now),
                    ("ZCOUNT", keys.schedule, PAUSED, PAUSED),
                    ("ZCOUNT", keys.schedule, "inf", "inf"),
                    ("HGETALL", keys.stats),
                    ("ZCARD", keys.dead),
                    ("HGET", keys.policy, "paused"),
                ]
            )
            paused, dead, is_paused = paused + held, dead + buried, is_paused or is_held == b"1"
            for name, count in zip(stats[::2], stats[1::2], strict=True):
                totals[name.decode()] = totals.get(name.decode(), 0) + int(count)
            groups, due, parked = groups + size, due + ready, parked + stopped
            leases = self._leases(keys)
            leased += sum(is_leased(visible, holder, now) for _, visible, holder in leases)
            extra = self._to_be_paused(keys, now, {group for group, _, _ in leases})
            paused, due, parked = paused + sum(extra.values()), due - extra["due"], parked - extra["parked"]
            sampled, waiting, oldest = self._count(keys, size)
            if sampled:
                is_estimate = is_estimate or sampled < size
                backlog += round(waiting * max(1.0, size / sampled))
            if oldest is not None:
                lag_s = max(lag_s, (now - oldest) / 1e6)
        return QueueInfo(
            queue=self._options.queue,
            namespace=self._options.namespace,
            lanes=len(self._lanes),
            backlog=backlog,
            lag_s=lag_s,
            groups=groups,
            due=due,
            leased=leased,
            waiting=max(0, groups - due - leased - parked - paused),
            parked=parked,
            paused=paused,
            is_paused=is_paused,
            dead=dead,
            is_estimate=is_estimate,
            totals=totals,
            append_rate=None,
            handle_rate=None,
        )

    def groups(self, state: GroupState | None, limit: int) -> list[GroupInfo]:
        """Up to `limit` groups, the longest due first, parked ones last."""
        if state is not None and state not in STATES:
            raise ConfigurationError(f"state={shown(state)} must be one of {', '.join(STATES)}")
        found: list[GroupInfo] = []
        for keys in self._lanes:
            now = self._now_us()
            holders = {group: holder for group, _, holder in self._leases(keys)}
            stopped = set(self._link.command("SMEMBERS", keys.paused))
            ends = {"due": ("-inf", now), "parked": ("inf", "inf"), "paused": ("-inf", "inf"), None: ("-inf", "inf")}
            low, high = ends.get(state, (f"({now}", f"({PAUSED:.0f}"))
            start = 0
            taken = 0
            while taken < limit:
                words = self._link.command(
                    "ZRANGEBYSCORE", keys.schedule, low, high, "WITHSCORES", "LIMIT", start, PAGE
                )
                page = [(group, float(at)) for group, at in zip(words[::2], words[1::2], strict=True)]
                if state == "paused":
                    page = [(group, at) for group, at in page if group in stopped or at == PAUSED]
                infos = self._describe(keys, page, holders, stopped, now)
                wanted = [info for info in infos if state in (None, info.state)]
                found += wanted
                taken += len(wanted)
                start += PAGE
                if len(words) < 2 * PAGE:
                    break
        found.sort(key=lambda info: float("inf") if info.due_in_s is None else info.due_in_s)
        return found[:limit]

    def peek(self, group: str, limit: int) -> list[Message]:
        """The first messages of an encoded group, in order; those that can't be decoded show their bytes."""
        keys = self._lanes[lane_of(group, len(self._lanes))]
        below = late_below(self._link.run_one(inspect(keys, group)).mark)
        words = self._link.command("ZRANGE", keys.order(group), 0, limit - 1, "WITHSCORES")
        members = [word.decode("utf-8", "surrogateescape") for word in words[::2]]
        if not members:
            return []
        records = self._link.command("HMGET", keys.body(group), *[member[STAMP_DIGITS:] for member in members])
        messages = []
        for member, score, record in zip(members, words[1::2], records, strict=True):
            rest = (member, score.decode(), record or b"", decode_group(group), 0, self._options.queue, below)
            messages.append(readable_message(*rest))
        return messages

    def _now_us(self) -> int:
        seconds, micros = self._link.command("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def _to_be_paused(self, keys: LaneKeys, now: int, leased: set[bytes]) -> Counter[str]:
        """Groups that are paused, but that no claim has put aside yet, by what the schedule has them for."""
        counts: Counter[str] = Counter()
        for page in _pages(sorted(self._link.command("SMEMBERS", keys.paused))):
            for group, at in zip(page, self._link.command("ZMSCORE", keys.schedule, *page), strict=True):
                visible = PAUSED if at is None else float(at)
                if visible != PAUSED and not (group in leased and now < visible):
                    counts[group_state(visible, None, now)] += 1
        return counts

    def _leases(self, keys: LaneKeys) -> list[tuple[bytes, float, bytes]]:
        """Every lease: group, visible-at in us, token + owner. Bounded by consumers times groups a claim."""
        cursor: Any = b"0"
        found: dict[bytes, bytes] = {}
        while True:
            cursor, words = self._link.command("HSCAN", keys.leases, cursor, "COUNT", PAGE)
            found.update(zip(words[::2], words[1::2], strict=True))
            if int(cursor) == 0:
                break
        leases = []
        for page in _pages(list(found.items())):
            times = self._link.command("ZMSCORE", keys.schedule, *[group for group, _ in page])
            leases += [(group, float(at or 0), holder) for (group, holder), at in zip(page, times, strict=True)]
        return leases

    def _count(self, keys: LaneKeys, size: int) -> tuple[int, int, int | None]:
        """Groups looked at, messages in them, and the oldest stamp among their heads."""
        starts = range(0, size, PAGE)
        if size > EXACT_GROUPS:
            pages = EXACT_GROUPS // PAGE
            starts = range(0, size, max(PAGE, size // pages))
        sampled = backlog = 0
        oldest: int | None = None
        for start in starts:
            groups = self._link.command("ZRANGE", keys.schedule, start, start + PAGE - 1)
            if not groups:
                break
            names = [group.decode("utf-8", "surrogateescape") for group in groups]
            commands: list[tuple[Any, ...]] = []
            for name in names:
                commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0)]
            replies = self._link.commands(commands)
            sampled += len(names)
            backlog += sum(replies[::2])
            for head in replies[1::2]:
                if head:
                    stamp = number_of(head[0])
                    oldest = stamp if oldest is None else min(oldest, stamp)
        return sampled, backlog, oldest

    def _describe(
        self,
        keys: LaneKeys,
        page: list[tuple[bytes, float]],
        holders: dict[bytes, bytes],
        stopped: set[bytes],
        now: int,
    ) -> list[GroupInfo]:
        if not page:
            return []
        names = [group.decode("utf-8", "surrogateescape") for group, _ in page]
        commands: list[tuple[Any, ...]] = [("HMGET", keys.failures, *names)]
        for name in names:
            commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0, "WITHSCORES")]
        failures, *replies = self._link.commands(commands)
        heads = [reply[0].decode("utf-8", "surrogateescape") if reply else "" for reply in replies[1::2]]
        records = self._link.commands(
            [("HGET", keys.body(name), head[STAMP_DIGITS:]) for name, head in zip(names, heads, strict=True)]
        )
        infos = []
        for i, (group, visible) in enumerate(page):
            holder = holders.get(group)
            head = replies[2 * i + 1]
            record = records[i] or b""
            token = number_of(holder) if holder else None
            state = group_state(visible, holder, now, is_paused=group in stopped)
            infos.append(
                GroupInfo(
                    group=decode_group(names[i]),
                    state=state,
                    backlog=replies[2 * i],
                    lag_s=max(0, now - number_of(head[0])) / 1e6 if head else None,
                    due_in_s=None if visible >= PAUSED or state == "paused" else max(0.0, (visible - now) / 1e6),
                    head_id=heads[i][STAMP_DIGITS:] if head else None,
                    head_score=float(head[1]) if head else None,
                    attempts=decode_head(record).attempts,
                    owner=holder[LEASE_HEAD:].decode("utf-8", "replace") if holder else None,
                    token=token,
                    leased_for_s=max(0, now - token) / 1e6 if token else None,
                    failure=decode_failure(failures[i])[0] if failures[i] else None,
                )
            )
        return infos


def _pages(items: list[Any]) -> Iterable[list[Any]]:
    return (items[i : i + PAGE] for i in range(0, len(items), PAGE))


class Rates:
    """Turns totals into rates: messages a second between one look and the next."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, int]] | None = None

    def add(self, info: QueueInfo) -> QueueInfo:
        now, last = time.monotonic(), self._last
        self._last = (now, info.totals)
        if last is None or now <= last[0]:
            return info
        span = now - last[0]
        return replace(
            info,
            append_rate=max(0, info.totals["appended"] - last[1]["appended"]) / span,
            handle_rate=max(0, info.totals["handled"] - last[1]["handled"]) / span,
        )
