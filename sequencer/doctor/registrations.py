"""What is registered of the queues of a namespace, against what their shards say and which keys there are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..errors import SequencerError, ServerUnavailable, shown
from ..net.link import Link
from ..settings.options import MAX_SHARDS
from ..store.keys import ShardKeys, index_key, registry_key, shard_keys
from ..store.registration import INDEX_WORD, Registration, of_shard, registered
from ..store.replies import pairs, scanned
from ..texts.findings import Finding, finding
from ..values.checks import is_name
from .server import admin_command, reply_or_error


def check_registrations(
    link: Link,
    namespace: str,
    queue: str | None,
    tables: dict[str, tuple[str, ...]],
    *,
    repair: bool,
    nodes: Sequence[Link],
) -> Iterator[Finding]:
    """What is wrong of one queue, or of all; `tables` gets the tags of the shards of each. Raises SequencerError."""
    index = index_key(namespace)
    used, listed, is_foreign, is_away = _shards_used(nodes, namespace), list[str](), False, False
    try:
        if is_foreign := reply_or_error(link, "TYPE", index)[0] not in (None, b"none", b"hash"):
            yield finding("foreign index", index=index, namespace=namespace, cli=admin_command(link))
        else:
            listed = [name.decode("utf-8", "replace") for name in link.command("HKEYS", index)]
    except ServerUnavailable as error:
        if link.endpoint.cluster is None:
            raise
        is_away = True
        yield finding("not listed", error=str(error))
    for name in sorted({*listed, *used} | ({queue} if queue else set())):
        if queue not in (None, name):
            continue
        if not is_name(name):
            yield finding("invalid name", index=index, name=name, cli=admin_command(link))
            continue
        one = _Queue(link, namespace, name, used.get(name, set()), tables, repair)
        try:
            is_hidden = name in used and name not in listed and not (is_foreign or is_away)
            if is_hidden and registered(_fields(link, one.registry)):
                yield one.found("not in index", one.is_written("HSET", index, name, INDEX_WORD), index=index)
            if name in used or name in listed or is_away:
                yield from one.check()
        except ServerUnavailable as error:
            if link.endpoint.cluster is None:
                raise
            tables.setdefault(name, one.tags_seen())
            yield one.found("unchecked", error=str(error))


@dataclass(frozen=True, slots=True)
class _Queue:
    link: Link
    namespace: str
    name: str
    used: set[str]
    """Tags of shards that have keys."""
    tables: dict[str, tuple[str, ...]]
    repair: bool

    def found(self, code: str, repaired: bool = False, /, **fields: Any) -> Finding:
        more = {"queue": self.name, "namespace": self.namespace, "cli": admin_command(self.link)}
        return finding(code, repaired, **more | fields)

    def is_written(self, *words: object) -> bool:
        """Whether a repair is wanted and the server took it: one that is full does not, and the rest is to be read."""
        return self.repair and not reply_or_error(self.link, *words)[1]

    def keys(self, tag: str = "0") -> ShardKeys:
        return shard_keys(self.namespace, self.name, tag)

    @property
    def registry(self) -> str:
        return registry_key(self.namespace, self.name)

    def tags_seen(self) -> tuple[str, ...]:
        """The table as a shard that can be reached has it, else the shards that have keys."""
        for tag in by_number(self.used):
            with suppress(SequencerError, ValueError, KeyError):
                if copy := of_shard(_fields(self.link, self.keys(tag).policy)):
                    return copy.tags
        return tuple(by_number(self.used))

    def check(self) -> Iterator[Finding]:
        try:
            there = registered(_fields(self.link, self.registry))
            if there and not there.is_deleted:
                there.packed()  # raises where the policy lacks what scripts read
            copy = of_shard(_fields(self.link, self.keys().policy))
        except ServerUnavailable:
            raise
        except (SequencerError, ValueError, KeyError) as error:
            may_go = not isinstance(error, SequencerError)  # another protocol's is left alone
            yield self.found("registration unreadable", key=self.registry, error=str(error), deletable=may_go)
            return
        if there is None:
            yield from self._unregistered(copy)
            return
        self.tables[self.name] = there.tags
        if there.is_deleted:
            yield self.found("deletion unfinished")
            return
        known = len(there.tags)
        yield from (self._unknown_shard(known, tag) for tag in by_number(self.used - {*there.tags}))
        yield from self._shards(there)

    def _shards(self, there: Registration) -> Iterator[Finding]:
        """Shards with another generation or policy than registered: the next client brings it."""
        for tag in there.tags:
            key = shard_keys(self.namespace, self.name, tag).policy
            fields = _fields(self.link, key)
            own = {name: fields.get(name) for name in ("generation", "version")}
            if own != {"generation": there.generation, "version": str(there.version)}:
                wanted = {"wanted_generation": there.generation, "wanted_version": there.version}
                yield self.found("shard outdated", shard=tag, **own, **wanted)
            else:
                wanted = {**there.policy, "packed": there.packed()}
                if wrong := {name: value for name, value in wanted.items() if fields.get(name) != value}:
                    said = ", ".join(
                        f"{one}: {shown(fields.get(one))}, registered {shown(wrong[one])}" for one in wrong
                    )
                    is_repaired = self.is_written("HSET", key, *chain.from_iterable(wrong.items()))
                    yield self.found("shard policy differs", is_repaired, key=key, differences=said)

    def _unknown_shard(self, known: int, tag: str) -> Finding:
        """One that is in no table, so that no client reads it."""
        keys, to = self.keys(tag), "" if self.link.endpoint.cluster else f"{self.name}-shard-{tag}"
        groups, dead = (reply_or_error(self.link, "ZCARD", key)[0] or 0 for key in (keys.schedule, keys.dead))
        more: dict[str, Any] = {"prefix": keys.prefix, "unmoved": (keys.policy, keys.clock), "to": to}
        more["to_prefix"] = shard_keys(self.namespace, to, 0).prefix
        # Nothing can ask for a password inside of pipes.
        cli, asks, _ = admin_command(self.link, keys.policy).partition(" --askpass")
        more |= {"cli": cli, "has_password": bool(asks)}
        return self.found("unknown shard", known=known, shard=keys.number, groups=groups, dead=dead, **more)

    def _unregistered(self, copy: Registration | None) -> Iterator[Finding]:
        if copy and not copy.is_deleted:
            self.tables[self.name] = copy.tags
            yield self.found("registry lost", key=self.registry)
        elif self.used:
            self.tables[self.name] = tuple(by_number(self.used))
            shards = self.keys(self.tables[self.name][-1]).number + 1
            yield self._restored() or self.found("unregistered", shards=shards, clock=self.keys().clock)

    def _restored(self) -> Finding | None:
        """Of a queue that only other shards than the first know yet: a client finds it by the first."""
        for keys in map(self.keys, by_number(self.used - {"0"})):
            fields = _fields(self.link, keys.policy)
            with suppress(ValueError, KeyError):
                if (copy := of_shard(fields)) and not copy.is_deleted:
                    first = self.keys().policy
                    is_repaired = self.is_written("HSET", first, *chain.from_iterable(fields.items()))
                    where = {"key": self.registry, "policy": first, "shard": keys.number}
                    return self.found("first shard lost", is_repaired, **where)
        return None


def _fields(link: Link, key: str) -> dict[str, str]:
    words = [word.decode("utf-8", "replace") for word in link.command("HGETALL", key)]
    return dict(pairs(words))


def by_number(tags: Iterable[str]) -> list[str]:
    return sorted(tags, key=lambda tag: [*map(int, tag.split("."))])


def _shards_used(nodes: Sequence[Link], namespace: str) -> dict[str, set[str]]:
    """Queue -> the tags of its shards that have keys; none where the user may not ask. Reads every name on the servers,
    in pages.

    A queue has at most MAX_SHARDS: a higher number is another program's. Incidents are not counted: a queue may have
    some before it is used, such as that its pool is down.
    """
    pattern = re.compile(rf"\{{{re.escape(namespace)}:([\w.-]+):((\d{{1,4}})(\.\d+)?)\}}:(?!alerts\Z)".encode())
    found = defaultdict[str, set[str]](set)
    for node in nodes:
        cursor: bytes | None = b"0"
        while cursor is not None:
            page, denied = reply_or_error(node, "SCAN", cursor, "MATCH", f"{{{namespace}:*", "COUNT", 1000)
            if denied:
                break
            cursor, keys = scanned(page)
            for match in filter(None, map(pattern.match, keys)):
                if int(match[3]) < MAX_SHARDS:
                    found[match[1].decode()].add(match[2].decode())
    return found
