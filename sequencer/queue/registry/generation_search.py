"""Finds the generation of a queue, and makes registry and shards agree on it.

    what is there                             what a client does that uses the queue
    -------------                             --------------------------------------
    a registration                            brings it to each shard that is behind; one that is ahead is written back
    none, but shard 0 has a copy               registers the copy
    nothing, and it knew the queue            registers it again: same shards, same policy, a new generation number; a
    WARNING.
                                              One that only watches takes it as deleted
    nothing but the clock of shard 0           refuses: it can't know how many shards hold messages
    nothing at all                            registers it
    one that is being deleted                 waits

Each step is a script that compares. Where another client's came between, all is read again, ROUNDS times at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...calls.call import Call
from ...calls.net_protocol import Alone, Net
from ...calls.operate import wake
from ...calls.register import Step, SyncedShard, register, sync_shard, woken
from ...errors import ConfigurationError, DataError, ServerNotUsable, ServerUnavailable
from ...settings.body_fields import BODY_FIELDS, BodyFields, merge_fields, read_fields, write_fields
from ...settings.options import QueueOptions
from ...settings.policy import merge_policy, read_policy
from ...store.keys import ShardKeys, index_key, registry_key, shard_keys
from ...store.registration import INDEX_WORD, Registration, of_shard, plain_tags, registered
from ...store.replies import Reading, field_texts, micros, pairs, text
from ...texts.events import Event, event, log_event
from ...values.checks import near_name
from ..pages import scan
from .index import write_index

ROUNDS = 12
PAUSE_S = 0.02
"""Before the second round; before each later one so much more: 1.3 s in all."""


class QueueSeen(NamedTuple):
    """What a look at a queue has found."""

    there: Registration | None
    shard: dict[str, str]
    """The policy of shard 0."""
    has_clock: bool
    word: bytes | None
    """What the index says."""


async def look_at(alone: Alone, options: QueueOptions) -> QueueSeen:
    """In one round trip. Raises SequencerError."""
    shard = shard_keys(options.namespace, options.queue, 0)
    registry, policy, clock, known = await alone.answers(
        [
            ("HGETALL", registry_key(options.namespace, options.queue)),
            ("HGETALL", shard.policy),
            ("EXISTS", shard.clock),
            ("HGET", index_key(options.namespace), options.queue),
        ]
    )
    for answer in (registry, policy, clock):
        if isinstance(answer, Exception):
            raise answer
    with Reading(alone.name):
        there = registered(field_texts(registry))
        return QueueSeen(there, field_texts(policy), bool(clock), None if isinstance(known, Exception) else known)


class GenerationSearch:
    """One search on one connection."""

    def __init__(
        self,
        net: Net,
        alone: Alone,
        options: QueueOptions,
        *,
        known: Registration | None = None,
        asked: Mapping[str, Any] | None = None,
        fields: BodyFields | None = None,
        registers: bool = False,
        restores: bool = True,
    ) -> None:
        """`known`: what this client used so far; `asked`: the policy to set, `fields`: names of body fields;
        `registers`: whether it uses the queue; `restores`: whether it registers again what is gone.
        """
        self.net, self.alone, self._options = net, alone, options
        self._known, self._asked, self._registers = known, asked or {}, registers
        self._fields, self._restores = fields or BodyFields(), restores
        self._registry = registry_key(options.namespace, options.queue)
        self._told: Event | None = None
        self._is_new = False

    async def run(self) -> Registration | None:
        """What is registered, and in all shards; None where nothing is, and nothing may be.

        Raises ConfigurationError, DataError; after ROUNDS ServerUnavailable, or ServerNotUsable during a deletion.
        """
        options, seen = self._options, None
        for number in range(ROUNDS):
            if number:
                await self.net.sleep(PAUSE_S * number)
            seen = await look_at(self.alone, options)
            is_settled, found = await self._try(seen)
            if is_settled:
                if self._told:
                    log_event(self._told)
                return found
        if seen and seen.there and seen.there.is_deleted:
            raise ServerNotUsable("queue_being_deleted", queue=options.queue, namespace=options.namespace)
        raise ServerUnavailable("queue_contended", queue=options.queue)

    async def _try(self, seen: QueueSeen) -> tuple[bool, Registration | None]:
        """Whether registry and shards agree by now, and on what."""
        there = seen.there
        if there is None:
            return await self._without_registry(seen)
        with Reading(self.alone.name):
            copy = of_shard(seen.shard)
        copies = [one for one in (self._known, copy) if one and one.age > there.age]
        if copies and (self._registers or self._known):  # the registry has older data than it had
            await self._register(there, max(copies, key=lambda one: one.age))
            return False, None
        if there.is_deleted:
            return False, None
        if copy and not copy.is_deleted and copy.tags != there.tags:
            await self._keep_table(there, copy)
            return False, None
        self._check_shards(len(there.tags))
        wanted = self._merged(there)
        if wanted != there.policy:
            changed = there.changed(wanted)
            if await self._register(there, changed) == changed:
                self._log_changes(read_policy(there.policy), read_policy(wanted))
            return False, None
        if (self._registers or self._known) and not await self._bring_to_shards(there):
            return False, None
        await self._index(seen)
        return True, there

    async def _without_registry(self, seen: QueueSeen) -> tuple[bool, Registration | None]:
        options, known = self._options, self._known
        with Reading(self.alone.name):
            copy = of_shard(seen.shard)
        if copy and not copy.is_deleted:
            if not (self._registers or known):
                return True, copy
            self._told = event("queue restored", options.queue, shards=len(copy.tags), from_shard=True)
            await self._register(None, copy)
            return False, None
        if known and not self._restores:
            return True, None
        least = copy.generation_number if copy else 0
        if known:
            self._told = event("queue restored", options.queue, shards=len(known.tags), from_shard=False)
            await self._register(
                None, replace(known, generation_number=max(known.generation_number, least)), is_new=True
            )
            return False, None
        if not self._registers:
            return True, None
        if seen.has_clock:
            raise DataError("registration_lost", queue=options.queue, namespace=options.namespace)
        new = Registration(least, 0, plain_tags(options.shards or 1), {})
        new = replace(new, policy=self._merged(new))
        await self._register(None, new, is_new=True)
        self._is_new = True
        return False, None

    def _check_shards(self, shards: int) -> None:
        """Raises DataError where this client used another number of shards, ConfigurationError where it asks for
        one.
        """
        options, known = self._options, self._known
        if known and self._restores and len(known.tags) != shards:
            raise DataError("shards_changed", queue=options.queue, before=len(known.tags), now=shards)
        if options.shards not in (None, shards):
            raise ConfigurationError("other_shards", queue=options.queue, shards=shards, asked=options.shards)

    def _merged(self, there: Registration) -> Mapping[str, str]:
        """The policy and the body fields, with what is asked for. Raises ConfigurationError."""
        stored = there.policy
        if not self._asked and not any(self._fields) and stored:
            return stored
        with Reading(self.alone.name):
            wanted = merge_policy(self._options.queue, stored, self._asked).stored(stored)
            known, text = read_fields(stored.get(BODY_FIELDS)), stored.get(BODY_FIELDS)
        found = merge_fields(self._options.queue, known, self._fields)
        if found != known:
            text = write_fields(found, text)
        return {**wanted, BODY_FIELDS: text} if text else wanted

    async def _bring_to_shards(self, there: Registration) -> bool:
        """Whether all shards have it by now."""
        shards = [self._keys(tag) for tag in there.tags]
        # The first shard first: where it keeps its own table, no other shard has got this one.
        return await self._bring(there, shards[:1]) and (len(shards) == 1 or await self._bring(there, shards[1:]))

    async def _bring(self, there: Registration, shards: list[ShardKeys]) -> bool:
        synced: list[SyncedShard] = await self._ask([sync_shard(keys, there) for keys in shards])
        for one in synced:
            if one.status == "other":
                with Reading(self.alone.name):
                    own = of_shard(one.fields)
                if own:
                    await self._keep_table(there, own)
                return False
            if one.status == "newer":  # the registry was lost, and came back older
                with Reading(self.alone.name):
                    theirs = of_shard(one.fields)
                if theirs:
                    await self._register(there, theirs)
                return False
        put = [
            (keys, one.fields["pending"]) for keys, one in zip(shards, synced, strict=True) if one.status == "pending"
        ]
        if put:
            # Between the look at the registry and this, the queue may have been deleted: only what is still registered
            # is confirmed.
            (reply,) = await self.alone.read([("HGETALL", self._registry)])
            with Reading(self.alone.name):
                is_still = registered(field_texts(reply)) == there
            step: Step = "confirm" if is_still else "remove"
            done: list[SyncedShard] = await self._ask(
                [sync_shard(keys, there, step, pending=mine) for keys, mine in put]
            )
            if any(one.status not in ("taken", "same") for one in done):
                return False
        for keys, one in zip(shards, synced, strict=True):
            if mark := one.fields.get("again"):
                await wake_deferred_groups(self.alone, keys, there.generation, mark)
        return True

    async def _keep_table(self, there: Registration, own: Registration) -> None:
        """The first shard has messages by another table: someone registered while nothing else showed that it has."""
        await self._register(
            there, replace(own, generation_number=max(own.generation_number, there.generation_number)), is_new=True
        )

    async def _index(self, seen: QueueSeen) -> None:
        """The index comes last."""
        if self._registers and seen.word != INDEX_WORD.encode():
            options = self._options
            names = await write_index(self.alone, options, is_new=self._is_new)
            if self._is_new:
                near = near_name(options.queue, names)
                self._told = event("queue created", options.queue, namespace=options.namespace, near=near)

    def _log_changes(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Each option that was asked for, and was another before."""
        for name in self._asked:
            if name in before and before[name] != now[name]:
                changed = event("policy changed", self._options.queue, policy=name, before=before[name], now=now[name])
                log_event(changed)

    async def _register(
        self, seen: Registration | None, wanted: Registration, *, is_new: bool = False
    ) -> Registration | None:
        (now,) = await self._ask([register(self._registry, seen, wanted, is_new=is_new)])
        there: Registration | None = now
        return there

    async def _ask(self, calls: list[Call[Any]]) -> list[Any]:
        return await ask(self.alone, calls)

    def _keys(self, tag: str) -> ShardKeys:
        return shard_keys(self._options.namespace, self._options.queue, tag)


PAGE = 200
"""Names read, and groups looked at again, in one round trip."""


async def ask(alone: Alone, calls: Sequence[Call[Any]], generation: str = "") -> list[Any]:
    """What these calls answer, on one connection."""
    replies = await alone.read([call.eval_command(generation) for call in calls]) if calls else []
    with Reading(alone.name):
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]


async def wake_deferred_groups(alone: Alone, keys: ShardKeys, generation: str, mark: str) -> None:
    """Let claims decide again on groups that were deferred: each of them once; then `again` goes, if it is this mark.

    Whoever sees the mark does it: who changed the policy may be gone.
    """
    (moment,) = await alone.read([("TIME",)])
    with Reading(alone.name):
        now_us = micros(moment)
    names: dict[str, None] = {}
    async for words in scan(alone, "ZSCAN", keys.schedule, count=PAGE):
        with Reading(alone.name):
            for word, at in pairs(words):
                if float(at) > now_us:  # paused ones too: the script leaves them as they are
                    names[text(word)] = None
    calls = [wake(keys, one) for one in names]
    for start in range(0, len(calls), PAGE):
        await ask(alone, calls[start : start + PAGE], generation)
    await ask(alone, [woken(keys, mark)])
