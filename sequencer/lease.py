"""Lease: the lower layer, for your own loop. Nothing runs in the background. Each call is one round
trip; `claim` makes one a shard, and what ends the lease of a probe one more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal

from . import calls
from .calls.claim import LeasedGroup
from .calls.outage import Began
from .calls.settle import Nacked
from .consume.emitter import ConsumerEvents, EventEmitter
from .drain.admission import refusal_of
from .drain.held import Held
from .drain.held_group import HeldGroup, History
from .drain.outcome import Failed, failed_with
from .drain.steps.actions import Unfinished
from .drain.steps.runner import StepRunner
from .errors import InvalidMessage, LeaseLost, Park, Retry, SequencerError, SetAside, Undecodable
from .net.blocking import LinkPool
from .settings.options import ConsumerOptions, QueueOptions
from .store.keys import ShardKeys
from .values.durations import Duration
from .values.message import Message


class Lease:
    """The right to handle some messages, group by group and in order, until it ends or is released.

    Iterating gives what is not acknowledged yet. A message's successor in its group is given only after the message was
    acknowledged; without that, the rest of its group is left for later. Leaving the `with` block releases what was
    not acknowledged; leaving it by an exception counts as a failure of the message given last, with backoff and
    parking like a handler's.
    """

    def __init__(
        self,
        pool: LinkPool,
        keys: ShardKeys,
        queue: QueueOptions,
        options: ConsumerOptions,
        owner: str,
        groups: list[LeasedGroup],
        asked_at: float,
        emitter: EventEmitter,
        history: History | None = None,
    ) -> None:
        self.owner = owner
        self._events = ConsumerEvents(emitter, queue, owner)
        self._pool, self._keys, self._queue, self._options = pool, keys, queue, options
        self._held = [*map(HeldGroup, groups)]
        for group in self._held:
            group.history = history
        self._given: tuple[HeldGroup, Message] | None = None
        self._given_at: dict[str, float] = {}
        """When the last one of each group was given: for a history, its handling began then."""
        self._deadline = asked_at + options.lease_s
        self._is_repeat = False

    @classmethod
    def claim(
        cls,
        pool: LinkPool,
        shards: Sequence[ShardKeys],
        queue: QueueOptions,
        options: ConsumerOptions,
        owner: str,
        emitter: EventEmitter,
        *,
        keeps_history: bool = False,
        only: str = "",
    ) -> Lease:
        """Claim from the first shard that has something due, beginning at a random one; `only`: this group, encoded."""
        history = History(owner) if keeps_history else None
        events = ConsumerEvents(emitter, queue, owner)
        first = random.randrange(len(shards))
        for shard in (*shards[first:], *shards[:first]):
            asked_at = time.monotonic()
            asked = (shard, queue.queue, owner, options.lease_s, options.limits)
            call = calls.claim(*asked, with_failures=True, only=only)
            with pool.lend() as link:
                claimed = link.run_one(call)
            if history:
                history.learn(claimed.now_us, asked_at, time.monotonic())
            events.claimed(claimed)
            if claimed.groups:
                break
        return cls(pool, shard, queue, options, owner, claimed.groups, asked_at, emitter, history)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, LeaseLost) and self._given:
            held, message = self._given
            if held.is_open and _is_next(held, message):
                try:
                    self.nack(message, error)
                except SequencerError as problem:  # the caller's own exception is what matters
                    self._events.emit("failure not recorded", group=list(held.leased.group), error=str(problem))
        try:
            self.release()
        except SequencerError as problem:
            if error is None:
                raise
            self._events.emit("groups not released", error=str(problem))

    def __len__(self) -> int:
        """How many messages were claimed."""
        return sum(len(held.leased.messages) for held in self._held)

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def remaining_s(self) -> float:
        """Seconds until the lease ends by the local clock, counted from before it was requested; negative after."""
        return self._deadline - time.monotonic()

    def __iter__(self) -> Iterator[Message]:
        for held in self._held:
            leased = held.leased
            for position in range(held.done, len(leased.messages)):
                message = leased.messages[position]
                if not held.is_open or held.done != position or self.remaining_s <= 0:
                    break
                if leased.ledgers and leased.ledgers[position] and not self._may_handle(held, position):
                    break
                if refusal := refusal_of(self._queue, leased, position):
                    self._fail(message, refusal)
                    break
                self._given, self._given_at[leased.key] = (held, message), time.monotonic()
                yield message

    def ack(self, message: Message) -> None:
        """The message was handled: remove it. Raises LeaseLost; InvalidMessage for one that is not next."""
        held = self._find(message)
        is_last = held.done + 1 == len(held.leased.messages)
        now = time.monotonic()
        held.times[held.done :] = [(self._given_at.get(held.leased.key, now), now)]
        entry = held.entry(held.done + 1, release=is_last)
        if self._run(calls.ack(self._keys, [entry])).refused:
            self._lost(held)
        held.done += 1
        held.acknowledged(entry)
        held.is_open = not is_last
        if held.leased.is_probe:
            self._end_probe(held, "close")

    def nack(self, message: Message, error: BaseException | str = "", *, after: Duration | None = None) -> None:
        """The message failed: its group waits `after` seconds (default: backoff), or is parked after the last attempt.

        Raises LeaseLost, or InvalidMessage for a message that is not next in its group.
        """
        if after is not None or not isinstance(error, BaseException):
            error = Retry(str(error), after)
        self._fail(message, error)

    def park(self, message: Message, reason: str = "") -> None:
        """Park the group behind this message. Raises as `nack` does."""
        self._fail(message, Park(reason))

    def dead_letter(self, message: Message, reason: str = "") -> None:
        """Make this message a dead letter; its group goes on. Raises as `nack` does."""
        self._fail(message, SetAside(reason))

    def renew(self) -> None:
        """Extend the lease of every group not released, counted from now. Raises LeaseLost if one was lost."""
        leases = [(held.leased.key, held.leased.token) for held in self._held if held.is_open]
        asked_at = time.monotonic()
        if leases:
            refused = self._run(calls.renew(self._keys, leases, self._options.lease_s))
            self._deadline = asked_at + self._options.lease_s
            for held in self._held:
                if (held.leased.key, held.leased.token) in refused:
                    self._lost(held)

    def release(self) -> None:
        """Release every group still held; messages not acknowledged stay in order. Harmless to repeat."""
        given_back = [held for held in self._held if held.is_open]
        for held in given_back:
            held.is_open = False
        self._events.emitter.tick()
        if given_back:
            entries = [calls.Ack(held.leased.key, held.leased.token, [], True) for held in given_back]
            self._run(calls.ack(self._keys, entries))
        for held in given_back:
            if held.leased.is_probe:
                self._end_probe(held, "probe")

    def _find(self, message: Message) -> HeldGroup:
        for held in self._held:
            if _is_next(held, message):
                if not held.is_open:
                    self._lost(held)
                return held
        raise InvalidMessage("not_next", id=message.id, group=message.group)

    def _fail(self, message: Message, problem: BaseException) -> None:
        held = self._find(message)
        one = failed_with(self._queue, message, problem, owner=self.owner, at=time.time(), random=random.random())
        self._record(held, one)

    def _may_handle(self, held: HeldGroup, position: int) -> bool:
        """Whether no step of a message with a ledger is open: a loop of your own runs no steps. Else that is told."""
        clocks = time.monotonic, time.time, random.random
        runner = StepRunner(Held([self._keys], 0.0), self._queue, None, self.owner, *clocks)
        try:
            next(runner.handle(held, position))
        except StopIteration as end:
            if isinstance(end.value, Unfinished):
                self._record(held, runner.failed(end.value, held))
                return False
        return True

    def _record(self, held: HeldGroup, one: Failed) -> None:
        """Tell what a message failed with, and what becomes of it."""
        problem = one.error
        if not one.decision.outage:
            self._events.failed(one)
        if isinstance(problem, Undecodable):
            self._invalidate()
        now = time.monotonic()
        held.tried = self._given_at.get(held.leased.key, now), now
        done: Nacked = self._run(calls.nack(self._keys, entry := held.give_up(one)))
        held.is_open = False
        if one.decision.outage:
            self._events.failed(one.answered(done))
        if done.held and done.held.is_new:
            self._events.outages([Began(done.held, entry.failure)])
        if not done.is_valid:
            self._lost(held)
        if held.leased.is_probe and one.ends_outage:
            self._end_probe(held, "close")

    def _end_probe(self, held: HeldGroup, action: Literal["close", "probe"]) -> None:
        """Say how the probe of an outage went, or that it was not tried."""
        ended = self._run(calls.outage(self._keys, action, held.leased.token))
        if ended.status == "closed":
            self._events.outages([ended])

    def _run(self, call: calls.Call[Any]) -> Any:
        self._is_repeat = False
        with self._pool.lend() as link:
            result = link.run_one(call)
            self._is_repeat = link.is_repeat
        return result

    def _invalidate(self) -> None:
        """What is lost may have been evicted: the server is checked before anything else is sent."""
        with self._pool.lend() as link:
            link.invalidate()

    def _lost(self, held: HeldGroup) -> None:
        held.is_open = False
        if self._is_repeat:
            # The reply was lost and the call repeated: the refusal may be the answer to a success.
            self._events.refused([(held.leased.key, held.leased.token, True)])
            return
        self._invalidate()
        raise LeaseLost(group=held.leased.group, token=held.leased.token)


def _is_next(held: HeldGroup, message: Message) -> bool:
    messages = held.leased.messages
    return held.done < len(messages) and messages[held.done] is message
