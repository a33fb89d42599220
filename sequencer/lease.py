"""Lease and AsyncLease: the lower layer, for your own loop. Nothing runs in the background. Each call is one round
trip; `claim` makes one a shard, and what ends the lease of a probe one more. What a call decides is written once, over
a net.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from typing import Literal

from . import calls
from .calls.outage import Began
from .calls.settle import Nacked
from .consume.emitter import ConsumerEvents, EventEmitter
from .consume.forks import owner_name
from .drain.held import Held
from .drain.held_group import HeldGroup, History
from .drain.outcome import Failed, failed_with, refusal_of
from .drain.steps.actions import Unfinished
from .drain.steps.runner import StepRunner
from .errors import InvalidMessage, LeaseLost, Park, Retry, SequencerError, SetAside, Undecodable
from .net.faces import Awaited, Blocking, Listing, operation
from .net.link import INVALIDATED, finish
from .queue.session import Session
from .settings.options import ConsumerOptions
from .store.group import encode_group, shard_of
from .store.item import Group
from .store.keys import ShardKeys
from .values.durations import Duration
from .values.message import Message


class LeaseSession:
    """The groups of a lease, and what its calls do."""

    def __init__(
        self, session: Session, keys: ShardKeys, options: ConsumerOptions, owner: str, emitter: EventEmitter
    ) -> None:
        self._session, self._net, self._queue = session, session.net, session.options
        self._keys, self._options, self.owner = keys, options, owner
        self._events = ConsumerEvents(emitter, session.options, owner)
        self.held: list[HeldGroup] = []
        self.deadline = 0.0
        self._given: tuple[HeldGroup, Message] | None = None
        self._given_at: dict[str, float] = {}
        """When the last one of each group was given: for a history, its handling began then."""

    @classmethod
    async def claim(
        cls, session: Session, options: ConsumerOptions, emitter: EventEmitter, group: Group | None
    ) -> LeaseSession:
        """Claim from the first shard that has something due, beginning at a random one; or this `group`."""
        only = "" if group is None else encode_group(group)
        shards = await session.shards("consume")
        first = shard_of(only, len(shards)) if only else random.randrange(len(shards))
        owner = owner_name()
        for shard in [shards[first]] if only else [*shards[first:], *shards[:first]]:
            one = cls(session, shard, options, owner, emitter)
            if await one._claim(only):
                break
        return one

    async def _claim(self, only: str) -> bool:
        asked_at = time.monotonic()
        asked = self._keys, self._queue.queue, self.owner, self._options.lease_s, self._options.limits
        claimed = (await self._net.ask(calls.claim(*asked, with_failures=True, only=only))).value
        self._events.claimed(claimed)
        self.held, self.deadline = [*map(HeldGroup, claimed.groups)], asked_at + self._options.lease_s
        if self._session.keeps_history():
            history = History(self.owner)
            history.learn(claimed.now_us, asked_at, time.monotonic())
            for held in self.held:
                held.history = history
        return bool(self.held)

    async def end(self, error: BaseException | None) -> None:
        """The end of a `with` block, by an error or without."""
        if isinstance(error, Exception) and not isinstance(error, LeaseLost) and self._given:
            held, message = self._given
            if held.is_open and _is_next(held, message):
                try:
                    await self.nack(message, error)
                except SequencerError as problem:  # the caller's own exception is what matters
                    self._events.emit("failure not recorded", group=list(held.leased.group), error=str(problem))
        try:
            await self.release()
        except SequencerError as problem:
            if error is None:
                raise
            self._events.emit("groups not released", error=str(problem))

    async def messages(self) -> AsyncIterator[Message]:
        """What is not acknowledged yet."""
        for held in self.held:
            leased = held.leased
            for position in range(held.done, len(leased.messages)):
                message = leased.messages[position]
                if not held.is_open or held.done != position or self.deadline <= time.monotonic():
                    break
                if leased.ledgers and leased.ledgers[position] and not await self._may_handle(held, position):
                    break
                if refusal := refusal_of(self._queue, leased, position):
                    await self._fail(message, refusal)
                    break
                self._given, self._given_at[leased.key] = (held, message), time.monotonic()
                yield message

    async def ack(self, message: Message) -> None:
        """The message was handled: remove it. Raises LeaseLost; InvalidMessage for one that is not next."""
        held = self._find(message)
        is_last = held.done + 1 == len(held.leased.messages)
        now = time.monotonic()
        held.times[held.done :] = [(self._given_at.get(held.leased.key, now), now)]
        entry = held.entry(held.done + 1, release=is_last)
        acked = await self._net.ask(calls.ack(self._keys, [entry]))
        if acked.value.refused:
            self._lost(held, is_repeat=acked.is_repeat)
        held.done += 1
        held.acknowledged(entry)
        held.is_open = not is_last
        if held.leased.is_probe:
            await self._end_probe(held, "close")

    async def nack(self, message: Message, error: BaseException | str = "", *, after: Duration | None = None) -> None:
        """The message failed: its group waits `after` seconds (default: backoff), or is parked after the last attempt.

        Raises LeaseLost, or InvalidMessage for a message that is not next in its group.
        """
        if after is not None or not isinstance(error, BaseException):
            error = Retry(str(error), after)
        await self._fail(message, error)

    async def park(self, message: Message, reason: str = "") -> None:
        """Park the group behind this message. Raises as `nack` does."""
        await self._fail(message, Park(reason))

    async def dead_letter(self, message: Message, reason: str = "") -> None:
        """Make this message a dead letter; its group goes on. Raises as `nack` does."""
        await self._fail(message, SetAside(reason))

    async def renew(self) -> None:
        """Extend the lease of every group not released, counted from now. Raises LeaseLost if one was lost."""
        leases = [(held.leased.key, held.leased.token) for held in self.held if held.is_open]
        asked_at = time.monotonic()
        if leases:
            renewed = await self._net.ask(calls.renew(self._keys, leases, self._options.lease_s))
            self.deadline = asked_at + self._options.lease_s
            for held in self.held:
                if (held.leased.key, held.leased.token) in renewed.value:
                    self._lost(held, is_repeat=renewed.is_repeat)

    async def release(self) -> None:
        """Release every group still held; messages not acknowledged stay in order. Harmless to repeat."""
        given_back = [held for held in self.held if held.is_open]
        for held in given_back:
            held.is_open = False
        self._events.emitter.tick()
        if given_back:
            entries = [calls.Ack(held.leased.key, held.leased.token, [], True) for held in given_back]
            await self._net.ask(calls.ack(self._keys, entries))
        for held in given_back:
            if held.leased.is_probe:
                await self._end_probe(held, "probe")

    def _find(self, message: Message) -> HeldGroup:
        for held in self.held:
            if _is_next(held, message):
                if not held.is_open:
                    self._lost(held, is_repeat=False)
                return held
        raise InvalidMessage("not_next", id=message.id, group=message.group)

    async def _fail(self, message: Message, problem: BaseException) -> None:
        held = self._find(message)
        one = failed_with(self._queue, message, problem, owner=self.owner, at=time.time(), random=random.random())
        await self._record(held, one)

    async def _may_handle(self, held: HeldGroup, position: int) -> bool:
        """Whether no step of a message with a ledger is open: a loop of your own runs no steps. Else it is logged."""
        clocks = time.monotonic, time.time, random.random
        runner = StepRunner(Held([self._keys], 0.0), self._queue, None, self.owner, *clocks)
        try:
            next(runner.handle(held, position))
        except StopIteration as end:
            if isinstance(end.value, Unfinished):
                await self._record(held, runner.failed(end.value, held))
                return False
        return True

    async def _record(self, held: HeldGroup, one: Failed) -> None:
        """Tell what a message failed with, and what becomes of it."""
        problem = one.error
        if not one.decision.outage:
            self._events.failed(one)
        if isinstance(problem, Undecodable):
            self._invalidate()
        now = time.monotonic()
        held.tried = self._given_at.get(held.leased.key, now), now
        answer = await self._net.ask(calls.nack(self._keys, entry := held.give_up(one)))
        done: Nacked = answer.value
        held.is_open = False
        if one.decision.outage:
            self._events.failed(one.answered(done))
        if done.held and done.held.is_new:
            self._events.outages([Began(done.held, entry.failure)])
        if not done.is_valid:
            self._lost(held, is_repeat=answer.is_repeat)
        if held.leased.is_probe and one.ends_outage:
            await self._end_probe(held, "close")

    async def _end_probe(self, held: HeldGroup, action: Literal["close", "probe"]) -> None:
        """Say how the probe of an outage went, or that it was not tried."""
        ended = (await self._net.ask(calls.outage(self._keys, action, held.leased.token))).value
        if ended.status == "closed":
            self._events.outages([ended])

    def _invalidate(self) -> None:
        """What is lost may have been evicted: the server is checked before anything else is sent."""
        self._session.check_at = INVALIDATED

    def _lost(self, held: HeldGroup, *, is_repeat: bool) -> None:
        held.is_open = False
        if is_repeat:
            # The reply was lost and the call repeated: the refusal may be the answer to a success.
            self._events.refused([(held.leased.key, held.leased.token, True)])
            return
        self._invalidate()
        raise LeaseLost(group=held.leased.group, token=held.leased.token)


class _Lease:
    def __init__(self, groups: LeaseSession) -> None:
        self._session, self.owner = groups, groups.owner

    def __len__(self) -> int:
        """How many messages were claimed."""
        return sum(len(held.leased.messages) for held in self._session.held)

    def __bool__(self) -> bool:
        return bool(self._session.held)

    @property
    def remaining_s(self) -> float:
        """Seconds until the lease ends by the local clock, counted from before it was requested; negative after."""
        return self._session.deadline - time.monotonic()

    ack = operation(LeaseSession.ack)
    nack = operation(LeaseSession.nack)
    park = operation(LeaseSession.park)
    dead_letter = operation(LeaseSession.dead_letter)
    renew = operation(LeaseSession.renew)
    release = operation(LeaseSession.release)


class Lease(_Lease, Blocking):
    """The right to handle some messages, group by group and in order, until it ends or is released.

    Iterating gives what is not acknowledged yet. A message's successor in its group is given only after the message was
    acknowledged; without that, the rest of its group is left for later. Leaving the `with` block releases what was
    not acknowledged; leaving it by an exception counts as a failure of the message given last, with backoff and
    parking like a handler's.
    """

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        finish(self._session.end(error))

    def __iter__(self) -> Listing[Message]:
        return Listing(self._session.messages())


class AsyncLease(_Lease, Awaited):
    """As Lease, for an event loop; every method is awaited.

    Use it as `async with await seq.claim() as lease: async for message in lease: ...; await lease.ack(message)`.
    A call that is cancelled may have been carried out. Leaving the block by a cancellation releases what was not
    acknowledged, and counts as no failure.
    """

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self._session.end(error)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._session.messages()


def _is_next(held: HeldGroup, message: Message) -> bool:
    messages = held.leased.messages
    return held.done < len(messages) and messages[held.done] is message
