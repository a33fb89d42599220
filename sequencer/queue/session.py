"""Session: what one client knows of one queue. It finds shards, policy, generation and rights once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ..calls.call import Call
from ..calls.net_protocol import Alone, Command, Net
from ..doctor.cluster import unanswered
from ..doctor.rights import Role, missing_rights
from ..doctor.server import check_server, eviction_to_come, parse_info, would_evict
from ..errors import ConfigurationError, SequencerError, ServerNotUsable, ServerUnavailable
from ..settings.body_fields import BODY_FIELDS, BodyFields, merge_fields, read_fields
from ..settings.options import QueueOptions
from ..settings.policy import HistoryKept, Policy, merge_policy
from ..store.group import shard_of
from ..store.item import Item, ItemMaker
from ..store.keys import ShardKeys, consumer_name, index_key, registry_key, shard_keys
from ..store.registration import INDEX_WORD, Registration, new_tags, of_shard, registered
from ..store.replies import Reading, field_texts
from ..texts.events import event, log_event
from ..values.views import QueueInfo, Unreachable
from .pages import read
from .registry.generation_search import GenerationSearch

T = TypeVar("T")
log = logging.getLogger("sequencer")


class QueueGone(SequencerError):
    """The queue that this client watched was deleted; what has its name now is another one."""

    code = "queue_gone"


class Reachable(NamedTuple):
    shards: list[ShardKeys]
    unreachable: Unreachable | None


class Session:
    """One queue over one net. Nothing is asked before it is needed; what was found stays, and is checked again."""

    def __init__(self, options: QueueOptions, net: Net) -> None:
        self.options = options
        self.names = {"queue": options.queue, "namespace": options.namespace}
        """As fields of errors."""
        self.net = net
        self.items = ItemMaker(options)
        self.generation = ""
        """What calls bring: protocol and generation_number of the queue; "" while it was not found."""
        self.consumes = False
        """Whether this client has a consumer: its connections say so by their names, where the user may."""
        self.restores = True
        """Whether it registers again what it knew and is gone. Who only watches brings no deleted queue back, and its
        writes are not repeated for what came in its place: QueueGone.
        """
        self.last_info: tuple[float, QueueInfo] | None = None
        """What the last `info` found, and when, by the net's clock."""
        self.check_at = 0.0
        """When one of this client's links checks the server again, by their clock."""
        self._shards: list[ShardKeys] = []
        self._policy = Policy()
        self._registration: Registration | None = None
        self._is_registered = self._was_fit = self._notes_starts = False
        self._tells_info = True
        self._away: tuple[int, ...] = ()  # shards that did not answer the last look
        self._checks = 0
        self._roles: frozenset[Role] = frozenset()

    # -- what operations ask ------------------------------------------------------------------------------------

    async def shards(self, role: Role | None = None, *, register: bool | None = None) -> list[ShardKeys]:
        """The keys of every shard, after asking once whether the user has the rights of this role.

        A queue is registered by its first use: by who appends or consumes, or where `register` says so.
        Raises ServerNotUsable.
        """
        register = role in ("append", "consume") if register is None else register
        if role or register:
            await self.allow(role)
        if not self._is_found(register):
            async with self.net.once():
                if not self._is_found(register):
                    await self._find(register)
        return self._shards

    async def keys_of(self, group: str, role: Role | None = None) -> ShardKeys:
        """The keys of an encoded group's shard, after asking for the rights of this role."""
        shards = await self.shards(role)
        return shards[shard_of(group, len(shards))]

    async def ask(self, call: Call[T]) -> T:
        """What a call answers, for one to whom it is the same whether the call was repeated. Raises ServerError."""
        return (await self.net.ask(call)).value

    async def reachable(self) -> Reachable:
        """The shards that answer now, for who only reads, and those that a view leaves out. One server: all of them.

        A shard whose hash slot is being moved does not answer: half of it may be elsewhere. Raises ServerUnavailable
        where none answers.
        """
        shards = await self.shards()
        if not self.net.is_cluster or len(shards) == 1:
            return Reachable(shards, None)
        async with self.net.alone() as alone:
            errors = await unanswered(alone, shards)
        if len(errors) == len(shards):
            raise errors[0]
        found = Unreachable(tuple(errors), str(next(iter(errors.values())))) if errors else None
        if found and found.shards != self._away:
            about: Any = {"unreachable": [*found.shards], "error": found.error, "namespace": self.options.namespace}
            log_event(event("shards unreachable", self.options.queue, **about))
        self._away = tuple(errors)
        return Reachable([keys for shard, keys in enumerate(shards) if shard not in errors], found)

    async def read_shards(
        self, of: Callable[..., T], commands: Callable[[ShardKeys], Sequence[Command]]
    ) -> dict[ShardKeys, T]:
        """What commands answer for each shard that answers, as `of` reads it. Raises ServerError."""
        return {keys: await read(self.net, of, *commands(keys)) for keys in (await self.reachable()).shards}

    async def policy(self, role: Role | None = None) -> Policy:
        """The queue's policy, as this client found or set it when it connected."""
        await self.shards(role)
        return self._policy

    def keeps_history(self) -> HistoryKept:
        """What the queue keeps of messages that ended, as far as this client knows: as it was at its last check."""
        if not self._policy.history_window:
            return ""
        return "bodies" if self._policy.history_bodies else "ends"

    async def fresh_policy(self) -> Policy:
        """The policy as the server has it now."""
        fields = await read(self.net, field_texts, ("HGETALL", (await self.reachable()).shards[0].policy))
        with Reading(self.net.name):
            policy, shard = merge_policy(self.options.queue, fields, {}), of_shard(fields)
        known = self._registration
        if shard and known and shard.generation_number == known.generation_number and shard.version > known.version:
            self._learn(shard)  # a server that loses its data gets this one again
        return policy

    async def fresh_fields(self) -> BodyFields:
        """The body fields as the server remembers them now."""
        keys = (await self.shards())[0]
        return await read(
            self.net, lambda word: read_fields(word.decode() if word else None), ("HGET", keys.policy, BODY_FIELDS)
        )

    async def check_first(self, check: Callable[..., bool], make: Callable[..., Item], *arguments: Any) -> None:
        """Refuse what breaks a rule before the first use; asks the server only for fields that may make the group."""
        if check(*arguments):
            known = await self.fresh_fields()
            self.items.fields = merge_fields(self.options.queue, known, self.options.fields)
            make(*arguments, is_sequence=None)

    def forget(self) -> None:
        """What was found is no more: the next use finds it, or registers the queue, as the first one did."""
        self._is_registered, self._registration, self.generation = False, None, ""

    def will_note_starts(self) -> None:
        """Consumers of this client may run `once` steps, whose starts wait for replicas too: that takes a right."""
        if not self._notes_starts:
            self._notes_starts, self._roles = True, self._roles - {"consume"}

    # -- for one who appends ------------------------------------------------------------------------------------

    def known_shards(self) -> list[ShardKeys] | None:
        """The keys of every shard, for one who appends; None before its first append."""
        return self._shards if self._is_registered and "append" in self._roles else None

    def known_sequence(self) -> bool | None:
        """Whether scores are consecutive numbers in this queue; None before its first append."""
        return self._policy.sequence if self.known_shards() is not None else None

    # -- first use ----------------------------------------------------------------------------------------------

    def _is_found(self, register: bool) -> bool:
        return self._is_registered or (self._registration is not None and not register)

    async def _find(self, register: bool) -> None:
        options = self.options
        async with self.net.alone() as alone:
            asked = options.policy if register else None
            search = GenerationSearch(self.net, alone, options, asked=asked, registers=register)
            found = await search.run()
        if self._is_registered and not register:
            return
        if found is None:
            tags = new_tags(options, is_cluster=self.net.is_cluster)
            self._shards = [shard_keys(options.namespace, options.queue, tag) for tag in tags]
            self._policy = Policy()
            return
        with Reading(self.net.name):
            merge_policy(options.queue, found.policy, {})
            self.items.fields = read_fields(found.policy.get(BODY_FIELDS)) if register else self.items.fields
        self._learn(found)
        self._is_registered = register

    def _learn(self, found: Registration) -> None:
        """In this order: another thread that sees a flag uses shards and policy without waiting."""
        options = self.options
        with suppress(ConfigurationError, ValueError, ArithmeticError):  # others wrote it: said where it is used
            self._policy = merge_policy(options.queue, found.policy, {})
        if self._registration is None or self._registration.tags != found.tags:
            self._shards = found.keys(options)
        self._registration, self.generation = found, found.generation

    async def allow(self, role: Role | None) -> None:
        """Raises ServerNotUsable without the rights for this role, or for any; what is missing is asked for again."""
        if not self._is_allowed(role):
            async with self.net.once():
                if not self._is_allowed(role):
                    await self._ask_for_rights(role)

    def _is_allowed(self, role: Role | None) -> bool:
        return role in self._roles if role else bool(self._roles)

    async def _ask_for_rights(self, wanted: Role | None) -> None:
        options = self.options
        try:
            await self.shards()
            shards, denied = self._shards, None
        except ServerNotUsable as error:
            denied = error  # what is missing is named below
            shards = [shard_keys(options.namespace, options.queue, 0)]
        wait: tuple[Role, ...] = ("append", "consume") if self._notes_starts else ("append",)
        waits = wait if options.wait else ()
        missing = await missing_rights(self.net, options.namespace, options.queue, shards, waits=waits)
        self._roles = frozenset(role for role, names in missing.items() if not names)
        for role in [wanted] if wanted else sorted(missing, key=lambda role: len(missing[role]))[:1]:
            if rights := missing[role]:
                raise ServerNotUsable("rights_missing", server=self.net.name, role=role, rights=rights) from denied
        if denied:
            raise denied

    # -- what links ask -----------------------------------------------------------------------------------------

    async def refresh(self, alone: Alone, *, is_new: bool = True, only: ShardKeys | None = None) -> None:
        """Whether server and queue are as they were, in one round trip: with each new connection, and now and then.

        On that connection alone: it may reach neither others nor what waits for a first use. A policy that others set
        is taken over; what this client asked for at first is not set again. Of several shards a connection that is not
        `is_new` asks one, in turn: the registry tells of a change first. `only`: nothing but this shard is asked.
        Raises ServerNotUsable, ServerUnavailable, DataError.
        """
        known = self._registration if self._is_registered else None
        self._checks += 1
        shards = self._shards if is_new or not self._shards else [self._shards[self._checks % len(self._shards)]]
        commands: list[Command] = [("INFO",)]
        if known and only is None:
            commands.append(("HGETALL", registry_key(self.options.namespace, self.options.queue)))
            commands.append(("HGET", index_key(self.options.namespace), self.options.queue))
        if known:
            of = shards if only is None else [only]
            commands += [("HMGET", keys.policy, "generation", "version", "again") for keys in of]
        if is_new and self.consumes:  # at the end: who may not is not stopped by that
            commands.append(("CLIENT", "SETNAME", consumer_name(self.options.namespace, self.options.queue)))
        info, *answers = await alone.answers(commands)
        self._check_server(info)
        answers = answers[:-1] if is_new and self.consumes else answers
        if known and not self._is_as_known(known, answers, only):
            await self._find_generation(alone)

    async def check(self, alone: Alone) -> None:
        """Whether the server evicts keys, on that connection alone: of all that may change under a client, only
        this deletes its messages. Raises ServerNotUsable, ServerUnavailable.
        """
        if self._tells_info:
            (info,) = await alone.answers([("INFO", "memory")])
            self._check_server(info)

    def _check_server(self, info: object) -> None:
        if isinstance(info, ServerNotUsable) and info.code == "command_unknown":
            self._tells_info = False
            return
        if isinstance(info, ServerUnavailable) and self.net.is_cluster:
            return  # others may answer
        if isinstance(info, Exception):
            raise info
        with Reading(self.net.name):
            fields = parse_info(info.decode("utf-8", "replace"))  # type: ignore[attr-defined]
            check_server(fields, self.net.name, was_fit=self._was_fit, is_cluster=self.net.is_cluster)
        if would_evict(fields) and not self._was_fit:
            log.warning("server %s: %s", self.net.name, eviction_to_come(fields, self.net.name))
        self._was_fit = True

    def _is_as_known(self, known: Registration, answers: list[object], only: ShardKeys | None) -> bool:
        """What can't be reached is as it was."""
        wanted: list[object] = [[known.generation.encode(), str(known.version).encode(), None]] * len(answers)
        with suppress(ValueError, LookupError, TypeError):
            if only is None:
                wanted[:2] = known, INDEX_WORD.encode()
                if not isinstance(answers[0], ServerUnavailable):
                    answers = [registered(field_texts(answers[0])), *answers[1:]]  # type: ignore[arg-type]
            return all(
                one == two or isinstance(one, ServerUnavailable) for one, two in zip(answers, wanted, strict=True)
            )
        return False

    async def find_generation(self, alone: Alone) -> None:
        """Where a shard has another generation: bring it what is registered, or take over what that is now.

        Else a client that comes new would take one shard, and never see what this one appends to the others. A server
        that has lost a generation may evict: that is asked first. Raises ServerNotUsable; DataError, and writes
        nothing, when others registered the queue meanwhile with another number of shards.
        """
        await self.check(alone)
        await self._find_generation(alone)

    def of_shard(self, keys: ShardKeys) -> ShardSession:
        return ShardSession(self, keys)

    async def ask_generation(self) -> None:
        """For one whose answers others see: as `find_generation`, if a shard has another one."""
        async with self.net.alone() as alone:
            answers = await alone.read([("HGET", keys.policy, "generation") for keys in self._shards])
            if any(one != self.generation.encode() for one in answers):
                await self.find_generation(alone)

    async def _find_generation(self, alone: Alone) -> None:
        known, registers = self._registration, self._is_registered
        search = GenerationSearch(
            self.net, alone, self.options, known=known, registers=registers, restores=self.restores
        )
        found = await search.run()
        if known and not self.restores and (found is None or found.generation != known.generation):
            raise QueueGone
        if found:
            self._learn(found)
        elif known is None:
            self.forget()


class ShardSession:
    """What links ask over which one shard alone is asked: others, and the registry, may be on nodes that are away."""

    def __init__(self, session: Session, keys: ShardKeys) -> None:
        self._session, self._keys, self.check_at = session, keys, 0.0
        self.check, self.find_generation, self.of_shard = session.check, session.find_generation, session.of_shard

    @property
    def generation(self) -> str:
        return self._session.generation

    async def refresh(self, alone: Alone, *, is_new: bool = True) -> None:
        await self._session.refresh(alone, is_new=is_new, only=self._keys)
