"""The buckets of a history. Nothing here writes."""

from __future__ import annotations

from typing import NamedTuple

from ...calls.net_protocol import Net
from ...store.ending import bucket_began_us
from ...store.keys import ShardKeys
from ...store.replies import scored, text
from ..pages import read


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
