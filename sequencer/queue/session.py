"""Session: what one client knows of one queue. It finds lanes, policy, route and rights once, and brings them back."""

from __future__ import annotations

import logging
from contextlib import suppress

from ..calls.net_protocol import Alone, Command, Net
from ..doctor.rights import ASKED, Role, lacking, missing_rights
from ..doctor.server import check_server, eviction_to_come, parse_info, would_evict
from ..errors import ConfigurationError, ServerNotUsable
from ..settings.body_fields import BODY_FIELDS, BodyFields, QueueFields, merge_fields, read_fields
from ..settings.options import QueueOptions
from ..settings.policy import HistoryKept, Policy, merge_policy
from ..store.item import ItemMaker
from ..store.keys import LaneKeys, consumer_name, index_key, lane_keys, lane_of, registry_key
from ..store.registration import INDEX_WORD, Registration, of_lane, registered
from ..store.replies import Reading, field_texts, text
from ..values.views import QueueInfo
from .registry.route_search import RouteSearch

log = logging.getLogger("sequencer")


class Session:
    """One queue over one net. Nothing is asked before it is needed; what was found stays, and is looked at again."""

    def __init__(self, options: QueueOptions, net: Net) -> None:
        self.options = options
        """The queue's options, as this client was given them."""
        self.net = net
        """Over which operations run."""
        self.fields = QueueFields(BodyFields(options.group_by, options.id_by, options.score_by))
        """Which fields of a body make group, id and score: before the first use those that were named."""
        self.items = ItemMaker(options, self.fields)
        self.route = ""
        """What calls bring: protocol and epoch of the queue; "" while it was not found."""
        self.consumes = False
        """Whether this client has a consumer: its connections say so by their names, where the user may."""
        self.restores = True
        """Whether it registers again what it knew and is gone: who only watches must not bring a deleted queue back."""
        self.last_info: tuple[float, QueueInfo] | None = None
        """What the last `info` found, and when, by the net's clock."""
        self.check_at = 0.0
        """When one of this client's links checks the server again, by their clock."""
        self._lanes: list[LaneKeys] = []
        self._policy = Policy()
        self._registration: Registration | None = None
        self._is_known = self._is_registered = self._was_fit = self._notes_starts = False
        self._tells_info = True
        self._looks = 0
        self._roles: frozenset[Role] = frozenset()

    # -- what operations ask ------------------------------------------------------------------------------------

    async def lanes(self, role: Role | None = None, *, register: bool | None = None) -> list[LaneKeys]:
        """The keys of every lane, after asking once whether the user has the rights of this role.

        A queue is registered by its first use: by who appends or consumes, or where `register` says so.
        Raises ServerNotUsable.
        """
        register = role in ("append", "consume") if register is None else register
        if role or register:
            await self.allow(role)
        if not self._is_found(register):
            async with self.net.once("registration"):
                if not self._is_found(register):
                    await self._find(register)
        return self._lanes

    async def keys_of(self, group: str, role: Role | None = None) -> LaneKeys:
        """The keys of an encoded group's lane, after asking for the rights of this role."""
        lanes = await self.lanes(role)
        return lanes[lane_of(group, len(lanes))]

    async def policy(self, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        await self.lanes(role)
        return self._policy

    def keeps_history(self) -> HistoryKept:
        """What the queue keeps of messages that ended, as far as this client knows: as it was at its last look."""
        if not self._policy.history_window:
            return ""
        return "bodies" if self._policy.history_bodies else "ends"

    async def fresh_policy(self) -> Policy:
        """The policy as the server has it now."""
        keys = (await self.lanes())[0]
        (reply,) = await self.net.read(keys.policy, [("HGETALL", keys.policy)])
        with Reading(self.net.name):
            fields = field_texts(reply)
            policy, lane = merge_policy(self.options.queue, fields, {}), of_lane(fields)
        known = self._registration
        if lane and known and lane.epoch == known.epoch and lane.version > known.version:
            self._learn(lane)  # a server that loses its data gets this one again
        return policy

    async def fresh_fields(self) -> BodyFields:
        """The body fields as the server remembers them now."""
        keys = (await self.lanes())[0]
        (stored,) = await self.net.read(keys.policy, [("HGET", keys.policy, BODY_FIELDS)])
        with Reading(self.net.name):
            return read_fields(stored.decode() if stored else None)

    async def take_fields(self) -> None:
        """Take the body fields that the queue remembers, before it is registered: that refuses other values."""
        known = await self.fresh_fields()
        self.fields.take(merge_fields(self.options.queue, known, self.fields.asked, is_used=False))

    def forget(self) -> None:
        """What was found is no more: the next use finds it, or registers the queue, as the first one did."""
        self._is_known = self._is_registered = False
        self._registration, self.route = None, ""

    def will_note_starts(self) -> None:
        """Consumers of this client may run `once` steps, whose starts wait for replicas too: that takes a right."""
        if not self._notes_starts:
            self._notes_starts, self._roles = True, self._roles - {"consume"}

    # -- for one who appends ------------------------------------------------------------------------------------

    def known_lanes(self) -> list[LaneKeys] | None:
        """The keys of every lane, for one who appends; None before its first append."""
        return self._lanes if self._is_registered and "append" in self._roles else None

    async def lanes_to_append(self) -> list[LaneKeys]:
        """The keys of every lane, for one who appends."""
        lanes = self.known_lanes()
        return await self.lanes("append") if lanes is None else lanes

    def known_sequence(self) -> bool | None:
        """Whether scores are consecutive numbers in this queue; None before its first append."""
        return self._policy.sequence if self.known_lanes() is not None else None

    async def is_sequence(self) -> bool:
        """Whether scores are consecutive numbers in this queue, for one who appends."""
        known = self.known_sequence()
        return (await self.policy("append")).sequence if known is None else known

    # -- first use ----------------------------------------------------------------------------------------------

    def _is_found(self, register: bool) -> bool:
        return self._is_registered or (self._is_known and not register)

    async def _find(self, register: bool) -> None:
        options, registry = self.options, registry_key(self.options.namespace, self.options.queue)
        async with self.net.alone(registry) as alone:
            asked, fields = (options.asked, self.fields.asked) if register else ({}, None)
            search = RouteSearch(self.net, alone, options, asked=asked, fields=fields, registers=register)
            found = await search.run()
        if self._is_registered and not register:
            return
        if found is None:
            self._lanes = [lane_keys(options.namespace, options.queue, lane) for lane in range(options.lanes or 1)]
            self._policy = Policy()
            return
        with Reading(self.net.name):
            merge_policy(options.queue, found.policy, {})
        self._learn(found)
        if register:
            with Reading(self.net.name):
                self.fields.take(read_fields(found.policy.get(BODY_FIELDS)))
        self._is_known, self._is_registered = True, register

    def _learn(self, found: Registration) -> None:
        """In this order: another thread that sees a flag uses lanes and policy without waiting."""
        options = self.options
        with suppress(ConfigurationError, ValueError, ArithmeticError):  # others wrote it: said where it is used
            self._policy = merge_policy(options.queue, found.policy, {})
        if self._registration is None or self._registration.tags != found.tags:
            self._lanes = [lane_keys(options.namespace, options.queue, tag) for tag in found.tags]
        self._registration, self.route = found, found.route

    async def allow(self, role: Role | None) -> None:
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
            await self.lanes()
            lanes, denied = self._lanes, None
        except ServerNotUsable as error:
            denied = error  # what is missing is named below
            lanes = [lane_keys(options.namespace, options.queue, 0)]
        wait: tuple[Role, ...] = ("append", "consume") if self._notes_starts else ("append",)
        waits = wait if options.wait else ()
        missing = await missing_rights(self.net, ASKED, options.namespace, options.queue, lanes, waits=waits)
        self._roles = frozenset(role for role, names in missing.items() if not names)
        for role in [wanted] if wanted else sorted(missing, key=lambda role: len(missing[role]))[:1]:
            if missing[role]:
                raise lacking(self.net.name, role, missing[role]) from denied
        if denied:
            raise denied

    # -- what links ask -----------------------------------------------------------------------------------------

    async def look(self, alone: Alone, *, is_new: bool = True) -> None:
        """Whether server and queue are as they were, in one round trip: with each new connection, and now and then.

        On that connection alone: it may reach neither others nor what waits for a first use. A policy that others set
        is taken over; what this client asked for at first is not set again. Of several lanes a connection that is not
        `is_new` asks one, in turn: the registry tells of a change first. Raises ServerNotUsable, ServerUnavailable,
        DataError.
        """
        known = self._registration if self._is_registered else None
        self._looks += 1
        lanes = self._lanes if is_new or not self._lanes else [self._lanes[self._looks % len(self._lanes)]]
        commands: list[Command] = [("INFO",)]
        if known:
            commands += [
                ("HGETALL", registry_key(self.options.namespace, self.options.queue)),
                ("HGET", index_key(self.options.namespace), self.options.queue),
                *[("HMGET", keys.policy, "route", "version", "again") for keys in lanes],
            ]
        if is_new and self.consumes:  # at the end: who may not is not stopped by that
            commands.append(("CLIENT", "SETNAME", consumer_name(self.options.namespace, self.options.queue)))
        info, *answers = await alone.answers(commands)
        self._check_server(info)
        answers = answers[:-1] if is_new and self.consumes else answers
        if known and not self._is_as_known(known, answers):
            await self._find_route(alone)

    async def check(self, alone: Alone) -> None:
        """Whether the server evicts keys by now, on that connection alone: of all that may change under a client, only
        this deletes its messages. Raises ServerNotUsable, ServerUnavailable.
        """
        if self._tells_info:
            (info,) = await alone.answers([("INFO", "memory")])
            self._check_server(info)

    def _check_server(self, info: object) -> None:
        if isinstance(info, ServerNotUsable) and "unknown command" in str(info):
            self._tells_info = False
            log.info("server %s has no INFO (fakeredis?), so it can't be checked", self.net.name)
            return
        if isinstance(info, Exception):
            raise info
        with Reading(self.net.name):
            fields = parse_info(info.decode("utf-8", "replace"))  # type: ignore[attr-defined]
            check_server(fields, self.net.name, was_fit=self._was_fit)
        if would_evict(fields) and not self._was_fit:
            log.warning("server %s: %s", self.net.name, eviction_to_come(fields, self.net.name))
        self._was_fit = True

    def _is_as_known(self, known: Registration, answers: list[object]) -> bool:
        if any(isinstance(answer, Exception) for answer in answers):
            return False
        registry, index, *lanes = answers
        own = [known.route.encode(), str(known.version).encode(), None]
        with suppress(ValueError, LookupError):
            is_same = registered(field_texts(registry)) == known  # type: ignore[arg-type]
            return is_same and index == INDEX_WORD.encode() and all(lane == own for lane in lanes)
        return False

    async def find_route(self, alone: Alone) -> None:
        """Where a lane has another route: bring it what is registered, or take over what that is now.

        Else a client that comes new would take one lane, and never see what this one appends to the others. A server
        that has lost a route may evict: that is asked first. Raises ServerNotUsable; DataError, and writes nothing,
        when others registered the queue meanwhile with another number of lanes.
        """
        await self.check(alone)
        await self._find_route(alone)

    async def ask_route(self) -> None:
        """For one whose answers others see: whether the lanes have the route that is known. Raises as `find_route`."""
        async with self.net.alone(registry_key(self.options.namespace, self.options.queue)) as alone:
            answers = await alone.send([("HGET", keys.policy, "route") for keys in self._lanes])
            with Reading(self.net.name):
                found = {text(route or b"") for route in answers}
            if found != {self.route}:
                await self.find_route(alone)

    async def _find_route(self, alone: Alone) -> None:
        known, registers = self._registration, self._is_registered
        search = RouteSearch(self.net, alone, self.options, known=known, registers=registers, restores=self.restores)
        found = await search.run()
        if found:
            self._learn(found)
        elif known is None or not self.restores:
            self.forget()
