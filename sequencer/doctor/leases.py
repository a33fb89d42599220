"""Groups that a consumer has held for so long that its handler may hang."""

from __future__ import annotations

from collections.abc import Iterator

from ..net.link import Link
from ..store.group import decode_group
from ..store.keys import PAUSED, LaneKeys
from ..store.record import LEASE_HEAD, number_of
from ..store.replies import micros, pairs, scanned, text
from ..values.owner import advice, is_held_long
from ..values.text import named, plain
from ..values.views import Finding

PAGE = 500
MAX_SHOWN = 10
"""Of a queue, as each is the work of one consumer; the rest is counted."""


def held_long(link: Link, queue: str, lanes: list[LaneKeys]) -> Iterator[Finding]:
    """A warning for each group that is leased for more than LONG_LEASES leases: it may be meant so."""
    count = 0
    for keys in lanes:
        for group, owner, seconds in _held(link, keys):
            count += 1
            if count <= MAX_SHOWN:
                said = f"group {named(decode_group(group))} is leased by {plain(owner)} for {seconds:.0f} s"
                yield Finding("leases", "warning", f"queue {queue}: {said}; {advice(plain(owner))}")
    if count > MAX_SHOWN:
        yield Finding("leases", "warning", f"queue {queue}: and {count - MAX_SHOWN} more like these")


def _held(link: Link, keys: LaneKeys) -> Iterator[tuple[str, str, float]]:
    """Group, owner and seconds of each such lease."""
    now_us = micros(link.command("TIME"))
    cursor: bytes | None = b"0"
    while cursor is not None:
        cursor, words = scanned(link.command("HSCAN", keys.leases, cursor, "COUNT", PAGE))
        leases = [(text(group), lease) for group, lease in pairs(words) if number_of(lease)]
        times = link.command("ZMSCORE", keys.schedule, *[group for group, _ in leases]) if leases else []
        for (group, lease), at in zip(leases, times, strict=True):
            since_us, until_us = number_of(lease), float(at or 0)
            if now_us < until_us < PAUSED and is_held_long(now_us, since_us, until_us):
                yield group, lease[LEASE_HEAD:].decode("utf-8", "replace"), (now_us - since_us) / 1e6
