"""Hash slots of a cluster: which node has the key of a command. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from ..calls.net_protocol import Command
from ..store.keys import guard_key

Place = tuple[str, int]
"""Host and port."""
_KEYLESS = {"ACL", "CLIENT", "CLUSTER", "CONFIG", "DISCARD", "EXEC", "INFO", "MULTI", "SCAN", "SCRIPT", "TIME", "WAIT"}
_SCRIPTS = "EVAL", "EVALSHA"
_AFTER_COUNT = "ZINTER", "ZINTERCARD"


def named(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


@lru_cache(maxsize=4096)
def slot_of(key: str | bytes) -> int:
    return key_slot(key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key)


def key_of(words: Command) -> str | bytes | None:
    """The first key of a command that this program sends; None where it has none."""
    name = words[0]
    if name in _KEYLESS or (name in _SCRIPTS and not int(words[2])):
        return None
    key: str | bytes = words[3 if name in _SCRIPTS else 2 if name in _AFTER_COUNT else 1]
    return key


def guarded(words: Command) -> Command:
    """A script's call with one more key, which never exists.

    While its slot is moved key by key, a node refuses calls of which it lacks a key. Scripts make the names of most
    keys themselves: without this one they would run on the half of a shard that is still there.
    """
    if words[0] not in _SCRIPTS or not int(words[2]):
        return words
    count = int(words[2])
    return (*words[:2], count + 1, *words[3 : 3 + count], guard_key(words[3]), *words[3 + count :])


class SlotMap:
    """Which node has which slot, as far as it is known. Threads may share it."""

    def __init__(self) -> None:
        self._owners: list[Place | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self.primaries: list[Place] = []
        self.is_stale = True
        """Whether it is to be read again."""

    def read(self, reply: Sequence[Any], asked: Place) -> None:
        """From the answer to CLUSTER SLOTS; an empty host is the one that was asked. Raises ValueError, TypeError, and
        ResponseError if nobody has a slot, as a node says that has left its cluster.
        """
        owners: list[Place | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, (host, port, *_), *_replicas in reply:
            place = _host(host) or asked[0], int(port)
            owners[first : last + 1] = [place] * (last + 1 - first)
        if not any(owners):
            raise redis.ResponseError("CLUSTERDOWN no node has a hash slot")
        self._owners, self.primaries = owners, [*dict.fromkeys(filter(None, owners))]

    @property
    def unassigned(self) -> int:
        """How many hash slots no node has."""
        return self._owners.count(None)

    def learn(self, moved: redis.exceptions.MovedError, asked: Place) -> None:
        """Not read again now: a node that has not heard of it yet would take it back."""
        self._owners[moved.slot_id] = _host(moved.host.encode()) or asked[0], moved.port

    def owner(self, words: Command) -> Place | None:
        """The node of a command's first key; None where it has none, or nobody is known to have it."""
        key = key_of(words)
        return None if key is None else self._owners[slot_of(key)]

    def route(self, commands: Sequence[Command], near: Place, pinned: Place | None) -> tuple[list[Place], Place | None]:
        """Where each goes, and where a MULTI that is not over is `pinned` by then.

        What has no key goes with the command in front of it, else with the next one that has a key, else `near`.
        """
        owners, routed = [*map(self.owner, commands)], list[Place]()
        for i, words in enumerate(commands):
            following: Iterator[Place] = filter(None, owners[i:])
            if words[0] == "MULTI":
                pinned = pinned or next(following, near)
            routed.append(pinned or owners[i] or (routed[-1] if routed else next(following, near)))
            if words[0] in ("EXEC", "DISCARD"):
                pinned = None
        return routed, pinned


def by_node(commands: Sequence[Command], routed: Sequence[Place]) -> dict[Place, list[int]]:
    """Which commands, by their numbers, each node gets. WAIT asks each node that gets one in front of it."""
    found = dict[Place, list[int]]()
    for i, (words, place) in enumerate(zip(commands, routed, strict=True)):
        for one in [*found] or [place] if words[0] == "WAIT" else [place]:
            found.setdefault(one, []).append(i)
    return found


def _host(host: bytes | None) -> str:
    """`?` and nothing stand for an address that a node does not know of itself."""
    return "" if host in (None, b"?") else host.decode()
