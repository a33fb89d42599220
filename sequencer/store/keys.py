"""Every key name, and how a group becomes part of one. No other Python file builds a key; `doctor` also knows
what they begin with, to look for them and to name them in rights.

Scripts are given the schedule of the shard, and make the others of it (lua/parts/keys.lua): `prefix ..`
in lua/ finds each of them.

All keys of a shard share the hash tag `{namespace:queue:shard}`, so they live in one slot of a cluster and one
script may touch them all. The group always comes last: whatever it holds, it cannot run into another part.

    {sequencer:orders:0}:schedule       zset    group -> visible-at in us; ahead: leased, backing off, delayed ...;
                                                9e15: paused; inf: parked
    {sequencer:orders:0}:leases         hash    group -> 16-digit token, "1" if it was claimed alone or is all
                                                that a stuck handler holds (else "0"), owner
    {sequencer:orders:0}:failures       hash    group -> last failure of its head (JSON)
    {sequencer:orders:0}:clock          string  the shard clock in us; stamps and tokens come from it
    {sequencer:orders:0}:dispatch       list    groups that just became due; a hint, may be lost
    {sequencer:orders:0}:stats          hash    event -> how often, ever
    {sequencer:orders:0}:order:1002:77  zset    16-digit stamp + id -> score
    {sequencer:orders:0}:body:1002:77   hash    id -> 16-digit stamp + 4-digit attempts + flag (+ due)
                                                (+ ledger) + envelope
    {sequencer:orders:0}:policy         hash    the queue's policy, the same in every shard, and `fields`, names of body
                                                fields (JSON); `packed`, what append, claim and ack read; `paused`;
                                                `probe_us`, when an outage is next probed, while one holds the shard;
                                                `generation`, `version` and `table` as registered; `pending`, what is
                                                put
                                                here and not confirmed; `again`, since when groups wait by a rule that
                                                has changed
    {sequencer:orders:0}:paused         set     groups to hold back
    {sequencer:orders:0}:marks          hash    group -> watermark, "" -> padding; `marks:old` is the generation before
    {sequencer:orders:0}:numbers        hash    group -> watermark of a sequence, while the group has messages
    {sequencer:orders:0}:seen           set     group, newline, id of handled messages; and `seen:old`
    {sequencer:orders:0}:memory         hash    when those generations began and last grew, us; of the history, the
                                                bucket in use, its end, when the oldest is dropped, whether it has
                                                bodies; when the last letter died
    {sequencer:orders:0}:dead           zset    16-digit stamp, group, newline, id of a dead letter -> when it died, us
    {sequencer:orders:0}:letters        hash    the same -> score, newline, failure (JSON), newline, record
    {sequencer:orders:0}:skipped        hash    the dead letter that the last skipped message would be -> the same
    {sequencer:orders:0}:outage         hash    failures that may become an outage; since when one holds the shard back,
                                                its last failure, its probes
    {sequencer:orders:0}:histories      zset    bucket of the history -> its end, us; a bucket is named by its beginning
    {sequencer:orders:0}:history:17...  hash    group, newline, id -> how that message ended; "" -> padding
    {sequencer:orders:0}:history:17...:bodies
                                        hash    the same -> score, newline, failure (JSON), newline, record; with a
                                                newline before it -> stamp and new id of one that ran again
    {sequencer:orders:0}:alerts         hash    kind -> an incident that was told, or is to be (JSON); only in shard 0
    {sequencer:orders:0}:told           hash    target, newline, group -> when the failure was that this target was told
                                                of; target -> when the last dead letter died that it was told of, us
    {sequencer:orders:0}:audit          stream  what consumers with audit=True handled, bounded
    {sequencer:orders:registry}         hash    what is registered: generation (protocol.generation_number), version,
    table, policy
    sequencer:queues                    hash    queue -> "p" and its protocol
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from zlib import crc32

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
    marks: str
    marks_old: str
    numbers: str
    seen: str
    seen_old: str
    memory: str
    dead: str
    letters: str
    skipped: str
    audit: str
    outage: str
    histories: str
    alerts: str
    told: str

    @property
    def is_first(self) -> bool:
        """Whether it is shard 0, which each table has."""
        return self.prefix.endswith(":0}:")

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
    return ShardKeys(prefix, *[prefix + field.name.replace("_", ":") for field in fields(ShardKeys)[1:]])


def shard_of(group: str, shards: int) -> int:
    """Which shard an encoded group belongs to: the same in every process and version (CRC-32, not `hash`)."""
    return crc32(group.encode()) % shards if shards > 1 else 0


def registry_key(namespace: str, queue: str) -> str:
    """The hash that says what a queue is."""
    return f"{{{namespace}:{queue}:registry}}"


def index_key(namespace: str) -> str:
    """The hash of all queues of a namespace: an index, which nothing but lists of queues believes."""
    return f"{namespace}:queues"


def consumer_name(namespace: str, queue: str) -> str:
    """How the connections of a queue's consumers are called in CLIENT LIST."""
    return f"sequencer:{namespace}:{queue}"
