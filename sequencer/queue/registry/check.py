"""One look at what is registered of a queue, what its first shard says, and what the index does."""

from __future__ import annotations

from typing import NamedTuple

from ...calls.net_protocol import Alone
from ...settings.options import QueueOptions
from ...store.keys import index_key, registry_key, shard_keys
from ...store.registration import Registration, registered
from ...store.replies import Reading, field_texts


class QueueSeen(NamedTuple):
    """What a look at a queue has found."""

    there: Registration | None
    shard: dict[str, str]
    """The policy of shard 0."""
    has_clock: bool
    word: bytes | None
    """What the index says."""


async def look_at(alone: Alone, name: str, options: QueueOptions) -> QueueSeen:
    """In one round trip; `name` is that of the server. Raises SequencerError."""
    shard, index = shard_keys(options.namespace, options.queue, 0), index_key(options.namespace)
    registry, policy, clock, known = await alone.answers(
        [
            ("HGETALL", registry_key(options.namespace, options.queue)),
            ("HGETALL", shard.policy),
            ("EXISTS", shard.clock),
            ("HGET", index, options.queue),
        ]
    )
    for answer in (registry, policy, clock):
        if isinstance(answer, Exception):
            raise answer
    with Reading(name):
        there = registered(field_texts(registry))
        return QueueSeen(there, field_texts(policy), bool(clock), None if isinstance(known, Exception) else known)
