"""The buckets of a history, and what is in them, in slices. Nothing here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from ...calls.net_protocol import Net
from ...store.history.ending import PADDING, bucket_began_us
from ...store.keys import ShardKeys
from ...store.record import STAMP_DIGITS, DeadLetterContent, stamp_of
from ...store.replies import Reading, pairs, scored, text
from ..pages import batches, read, scan

SLICE = 1000
"""Messages that the server looks at for one answer: below 1 ms."""
CONTENTS = 20
"""Bodies read in one round trip."""


class Bucket(NamedTuple):
    keys: ShardKeys
    name: str
    end_us: float
    """Nothing in it ended later."""
    has_bodies: bool = False

    @property
    def began_us(self) -> int:
        return bucket_began_us(self.name)


async def buckets_of(net: Net, keys: ShardKeys) -> list[Bucket]:
    """Those of a shard, the newest first."""
    ends = await read(net, scored, ("ZRANGE", keys.histories, 0, -1, "WITHSCORES"))
    listed = [Bucket(keys, text(name), end) for name, end in reversed(ends)]
    found = await net.read([("EXISTS", keys.bodies(bucket.name)) for bucket in listed]) if listed else []
    return [bucket._replace(has_bodies=bool(is_there)) for bucket, is_there in zip(listed, found, strict=True)]


async def read_bucket(net: Net, bucket: Bucket, pattern: str | None) -> AsyncIterator[tuple[str, bytes]]:
    """What is in a bucket: group, newline, id -> how it ended; only what fits a pattern of the server's, if given.

    One that the server moves about meanwhile may come twice.
    """
    key = bucket.keys.history(bucket.name)
    place = () if pattern is None else ("MATCH", pattern)
    async for words in scan(net, "HSCAN", key, count=SLICE, options=place):
        with Reading(net.name):
            found = [(text(field), value) for field, value in pairs(words)]
        for field, value in found:
            if field != PADDING:
                yield field, value


class Content(NamedTuple):
    """What the history keeps of a message besides its end."""

    kept: bytes = b""
    """As of a dead letter, or nothing."""
    again: str = ""
    """The id under which it was appended again."""


async def contents_of(net: Net, bucket: Bucket, fields: Sequence[str]) -> list[Content]:
    """Of messages of a bucket. Each is an answer of its own, so that the server is not kept busy by large ones."""
    if not bucket.has_bodies:
        return [Content()] * len(fields)
    key, found = bucket.keys.bodies(bucket.name), list[Content]()
    for some in batches(fields, CONTENTS):
        for kept, link in await net.read([("HMGET", key, field, f"\n{field}") for field in some]):
            stamp, again = text(link or b"")[:STAMP_DIGITS], text(link or b"")[STAMP_DIGITS:]
            is_about = link and stamp_of(DeadLetterContent.parse(kept or b"").record) == stamp
            found.append(Content(kept or b"", again if is_about else ""))
    return found


def escaped(name: str) -> str:
    """A name in a pattern of the server's."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in name)
