"""Finds the generation of a queue, and makes registry and shards agree on it.

    what is there                             what a client does that uses the queue
    -------------                             --------------------------------------
    a registration                            brings it to each shard that is older; one that is newer is written back
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
from dataclasses import dataclass, replace
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
from ...store.registration import INDEX_WORD, Registration, new_tags, of_shard, registered
from ...store.replies import Reading, field_texts, micros, scored, text
from ...texts.events import Event, event, log_event
from ...values.checks import near_name
from ..pages import batches, read, scan
from .index import write_index

ROUNDS = 12
PAUSE_S = 0.02
"""Before the second round; before each later one so much more: 1.3 s in all."""


class QueueSeen(NamedTuple):
    there: Registration | None
    copy: Registration | None
    """That of shard 0."""
    has_clock: bool
    word: bytes | None
    """What the index says."""


async def look_at(alone: Alone, options: QueueOptions, *, only_reads: bool = False) -> QueueSeen:
    """In one round trip. To who only reads, either one that can be reached is enough. Raises SequencerError."""
    shard = shard_keys(options.namespace, options.queue, 0)
    *found, word = await alone.answers(
        [
            ("HGETALL", registry_key(options.namespace, options.queue)),
            ("HGETALL", shard.policy),
            ("EXISTS", shard.clock),
            ("HGET", index_key(options.namespace), options.queue),
        ]
    )
    errors = [one for one in found if isinstance(one, Exception)]
    registry, policy, clock = ([] if isinstance(one, ServerUnavailable) and only_reads else one for one in found)
    for answer in (registry, policy, clock):
        if isinstance(answer, Exception):
            raise answer
    with Reading(alone.name):
        there, copy = registered(field_texts(registry)), of_shard(field_texts(policy))
    if errors and not (there or copy):
        raise errors[0]
    return QueueSeen(there, copy, bool(clock), None if isinstance(word, Exception) else word)


@dataclass(slots=True)
class GenerationSearch:
    net: Net
    alone: Alone
    options: QueueOptions
    known: Registration | None = None
    """What this client used so far."""
    asked: Mapping[str, Any] | None = None
    """The policy to set; with one, `options` name body fields, too."""
    registers: bool = False
    """Whether it uses the queue."""
    restores: bool = True
    """Whether it registers again what is gone."""
    _logged: Event | None = None
    _is_new: bool = False

    @property
    def _uses(self) -> bool:
        return self.registers or self.known is not None

    @property
    def _registry(self) -> str:
        return registry_key(self.options.namespace, self.options.queue)

    async def run(self) -> Registration | None:
        """What is registered, and in all shards; None where nothing is, and nothing may be. Raises ConfigurationError,
        DataError; after ROUNDS ServerUnavailable, or ServerNotUsable during a deletion.
        """
        options, seen = self.options, None
        for number in range(ROUNDS):
            if number:
                await self.net.sleep(PAUSE_S * number)
            seen = await look_at(self.alone, options, only_reads=not self._uses)
            if await self._is_settled(seen):
                if self._logged:
                    log_event(self._logged)
                copy = None if self._uses or (seen.copy and seen.copy.is_deleted) else seen.copy
                return seen.there or copy
        if seen and seen.there and seen.there.is_deleted:
            raise ServerNotUsable("queue_being_deleted", queue=options.queue, namespace=options.namespace)
        raise ServerUnavailable("queue_contended", queue=options.queue)

    async def _is_settled(self, seen: QueueSeen) -> bool:
        there, copy = seen.there, seen.copy
        if there is None:
            return await self._is_unregistered(seen)
        copies = [one for one in (self.known, copy) if one and one.age > there.age]
        if copies and self._uses:  # the registry has older data than it had
            await self._register(there, max(copies, key=lambda one: one.age))
            return False
        if there.is_deleted:
            return False
        if copy and not copy.is_deleted and copy.tags != there.tags:
            await self._keep_table(there, copy)
            return False
        self._check_shards(len(there.tags))
        wanted = self._merged(there)
        if wanted != there.policy:
            changed = there.changed(wanted)
            if await self._register(there, changed) == changed:
                self._log_changes(read_policy(there.policy), read_policy(wanted))
            return False
        if self._uses and not await self._bring_to_shards(there):
            return False
        await self._index(seen)
        return True

    async def _is_unregistered(self, seen: QueueSeen) -> bool:
        """Whether it stays so: nothing is registered, or what shard 0 has is only looked at."""
        options, known, copy = self.options, self.known, seen.copy
        if not self._uses or (known and not self.restores and (copy is None or copy.is_deleted)):
            return True
        if copy and not copy.is_deleted:
            self._logged = event("queue restored", options.queue, shards=len(copy.tags), from_shard=True)
            await self._register(None, copy)
            return False
        least = copy.generation_number if copy else 0
        if known:
            self._logged = event("queue restored", options.queue, shards=len(known.tags), from_shard=False)
            wanted = replace(known, generation_number=max(known.generation_number, least))
        elif seen.has_clock:
            raise DataError("registration_lost", queue=options.queue, namespace=options.namespace)
        else:
            wanted = Registration(least, 0, new_tags(options, is_cluster=self.net.is_cluster), {})
            wanted, self._is_new = replace(wanted, policy=self._merged(wanted)), True
        await self._register(None, wanted, is_new=True)
        return False

    def _check_shards(self, shards: int) -> None:
        """Raises DataError where this client used another number, ConfigurationError where it asks for one."""
        options, known = self.options, self.known
        if known and self.restores and len(known.tags) != shards:
            raise DataError("shards_changed", queue=options.queue, before=len(known.tags), now=shards)
        if options.shards not in (None, shards):
            raise ConfigurationError(
                "option_fixed", queue=options.queue, name="shards", before=shards, value=options.shards
            )

    def _merged(self, there: Registration) -> Mapping[str, str]:
        stored, fields = there.policy, BodyFields() if self.asked is None else self.options.fields
        if not self.asked and not any(fields) and stored:
            return stored
        with Reading(self.alone.name):
            wanted = merge_policy(self.options.queue, stored, self.asked or {}).stored()
            known, text = read_fields(stored.get(BODY_FIELDS)), stored.get(BODY_FIELDS)
        found = merge_fields(self.options.queue, known, fields)
        if found != known:
            text = write_fields(found, text)
        return {**wanted, BODY_FIELDS: text} if text else wanted

    async def _bring_to_shards(self, there: Registration) -> bool:
        shards = there.keys(self.options)
        # The first shard first: where it keeps its own table, no other shard has got this one.
        return await self._bring(there, shards[:1]) and (len(shards) == 1 or await self._bring(there, shards[1:]))

    async def _bring(self, there: Registration, shards: list[ShardKeys]) -> bool:
        synced: list[SyncedShard] = await ask(self.alone, [sync_shard(keys, there) for keys in shards])
        for one in synced:
            if one.status in ("other", "newer"):
                with Reading(self.alone.name):
                    own = of_shard(one.fields)
                if own and one.status == "other":
                    await self._keep_table(there, own)
                elif own:  # the registry was lost, and came back older
                    await self._register(there, own)
                return False
        # Between reading the registry and this, the queue may have been deleted: only what is still registered is
        # confirmed.
        if any(one.status == "pending" for one in synced):
            now = await read(self.alone, lambda words: registered(field_texts(words)), ("HGETALL", self._registry))
            done = await answer_pending(self.alone, there, shards, synced, "confirm" if now == there else "remove")
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
        if self.registers and seen.word != INDEX_WORD.encode():
            options = self.options
            names = await write_index(self.alone, options, is_new=self._is_new)
            if self._is_new:
                near = near_name(options.queue, names)
                self._logged = event("queue created", options.queue, namespace=options.namespace, near=near)

    def _log_changes(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for name in self.asked or ():
            if name in before and before[name] != now[name]:
                changed = event("policy changed", self.options.queue, policy=name, before=before[name], now=now[name])
                log_event(changed)

    async def _register(
        self, seen: Registration | None, wanted: Registration, *, is_new: bool = False
    ) -> Registration | None:
        there: Registration | None
        (there,) = await ask(self.alone, [register(self._registry, seen, wanted, is_new=is_new)])
        return there


PAGE = 200
"""Names read, and groups checked again, in one round trip."""


async def ask(alone: Alone, calls: Sequence[Call[Any]], generation: str = "") -> list[Any]:
    """What these calls answer, on one connection."""
    replies = await alone.read([call.eval_command(generation) for call in calls]) if calls else []
    with Reading(alone.name):
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]


async def answer_pending(
    alone: Alone, there: Registration, shards: list[ShardKeys], synced: list[SyncedShard], step: Step
) -> list[SyncedShard]:
    """Confirm or remove what was put into shards that had no policy."""
    put = [(keys, one) for keys, one in zip(shards, synced, strict=True) if one.status == "pending"]
    return await ask(alone, [sync_shard(keys, there, step, pending=one.fields["pending"]) for keys, one in put])


async def wake_deferred_groups(alone: Alone, keys: ShardKeys, generation: str, mark: str) -> None:
    """Let claims decide again on deferred groups, once each; the claim that sees the mark does it, and removes it."""
    now_us = await read(alone, micros, ("TIME",))
    names: dict[str, None] = {}
    async for words in scan(alone, "ZSCAN", keys.schedule, count=PAGE):
        with Reading(alone.name):
            # Paused ones too: the script leaves them as they are.
            names.update((text(word), None) for word, at in scored(words) if at > now_us)
    for some in batches([*names], PAGE):
        await ask(alone, [wake(keys, one) for one in some], generation)
    await ask(alone, [woken(keys, mark)])
