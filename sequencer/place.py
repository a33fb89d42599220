"""Place: where a queue is. Finds the server, checks it and the queue's lanes once, and lends links to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from .connection import SOCKET_TIMEOUT_S, Endpoint, check_server, parse_info, reading, server_url_from_environment
from .desk import resume
from .errors import ConfigurationError, DataError, ServerNotUsable, ServerUnavailable
from .keys import PAUSED, LaneKeys, lane_keys, lane_of, registry_key
from .options import MAX_LANES, QueueOptions
from .policy import Policy, merge_policy, read_policy
from .rights import ASKED, Role, lacking, missing_rights
from .scripts import Link, Links

log = logging.getLogger("sequencer")

TRIES = 20
"""How often a change of the policy is tried again when another client's came between."""
PAGE = 200
"""Names read, and groups looked at again, in one round trip."""


class Place:
    """One queue on one server. Nothing connects, and no embedded server starts, before it is needed."""

    def __init__(self, options: QueueOptions, redis: Any) -> None:
        self._options = options
        self._endpoint: Endpoint | None = None
        if redis is None:
            redis = server_url_from_environment()
        if isinstance(redis, str):
            self._endpoint = Endpoint.from_url(redis)
        elif redis is not None:
            self._endpoint = Endpoint.from_client(redis)
        if self._endpoint and options.wait_replicas:
            reply_s = getattr(self._endpoint.make(), "socket_timeout", None) or SOCKET_TIMEOUT_S
            if options.wait_timeout_s >= reply_s:
                raise ConfigurationError(
                    f"wait_timeout={options.wait_timeout_s:g} must be below the socket_timeout={reply_s:g} of the URL"
                )
        self._links: Links | None = None
        self._lanes: list[LaneKeys] = []
        self._policy = Policy()
        self._is_known = self._is_registered = False
        self._roles: frozenset[Role] = frozenset()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """How to call the server in a text, whether it was needed yet or not."""
        return self._endpoint.name if self._endpoint else "the embedded server"

    @property
    def endpoint(self) -> Endpoint:
        """The server; starts the embedded one when no other was given."""
        if self._endpoint is None:
            from .server import EmbeddedServer

            server = EmbeddedServer()
            server.start()
            log.info("no redis= and no SEQUENCER_REDIS: using the embedded server at %s", server.url)
            self._endpoint = Endpoint.from_url(server.url)
        return self._endpoint

    def lanes(self, *, register: bool = True, role: Role | None = None) -> list[LaneKeys]:
        """The keys of every lane. The first use of a queue registers it; a mere look (register=False) does not.

        Before that, it is asked whether the user has the rights for this `role`, or for any. Raises ServerNotUsable.
        """
        if (role not in self._roles) if role else (register and not self._roles):
            self._check_roles(role)
        if not (self._is_registered or (self._is_known and not register)):
            with self.link() as link, self._lock:
                lanes, is_known = self._find_lanes(link, register)
                keys = [lane_keys(self._options.namespace, self._options.queue, lane) for lane in range(lanes)]
                self._policy, is_stored = self._find_policy(link, keys, register)
                # In this order: another thread that sees a flag uses lanes and policy without the lock.
                self._lanes = keys
                self._is_known = is_known and is_stored
                self._is_registered = register
        return self._lanes

    def _check_roles(self, wanted: Role | None) -> None:
        options = self._options
        with self.link() as link:
            try:
                count, denied = self._find_lanes(link, register=False)[0], None
            except ServerNotUsable as error:
                count, denied = 1, error  # what is missing is named below
            lanes = [lane_keys(options.namespace, options.queue, lane) for lane in range(count)]
            waits = options.wait_replicas > 0
            missing = missing_rights(link, ASKED, options.namespace, options.queue, lanes, waits=waits)
        self._roles = frozenset(role for role, names in missing.items() if not names)
        for role in [wanted] if wanted else sorted(missing, key=lambda role: len(missing[role]))[:1]:
            if missing[role]:
                raise lacking(self.name, role, missing[role]) from denied
        if denied:
            raise denied

    def policy(self, *, register: bool = True, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        self.lanes(register=register, role=role)
        return self._policy

    def is_sequence(self) -> bool:
        """Whether scores are consecutive numbers in this queue; asked by those who append."""
        is_ready = self._is_registered and "append" in self._roles
        return (self._policy if is_ready else self.policy(role="append")).sequence

    def keys_of(self, group: str, *, register: bool = True) -> LaneKeys:
        """The keys of an encoded group's lane; with `register` for one who appends."""
        is_ready = self._is_registered and (not register or "append" in self._roles)
        lanes = self._lanes if is_ready else self.lanes(register=register, role="append" if register else None)
        return lanes[lane_of(group, len(lanes))]

    @contextmanager
    def link(self, role: Role | None = None) -> Iterator[Link]:
        """A link for the length of the block. Raises ServerError when the server can't be used, or not in this role."""
        if role and role not in self._roles:
            self._check_roles(role)
        links = self.connect()
        link = links.take()
        try:
            with reading(self.name):
                yield link
        finally:
            links.put(link)

    def connect(self) -> Links:
        """Connect and check the server, unless that is done. Raises ServerUnavailable, ServerNotUsable."""
        links = self._links
        if links is not None:
            return links
        with self._lock:
            if self._links is None:
                links = Links(self.endpoint, self.look_again)
                link = links.take()
                try:
                    with reading(self.name):
                        _check(link)
                except BaseException:
                    link.close()
                    raise
                links.put(link)
                self._links = links
            return self._links

    def close(self) -> None:
        """Close the links; the next use connects anew."""
        with self._lock:
            links, self._links = self._links, None
        if links:
            links.close()

    def _find_lanes(self, link: Link, register: bool) -> tuple[int, bool]:
        """How many lanes the queue has, and whether the server knows it by now."""
        options, key = self._options, registry_key(self._options.namespace)
        known = link.command("HGET", key, options.queue)
        if known is None and register:
            link.command("HSETNX", key, options.queue, options.lanes or 1)
            known = link.command("HGET", key, options.queue)
        if known is not None and not (known.isdigit() and 1 <= int(known) <= MAX_LANES):
            raise DataError(f"{key} says that queue {options.queue!r} has {known!r} lanes; correct it with HSET")
        lanes = int(known or options.lanes or 1)
        if options.lanes not in (None, lanes):
            raise ConfigurationError(
                f"queue {options.queue!r} has {lanes} lanes since its first use, lanes={options.lanes} was asked; "
                "leave lanes out, or use another queue name"
            )
        return lanes, known is not None

    def look_again(self, link: Link) -> None:
        """With each new connection: a server that lost its data gets the queue's lanes and policy again.

        Else a client that comes new would take one lane, and never see what this one appends to the others. Raises
        DataError when others registered the queue meanwhile with another number of lanes.
        """
        keys = self._lanes
        if not self._is_registered:
            return
        registry, queue = registry_key(self._options.namespace), self._options.queue
        known, *stored = link.commands([("HGET", registry, queue), *[("EXISTS", lane.policy) for lane in keys]])
        if known == str(len(keys)).encode() and all(stored):
            return
        log.warning("queue %s: the server does not know it any more; registered again, with %d lanes", queue, len(keys))
        fields = self._policy.stored().items()
        link.commands(
            [
                ("HSETNX", registry, queue, len(keys)),
                *[("HSETNX", lane.policy, name, value) for lane in keys for name, value in fields],
            ]
        )
        if (known := link.command("HGET", registry, queue)) != str(len(keys)).encode():
            raise DataError(
                f"queue {queue!r} had {len(keys)} lanes, and now {registry} says {known!r}: the server lost its data, "
                "and others registered the queue anew; start this program again"
            )

    def fresh_policy(self, link: Link) -> Policy:
        """The policy as the server has it now."""
        keys = self.lanes(register=False)[0]
        return merge_policy(self._options.queue, _texts(link.command("HGETALL", keys.policy)), {})

    def _find_policy(self, link: Link, lanes: list[LaneKeys], register: bool) -> tuple[Policy, bool]:
        """What the server keeps, changed by what this client asks for; and whether it kept any.

        Read, checked and written in one transaction over all lanes, so that two clients at once do not undo each
        other's policy, nor leave two that exclude each other.
        """
        name, asked = self._options.queue, self._options.asked if register else {}
        for _ in range(TRIES):
            if register:
                link.command("WATCH", *[keys.policy for keys in lanes])
            before = _policies(link, lanes)
            try:
                policy = merge_policy(name, before[0], asked)
            except ConfigurationError:
                _unwatch(link, register)
                raise
            wanted, writes = policy.stored(), []
            for keys, old in zip(lanes, before, strict=True):
                changed = {key: value for key, value in wanted.items() if old.get(key) != value}
                writes += [("HSET", keys.policy, *chain.from_iterable(changed.items()))] if changed else []
            if not (register and writes):
                _unwatch(link, register)
                return policy, bool(before[0])
            if link.commands([("MULTI",), *writes, ("EXEC",)])[-1] is None:
                continue  # another client set something meanwhile
            self._tell(read_policy(before[0]), policy, asked)
            for keys, old in zip(lanes, before, strict=True):
                if any(old.get(key, wanted[key]) != wanted[key] for key in ("gap_us", "on_gap", "window_us")):
                    _look_again(link, keys)
            return policy, True
        raise ServerUnavailable(f"the policy of queue {name!r} is being changed by others all the time; try again")

    def _tell(self, old: dict[str, Any], policy: Policy, asked: dict[str, Any]) -> None:
        for name in asked:
            if name in old and old[name] != getattr(policy, name):
                queue = self._options.queue
                log.warning("queue %s: %s changes from %r to %r", queue, name, old[name], getattr(policy, name))


def _unwatch(link: Link, is_watching: bool) -> None:
    if is_watching:
        link.command("UNWATCH")


def _policies(link: Link, lanes: list[LaneKeys]) -> list[dict[str, str]]:
    return [_texts(reply) for reply in link.commands([("HGETALL", keys.policy) for keys in lanes])]


def _look_again(link: Link, keys: LaneKeys) -> None:
    """Let claims decide anew about groups that were put off by a rule that has changed: each of them once."""
    now_us = int(link.command("TIME")[0]) * 1_000_000
    names: dict[str, None] = {}
    cursor: Any = b"0"
    while True:
        cursor, words = link.command("ZSCAN", keys.schedule, cursor, "COUNT", PAGE)
        for word, at in zip(words[::2], words[1::2], strict=True):
            if float(at) > now_us and float(at) != PAUSED:
                names[word.decode("utf-8", "surrogateescape")] = None
        if int(cursor) == 0:
            break
    calls = [resume(keys, name, b"", "", look=True) for name in names]
    for start in range(0, len(calls), PAGE):
        link.run(calls[start : start + PAGE])


def _texts(reply: list[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(reply[::2], reply[1::2], strict=True)}


def _check(link: Link) -> None:
    try:
        info = link.command("INFO")
    except ServerNotUsable as error:
        if "unknown command" not in str(error):
            raise
        log.info("server %s has no INFO (fakeredis?), so it can't be checked", link.endpoint.name)
        return
    check_server(parse_info(info.decode("utf-8", "replace")), link.endpoint.name)


def list_queues(redis: Any = None, namespace: str = "sequencer") -> list[str]:
    """The names of all queues of a namespace on a server, given as for Sequencer. Raises ServerError."""
    link = Link(Place(QueueOptions(queue="_", namespace=namespace), redis).endpoint)
    try:
        with reading(link.endpoint.name):
            return sorted(name.decode() for name in link.command("HKEYS", registry_key(namespace)))
    finally:
        link.close()
