"""Every key name. No other Python file builds a key; `doctor` also knows
what they begin with, to look for them and to name them in rights.

Scripts are given the schedule of the shard, and make the others of it (lua/parts/keys.lua): `prefix ..`
in lua/ finds each of them.

All keys of a shard share the hash tag `{namespace:queue:shard}`, so they live in one slot of a cluster and one
script may touch them all. The group always comes last: whatever it holds, it cannot run into another part.
What each key holds stands in sequencer/README.md, "What is in Redis".
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

PAUSED = 9e15
"""The visible-at of a paused group, in us: beyond every time a message may have."""


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one shard; `prefix` + "order:" or "body:" + group makes those of a group (here and in Lua)."""

    prefix: str
    schedule: str
    leases: str
    failures: str
    clock: str
    dispatch: str
    stats: str
    policy: str
    paused: str
    watermarks: str
    watermarks_old: str
    sequences: str
    dedup: str
    dedup_old: str
    memory: str
    dead: str
    dead_letters: str
    skipped: str
    outage: str
    histories: str
    alerts: str
    notified: str
    relays: str

    @property
    def is_first(self) -> bool:
        """Whether it is shard 0, which each table has."""
        return self.prefix.endswith(":0}:")

    @property
    def number(self) -> int:
        """The shard's, with which its tag begins."""
        return int(self.prefix[:-2].rpartition(":")[2].partition(".")[0])

    def order(self, group: str) -> str:
        return f"{self.prefix}order:{group}"

    def body(self, group: str) -> str:
        return f"{self.prefix}body:{group}"

    def history(self, bucket: str) -> str:
        return f"{self.prefix}history:{bucket}"

    def bodies(self, bucket: str) -> str:
        return f"{self.prefix}history:{bucket}:bodies"


@lru_cache(maxsize=1024)
def shard_keys(namespace: str, queue: str, shard: int | str) -> ShardKeys:
    prefix = f"{{{namespace}:{queue}:{shard}}}:"
    return ShardKeys(prefix, *[prefix + field.name.replace("_old", ":old") for field in fields(ShardKeys)[1:]])


def registry_key(namespace: str, queue: str) -> str:
    """The hash that says what a queue is."""
    return f"{{{namespace}:{queue}:registry}}"


def guard_key(key: str) -> str:
    """A key of the same slot, which never exists: calls name it in a cluster (net/slots.py)."""
    tag, found, _ = key.partition("}")
    return f"{tag}}}:~" if found else f"{{{key}}}:~"


def index_key(namespace: str) -> str:
    """The hash of all queues of a namespace: an index, which nothing but lists of queues believes."""
    return f"{namespace}:queues"


def consumer_name(namespace: str, queue: str) -> str:
    """How the connections of a queue's consumers are called in CLIENT LIST."""
    return f"sequencer:{namespace}:{queue}"


def escaped(name: str) -> str:
    """A name in a pattern of the server's."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in name)
