"""Session: what one client knows of one queue. It finds lanes, policy and rights once, and brings them back."""

from __future__ import annotations

import logging
from contextlib import suppress

from ..calls.net_protocol import Alone, Net
from ..doctor.rights import ASKED, Role, lacking, missing_rights
from ..doctor.server import check_server, parse_info
from ..errors import ConfigurationError, DataError, ServerNotUsable
from ..settings.body_fields import BODY_FIELDS, BodyFields, QueueFields, merge_fields, read_fields, write_fields
from ..settings.options import MAX_LANES, QueueOptions
from ..settings.policy import Policy, merge_policy
from ..store.keys import LaneKeys, lane_keys, lane_of, registry_key
from ..store.replies import Reading
from ..values.views import QueueInfo
from .policy_store import change_policy, queue_restored, read_policies, tell, texts

log = logging.getLogger("sequencer")


class Session:
    """One queue over one net. Nothing is asked before it is needed; what was found stays."""

    def __init__(self, options: QueueOptions, net: Net) -> None:
        self.options = options
        """The queue's options, as this client was given them."""
        self.net = net
        """Over which operations run."""
        self.fields = QueueFields(BodyFields(options.group_by, options.id_by, options.score_by))
        """Which fields of a body make group, id and score: before the first use those that were named."""
        self.last_info: tuple[float, QueueInfo] | None = None
        """What the last `info` found, and when, by the net's clock."""
        self._lanes: list[LaneKeys] = []
        self._policy = Policy()
        self._is_known = self._is_registered = False
        self._roles: frozenset[Role] = frozenset()

    # -- what operations ask ------------------------------------------------------------------------------------

    async def lanes(self, *, register: bool = True, role: Role | None = None) -> list[LaneKeys]:
        """The keys of every lane. The first use of a queue registers it; a mere look (register=False) does not.

        Before that, it is asked whether the user has the rights for this `role`, or for any. Raises ServerNotUsable.
        """
        if role or register:
            await self._allow(role)
        if not self._is_found(register):
            async with self.net.once("registration"):
                if not self._is_found(register):
                    await self._find(register)
        return self._lanes

    async def policy(self, *, register: bool = True, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        await self.lanes(register=register, role=role)
        return self._policy

    async def fresh_policy(self) -> Policy:
        """The policy as the server has it now."""
        keys = (await self.lanes(register=False))[0]
        (reply,) = await self.net.read(keys.policy, [("HGETALL", keys.policy)])
        with Reading(self.net.name):
            self._learn(reply)
            return merge_policy(self.options.queue, texts(reply), {})

    async def fresh_fields(self) -> BodyFields:
        """The body fields as the server remembers them now."""
        keys = (await self.lanes(register=False))[0]
        (stored,) = await self.net.read(keys.policy, [("HGET", keys.policy, BODY_FIELDS)])
        with Reading(self.net.name):
            return read_fields(stored.decode() if stored else None)

    async def take_fields(self) -> None:
        """Take the body fields that the queue remembers, before it is registered: that refuses other values."""
        known = await self.fresh_fields()
        self.fields.take(merge_fields(self.options.queue, known, self.fields.asked, is_used=False))

    async def allow(self, role: Role) -> None:
        """Ask once whether the user has the rights of this role. Raises ServerNotUsable."""
        await self._allow(role)

    async def keys_of(self, group: str, *, register: bool = True) -> LaneKeys:
        """The keys of an encoded group's lane; with `register` for one who appends."""
        lanes = (await self.lanes_to_append()) if register else await self.lanes(register=False)
        return lanes[lane_of(group, len(lanes))]

    # -- for one who appends ------------------------------------------------------------------------------------

    def known_lanes(self) -> list[LaneKeys] | None:
        """The keys of every lane, for one who appends; None before its first append."""
        return self._lanes if self._is_registered and "append" in self._roles else None

    async def lanes_to_append(self) -> list[LaneKeys]:
        """The keys of every lane, for one who appends."""
        lanes = self.known_lanes()
        return await self.lanes(role="append") if lanes is None else lanes

    def known_sequence(self) -> bool | None:
        """Whether scores are consecutive numbers in this queue; None before its first append."""
        return self._policy.sequence if self.known_lanes() is not None else None

    async def is_sequence(self) -> bool:
        """Whether scores are consecutive numbers in this queue, for one who appends."""
        known = self.known_sequence()
        return (await self.policy(role="append")).sequence if known is None else known

    # -- first use ----------------------------------------------------------------------------------------------

    def _is_found(self, register: bool) -> bool:
        return self._is_registered or (self._is_known and not register)

    async def _find(self, register: bool) -> None:
        options = self.options
        count, is_known = await self._find_lane_count(register)
        keys = [lane_keys(options.namespace, options.queue, lane) for lane in range(count)]
        if register:
            policy, is_stored = await change_policy(self.net, options.queue, keys, options.asked, self.fields), True
        else:
            before = (await read_policies(self.net, keys))[0]
            with Reading(self.net.name):
                policy, is_stored = merge_policy(options.queue, before, {}), bool(before)
        if register or not self._is_registered:
            # In this order: another thread that sees a flag uses lanes and policy without waiting.
            self._policy, self._lanes = policy, keys
            self._is_known = is_known and is_stored
            self._is_registered = register

    async def _find_lane_count(self, register: bool) -> tuple[int, bool]:
        """How many lanes the queue has, and whether the server knows it by now."""
        options, key = self.options, registry_key(self.options.namespace)
        (known,) = await self.net.read(key, [("HGET", key, options.queue)])
        if known is None and register:
            # A round trip each: where the first is refused, what it says is what matters.
            await self.net.read(key, [("HSETNX", key, options.queue, options.lanes or 1)])
            (known,) = await self.net.read(key, [("HGET", key, options.queue)])
        with Reading(self.net.name):
            if known is not None and not (known.isdigit() and 1 <= int(known) <= MAX_LANES):
                raise DataError(f"{key} says that queue {options.queue!r} has {known!r} lanes; correct it with HSET")
            lanes = int(known or options.lanes or 1)
        if options.lanes not in (None, lanes):
            raise ConfigurationError(
                f"queue {options.queue!r} has {lanes} lanes since its first use, lanes={options.lanes} was asked; "
                "leave lanes out, or use another queue name"
            )
        return lanes, known is not None

    async def _allow(self, role: Role | None) -> None:
        """Raises ServerNotUsable without the rights for this role, or for any; what is missing is asked for anew."""
        if not self._is_allowed(role):
            async with self.net.once("rights"):
                if not self._is_allowed(role):
                    await self._ask_for_rights(role)

    def _is_allowed(self, role: Role | None) -> bool:
        return role in self._roles if role else bool(self._roles)

    async def _ask_for_rights(self, wanted: Role | None) -> None:
        options = self.options
        try:
            (count, _), denied = await self._find_lane_count(register=False), None
        except ServerNotUsable as error:
            count, denied = 1, error  # what is missing is named below
        lanes = [lane_keys(options.namespace, options.queue, lane) for lane in range(count)]
        waits = options.wait_replicas > 0
        missing = await missing_rights(self.net, ASKED, options.namespace, options.queue, lanes, waits=waits)
        self._roles = frozenset(role for role, names in missing.items() if not names)
        for role in [wanted] if wanted else sorted(missing, key=lambda role: len(missing[role]))[:1]:
            if missing[role]:
                raise lacking(self.net.name, role, missing[role]) from denied
        if denied:
            raise denied

    # -- with each new connection -------------------------------------------------------------------------------

    async def restore_registration(self, alone: Alone) -> None:
        """Give a server that lost its data the queue's lanes and policy again, as this client last saw them.

        With each new connection, on that connection alone: it may reach neither others nor what waits for a first use.
        Else a client that comes new would take one lane, and never see what this one appends to the others. Raises
        DataError, and writes nothing, when others registered the queue meanwhile with another number of lanes.
        """
        keys = self._lanes
        if not self._is_registered:
            return
        registry, queue, count = registry_key(self.options.namespace), self.options.queue, str(len(keys)).encode()
        looks = [("HGET", registry, queue), ("HGETALL", keys[0].policy), *[("EXISTS", lane.policy) for lane in keys]]
        known, policy, *stored = await alone.send(looks)
        if known is None:
            await alone.send([("HSETNX", registry, queue, count)])
            (known,) = await alone.send([("HGET", registry, queue)])
            stored = []
        if known != count:
            raise DataError(
                f"queue {queue!r} had {len(keys)} lanes, and now {registry} says {known!r}: the server lost its data, "
                "and others registered the queue anew; start this program again"
            )
        with Reading(self.net.name):
            self._learn(policy)
        if stored and all(stored):
            return
        fields = self._policy.stored().items()
        fields_text = write_fields(self.fields.now, None)
        # In one transaction: of two clients that come back with two policies, one sets all of it in all lanes.
        writes = [("HSETNX", lane.policy, name, value) for lane in keys for name, value in fields]
        writes += [("HSETNX", keys[0].policy, BODY_FIELDS, fields_text)] if any(self.fields.now) else []
        await alone.send([("MULTI",), *writes, ("EXEC",)])
        tell(queue_restored(queue, len(keys)))

    def _learn(self, reply: list[bytes]) -> None:
        """Remember the policy as it is now: a server that loses its data gets this one again."""
        with suppress(ConfigurationError, ValueError, ArithmeticError):  # others wrote it: said where it is used
            if stored := texts(reply):
                self._policy = merge_policy(self.options.queue, stored, {})


async def check_first(alone: Alone, name: str) -> None:
    """Refuse a server that would lose or refuse data, on a client's first connection to it.

    Raises ServerNotUsable, ServerUnavailable.
    """
    try:
        (info,) = await alone.send([("INFO",)])
    except ServerNotUsable as error:
        if "unknown command" not in str(error):
            raise
        log.info("server %s has no INFO (fakeredis?), so it can't be checked", name)
        return
    with Reading(name):
        check_server(parse_info(info.decode("utf-8", "replace")), name)


async def queue_names(net: Net, namespace: str) -> list[str]:
    """The names of all queues of a namespace. Raises ServerError."""
    key = registry_key(namespace)
    (names,) = await net.read(key, [("HKEYS", key)])
    with Reading(net.name):
        return sorted(name.decode() for name in names)
