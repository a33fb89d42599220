"""Session: one client's view of one queue. Finds and checks the server and the lanes once, lends links."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..calls.net import Net
from ..doctor.rights import ASKED, Role, lacking, missing_rights
from ..doctor.server import check_server, parse_info
from ..errors import ConfigurationError, DataError, ServerNotUsable
from ..net.blocking import BlockingNet
from ..net.endpoint import SOCKET_TIMEOUT_S, Endpoint, server_url_from_environment
from ..net.link import Link
from ..net.pool import Lent, Links
from ..net.refusals import Reading
from ..settings.options import MAX_LANES, QueueOptions
from ..settings.policy import Policy, merge_policy
from ..store.keys import LaneKeys, lane_keys, lane_of, registry_key
from ..values.views import QueueInfo
from .policy_store import find_policy, texts

log = logging.getLogger("sequencer")


class Session:
    """One queue on one server. Nothing connects before it is needed; `start` starts a server then if none was given."""

    def __init__(self, options: QueueOptions, redis: Any, start: Callable[[], Endpoint]) -> None:
        self._options, self._start = options, start
        self.net: Net = BlockingNet(self)
        """Over which operations run."""
        self.last_info: tuple[float, QueueInfo] | None = None
        """What the last `info` found, and when, by the net's clock."""
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
            self._endpoint = self._start()
        return self._endpoint

    def lanes_now(self, *, register: bool = True, role: Role | None = None) -> list[LaneKeys]:
        """The keys of every lane. The first use of a queue registers it; a mere look (register=False) does not.

        Before that, it is asked whether the user has the rights for this `role`, or for any. Raises ServerNotUsable.
        """
        if (role not in self._roles) if role else (register and not self._roles):
            self._check_roles(role)
        if not (self._is_registered or (self._is_known and not register)):
            with self.link() as link, self._lock:
                lanes, is_known = self._find_lanes(link, register)
                keys = [lane_keys(self._options.namespace, self._options.queue, lane) for lane in range(lanes)]
                name, asked = self._options.queue, self._options.asked
                self._policy, is_stored = find_policy(link, name, keys, asked, register=register)
                # In this order: another thread that sees a flag uses lanes and policy without the lock.
                self._lanes = keys
                self._is_known = is_known and is_stored
                self._is_registered = register or self._is_registered  # another thread may have done it meanwhile
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

    def policy_now(self, *, register: bool = True, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        self.lanes_now(register=register, role=role)
        return self._policy

    def known_sequence(self) -> bool | None:
        """Whether scores are consecutive numbers in this queue; None before its first append."""
        return self._policy.sequence if self._is_registered and "append" in self._roles else None

    def is_sequence(self) -> bool:
        """The same for one who appends, and connects if that is needed."""
        known = self.known_sequence()
        return self.policy_now(role="append").sequence if known is None else known

    def keys_of_now(self, group: str, *, register: bool = True) -> LaneKeys:
        """The keys of an encoded group's lane; with `register` for one who appends."""
        is_ready = self._is_registered and (not register or "append" in self._roles)
        lanes = self._lanes if is_ready else self.lanes_now(register=register, role="append" if register else None)
        return lanes[lane_of(group, len(lanes))]

    def lane_count(self) -> int:
        """Of how many lanes `keys_of` chooses, for one who appends."""
        is_ready = self._is_registered and "append" in self._roles
        return len(self._lanes if is_ready else self.lanes_now(role="append"))

    # -- for operations -----------------------------------------------------------------------------------------

    @property
    def options(self) -> QueueOptions:
        """The queue's options, as this client was given them."""
        return self._options

    async def lanes(self, *, register: bool = True, role: Role | None = None) -> list[LaneKeys]:
        """The keys of every lane; see `lanes_now`."""
        return self.lanes_now(register=register, role=role)

    async def keys_of(self, group: str, *, register: bool = True) -> LaneKeys:
        """The keys of an encoded group's lane; with `register` for one who appends."""
        return self.keys_of_now(group, register=register)

    async def policy(self, *, register: bool = True, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        return self.policy_now(register=register, role=role)

    async def fresh_policy(self) -> Policy:
        """The policy as the server has it now."""
        with self.link() as link:
            return self.fresh_policy_on(link)

    async def allow(self, role: Role) -> None:
        """Ask once whether the user has the rights of this role. Raises ServerNotUsable."""
        if role not in self._roles:
            self._check_roles(role)

    # -- links --------------------------------------------------------------------------------------------------

    def link(self, role: Role | None = None) -> Lent:
        """A link for the length of the block. Raises ServerError when the server can't be used, or not in this role."""
        if role and role not in self._roles:
            self._check_roles(role)
        return Lent(self.connect(), self.name)

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
                    with Reading(self.name):
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
        """With each new connection: a server that lost its data gets the queue's lanes and policy again, the policy as
        this client last saw it.

        Else a client that comes new would take one lane, and never see what this one appends to the others. Raises
        DataError, and writes nothing, when others registered the queue meanwhile with another number of lanes.
        """
        keys = self._lanes
        if not self._is_registered:
            return
        registry, queue, count = registry_key(self._options.namespace), self._options.queue, str(len(keys)).encode()
        looks = [("HGET", registry, queue), ("HGETALL", keys[0].policy), *[("EXISTS", lane.policy) for lane in keys]]
        known, policy, *stored = link.commands(looks)
        if known is None:
            link.command("HSETNX", registry, queue, count)
            known = link.command("HGET", registry, queue)
            stored = []
        if known != count:
            raise DataError(
                f"queue {queue!r} had {len(keys)} lanes, and now {registry} says {known!r}: the server lost its data, "
                "and others registered the queue anew; start this program again"
            )
        self._learn(policy)
        if stored and all(stored):
            return
        fields = self._policy.stored().items()
        # In one transaction: of two clients that come back with two policies, one sets all of it in all lanes.
        writes = [("HSETNX", lane.policy, name, value) for lane in keys for name, value in fields]
        link.commands([("MULTI",), *writes, ("EXEC",)])
        log.warning("queue %s: the server does not know it any more; registered again, with %d lanes", queue, len(keys))

    def fresh_policy_on(self, link: Link) -> Policy:
        """The policy as the server has it now."""
        keys = self.lanes_now(register=False)[0]
        reply = link.command("HGETALL", keys.policy)
        self._learn(reply)
        return merge_policy(self._options.queue, texts(reply), {})

    def _learn(self, reply: list[bytes]) -> None:
        """Remember the policy as it is now: a server that loses its data gets this one again."""
        with suppress(ConfigurationError, ValueError, ArithmeticError):  # others wrote it: said where it is used
            if stored := texts(reply):
                self._policy = merge_policy(self._options.queue, stored, {})

    def look_anew(self) -> None:
        """Look again if the server has closed the connection since, as it does when it ends.

        For one who is about to send over a connection of another's. Asks the socket, without a round trip, where
        nothing was lost. Raises as `look_again` does, and ServerUnavailable.
        """
        with self.link() as link:
            link.refresh()


def _check(link: Link) -> None:
    try:
        info = link.command("INFO")
    except ServerNotUsable as error:
        if "unknown command" not in str(error):
            raise
        log.info("server %s has no INFO (fakeredis?), so it can't be checked", link.endpoint.name)
        return
    check_server(parse_info(info.decode("utf-8", "replace")), link.endpoint.name)
