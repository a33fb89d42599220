"""What is registered of a queue: its generation, its table of shards, its policy. Pure.

The truth lies in the queue's registry; each shard has a copy beside its policy, so that either can be made from the
other. Of two, the one with the higher generation number counts, and of one generation number the one with the higher
version. A generation number is the server's time in us when a table was made: two tables never share one.
"""

from __future__ import annotations

import json
from binascii import crc_hqx
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from ..errors import ServerNotUsable
from ..settings.body_fields import BODY_FIELDS
from ..settings.options import MAX_SHARDS, QueueOptions
from ..settings.policy import KEYS
from ..values.checks import is_name
from .keys import ShardKeys, shard_keys

PROTOCOL = 3
"""What is kept, and in which form. Any change of that raises it: each call brings it, and shards of another refuse."""
INDEX_WORD = f"p{PROTOCOL}"
"""What the index of queues has beside each name."""
DELETED = -1
"""In place of a protocol: the queue is being deleted. No client brings such a generation."""
SLOTS = 16384
"""Hash slots of a cluster."""
CLUSTER_SHARDS = 16
"""Of a new queue in a cluster: of 3, 5 or 10 primaries the busiest has at most 1.25 times the mean. With 64 an idle
consumer would cost four times as much.
"""
RULES = ("gap_us", "on_gap", "window_us")
"""Fields by which groups are deferred: where one changes, these groups are checked again."""
_KEYS = (*KEYS, BODY_FIELDS)


@dataclass(frozen=True, slots=True)
class Registration:
    """One state of a queue's registration."""

    generation_number: int
    version: int
    """Of the policy, within the generation_number."""
    tags: tuple[str, ...]
    """The table: for each shard, what stands for it in the hash tag of its keys."""
    policy: Mapping[str, str]
    """Field -> text, as Policy.stored has them; and BODY_FIELDS, where the queue remembers some."""
    is_deleted: bool = False
    """Whether the queue is being deleted: no client brings such a generation."""

    @property
    def protocol(self) -> int:
        return DELETED if self.is_deleted else PROTOCOL

    @property
    def generation(self) -> str:
        """As the registry has it, calls bring it and shards compare it: 3.17..."""
        return f"{self.protocol}.{self.generation_number}"

    @property
    def table(self) -> str:
        return " ".join(self.tags)

    def keys(self, options: QueueOptions) -> list[ShardKeys]:
        """The keys of each shard."""
        return [shard_keys(options.namespace, options.queue, tag) for tag in self.tags]

    @property
    def age(self) -> tuple[int, int]:
        """By which two are compared: the higher one is newer."""
        return self.generation_number, self.version

    def changed(self, policy: Mapping[str, str]) -> Registration:
        """With another policy, which is its next version."""
        return replace(self, policy=dict(policy), version=self.version + 1)

    def packed(self) -> str:
        """What scripts read of the policy for each message, in one field: see lua/parts/packed_rules.lua."""
        names = ("dedup_us", "window_us", "on_late", "sequence", "mark_us", "dedup_cap")
        words = [self.policy[name] for name in names]
        is_plain = words[1:4] == ["0", "handle", "0"]
        return " ".join([self.generation, "1" if is_plain else "0", *words])


def plain_tags(shards: int) -> tuple[str, ...]:
    """The tags of a queue's shards as they are made; shard 0 always has the plain one."""
    return tuple(str(shard) for shard in range(shards))


def slot_of(namespace: str, queue: str, tag: str) -> int:
    """The hash slot of a shard's keys in a cluster."""
    return crc_hqx(f"{namespace}:{queue}:{tag}".encode(), 0) % SLOTS


def spread_tags(namespace: str, queue: str, shards: int) -> tuple[str, ...]:
    """Tags whose hash slots lie about as far apart as they can, whichever nodes of a cluster have them: shard 0 keeps
    the plain one, shard i gets `i.k` with the smallest k whose slot is close to its place on a grid that begins there.
    """
    first, reach = slot_of(namespace, queue, "0"), max(16, SLOTS // (8 * shards))  # closer would take seconds
    tags = ["0"]
    for shard in range(1, shards):
        start = first + shard * SLOTS // shards - reach
        tried = (f"{shard}.{k}" for k in count())
        tags.append(next(tag for tag in tried if (slot_of(namespace, queue, tag) - start) % SLOTS <= 2 * reach))
    return tuple(tags)


def new_tags(options: QueueOptions, *, is_cluster: bool) -> tuple[str, ...]:
    """The tags of a queue that nobody has registered yet."""
    if is_cluster:
        return spread_tags(options.namespace, options.queue, options.shards or CLUSTER_SHARDS)
    return plain_tags(options.shards or 1)


def registered(fields: Mapping[str, str]) -> Registration | None:
    """From the fields of the registry; None where there are none. Raises ValueError where others wrote them."""
    if not fields:
        return None
    policy = json.loads(fields["policy"])
    if not isinstance(policy, dict) or not all(isinstance(value, str) for value in policy.values()):
        raise ValueError("policy_invalid")
    return _made(fields, policy)


def of_shard(fields: Mapping[str, str]) -> Registration | None:
    """From a shard's policy; None where it has no generation. Raises ValueError where others wrote it."""
    if "generation" not in fields or "table" not in fields:
        return None
    return _made(fields, {name: fields[name] for name in _KEYS if name in fields})


def _made(fields: Mapping[str, str], policy: dict[str, Any]) -> Registration:
    protocol, _, generation_number = fields["generation"].partition(".")
    if protocol not in (str(PROTOCOL), str(DELETED)):
        raise ServerNotUsable("other_version", protocol=protocol, here=PROTOCOL)
    tags = tuple(fields["table"].split())
    if not 1 <= len(tags) <= MAX_SHARDS or len({*tags}) < len(tags):
        raise ValueError("shard_map_invalid")
    return Registration(int(generation_number), int(fields["version"]), tags, policy, protocol == str(DELETED))


def indexed(words: Sequence[bytes]) -> list[str]:
    """The names of queues in an index that HGETALL read; what is no name is left out."""
    return [name for name in (word.decode("utf-8", "replace") for word in words[::2]) if is_name(name)]
