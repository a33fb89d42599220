"""The calls that change what is registered of a queue, and what its shards know of it."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from ..store.keys import ShardKeys
from ..store.registration import RULES, Registration, registered
from ..store.replies import field_texts
from ..store.text import dumps_words
from .call import Call, on_shard

Step = Literal["put", "confirm", "remove"]
Taken = Literal["same", "taken", "pending", "newer", "other", "none"]


def register(
    registry: str, seen: Registration | None, wanted: Registration, *, is_new: bool = False
) -> Call[Registration | None]:
    """Register this where `seen` still holds; what is registered now. `is_new`: the server numbers the generation."""
    words = {
        "seen": [seen.generation, str(seen.version)] if seen else ["", ""],
        "protocol": str(wanted.protocol),
        "generation_number": "" if is_new else str(wanted.generation_number),
        "least": wanted.generation_number + 1,
        "version": str(wanted.version),
        "table": wanted.table,
        "policy": json.dumps(dict(wanted.policy)),
    }
    return Call("register", (registry,), (dumps_words(words),), _registered)


def unregister(registry: str, seen: Registration) -> Call[Registration | None]:
    """Forget the queue where this is still what is registered; what is registered now."""
    words = {"seen": [seen.generation, str(seen.version)], "protocol": ""}
    return Call("register", (registry,), (dumps_words(words),), _registered)


def _registered(reply: Any) -> Registration | None:
    return registered(field_texts(reply))


class SyncedShard(NamedTuple):
    """What became of a shard, and the fields of its policy by now."""

    status: Taken
    fields: dict[str, str]


def sync_shard(keys: ShardKeys, wanted: Registration, step: Step = "put", *, pending: str = "") -> Call[SyncedShard]:
    """Let a shard take what is registered, if newer; without a policy in two steps (`pending`: of the first)."""
    words = {
        "generation": wanted.generation,
        "generation_number": wanted.generation_number,
        "version": wanted.version,
        "table": wanted.table,
        "fields": dict(wanted.policy),
        "packed": "" if wanted.is_deleted else wanted.packed(),
        "rules": RULES,
        "pending": pending or "none",
        "keeps": keys.is_first and not wanted.is_deleted,
    }
    return on_shard(
        keys, "sync_shard", words, step, parse=lambda reply: SyncedShard(reply[0].decode(), field_texts(reply[1]))
    )


def woken(keys: ShardKeys, mark: str) -> Call[int]:
    """Groups that were deferred by a rule were checked again since this mark was seen in `again`."""
    return on_shard(keys, "sync_shard", {}, f"woken {mark}", parse=lambda _: 0)
