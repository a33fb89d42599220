"""The buckets of a history, and what is in them, in slices. Nothing here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from ...calls.net_protocol import Net
from ...store.history.ending import PADDING, bucket_began_us
from ...store.keys import LaneKeys
from ...store.replies import Reading, pairs, scanned, text

SLICE = 1000
"""Messages that the server looks at for one answer: below 1 ms."""


class Bucket(NamedTuple):
    """A bucket of a lane."""

    keys: LaneKeys
    name: str
    end_us: float
    """Nothing in it ended later."""

    @property
    def began_us(self) -> int:
        return bucket_began_us(self.name)


async def buckets_of(net: Net, keys: LaneKeys) -> list[Bucket]:
    """Those of a lane, the newest first."""
    (words,) = await net.read(keys.histories, [("ZRANGE", keys.histories, 0, -1, "WITHSCORES")])
    with Reading(net.name):
        return [Bucket(keys, text(name), float(end)) for name, end in pairs(words)][::-1]


async def read_bucket(net: Net, bucket: Bucket, pattern: str | None) -> AsyncIterator[tuple[str, bytes]]:
    """What is in a bucket: group, newline, id -> how it ended; only what fits a pattern of the server's, if given.

    One that the server moves about meanwhile may come twice.
    """
    key = bucket.keys.history(bucket.name)
    place = () if pattern is None else ("MATCH", pattern)
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await net.read(key, [("HSCAN", key, cursor, *place, "COUNT", SLICE)])
        with Reading(net.name):
            cursor, words = scanned(page)
            found = [(text(field), value) for field, value in pairs(words)]
        for field, value in found:
            if field != PADDING:
                yield field, value


def escaped(name: str) -> str:
    """A name in a pattern of the server's."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in name)
