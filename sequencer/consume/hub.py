"""The threads that ask the server for all worker slots of a process. They never run user code.

There are two for all shards on one server, or for each shard in a cluster. One makes round trips: what slots ask while
one is out goes into the next one. The other waits for hints.
"""

from __future__ import annotations

import queue as queues
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..calls.claim import Claimed
from ..drain.slots import Answers, Question, Shard, Slot, Slots, Trip
from ..errors import SequencerError, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import Guide, Link
from ..net.wait import Waiter
from ..settings.backoff import RECONNECT
from ..settings.pace import IDLE_S, STOP_CHECK_S
from ..store.keys import ShardKeys

if TYPE_CHECKING:
    from .slots import ManySlots

GATHER_S, GATHER_FROM = 0.001, 8
"""Where more slots than this work, a trip sets out this long after the one before: more questions go into it."""
LONGEST_S = 1.0  # the longest sleep of its thread
AWAY_S = 0.1  # the longest pause before a shard is asked again, while others go on
LISTEN_S = 0.25  # how often each of several threads that wait for hints checks whether it should stop


class Asker:
    """Of shards that are asked over one connection: that and another, and what wakes its threads."""

    def __init__(self, endpoint: Endpoint, guide: Guide | None, shards: Sequence[Shard]) -> None:
        self.shards, self.link = shards, Link(endpoint, guide)
        other, keys = Link(endpoint, guide, only_follows=True), [shard.acks.keys for shard in shards]
        self.waiter = Waiter(endpoint, keys, other, guide)
        self.wakes, self.listens = queues.SimpleQueue[None](), queues.SimpleQueue[None]()
        """A signal handler may put into them, whatever it interrupts."""
        self.is_listening = False
        self.asleep_until = 0.0  # of the thread that asks; 0 while it is awake

    def close(self) -> None:
        for link in (self.link, self.waiter.link, self.waiter.other):
            link.close()


class Hub:
    """Make it, `start` it, ask; `end` it when all slots are over."""

    def __init__(
        self, endpoint: Endpoint, keys: Sequence[ShardKeys], guide: Guide | None, slots: Slots, owner: ManySlots[Any]
    ) -> None:
        self.lock = threading.Lock()  # guards the slots, and what they hold
        self._slots, self._owner, self._events = slots, owner, owner.events
        endpoints, shards = endpoint.of_shards(len(keys)), slots.shards
        if len(endpoints) == 1:
            self._askers = [Asker(endpoint, guide, shards)]
        else:
            guides = [guide and guide.of_shard(its_keys) for its_keys in keys]
            self._askers = [Asker(one, of, [shard]) for one, of, shard in zip(endpoints, guides, shards, strict=True)]
        self._is_lone = len(self._askers) == 1
        self._is_stopping = self._is_over = False
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=run, args=(asker,), name=name, daemon=True)
            for asker in self._askers
            for run, name in ((self._run, "sequencer-hub"), (self._listen, "sequencer-waiter"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether an answer will be delivered."""
        with self.lock:
            if self.error:
                raise self.error
            is_awaited = self._slots.ask(slot, question)
            self._wake()
        return is_awaited

    def begins(self, slot: Slot) -> None:
        with self.lock:
            self._slots.begins(slot)
            self._wake()

    def renew_last(self, slot: Slot, since: float) -> None:
        """The handler that began then is stuck."""
        with self.lock:
            self._slots.stuck(slot, since)
            self._wake()

    def _wake(self) -> None:
        """Under the lock: who has to act before it would wake up."""
        now = time.monotonic()
        shares = self._slots.shares(now)
        for asker in self._askers:
            if asker.asleep_until and self._due_at(asker, now, shares) < asker.asleep_until:
                asker.asleep_until = 0.0
                asker.wakes.put(None)
            before, asker.is_listening = asker.is_listening, any(map(self._slots.listens, asker.shards))
            if asker.is_listening and not before and asker.listens.empty():
                asker.listens.put(None)

    def _due_at(self, asker: Asker, now: float, shares: dict[Shard, int]) -> float:
        return min([self._slots.due_at(shard, now, shares) for shard in asker.shards])

    def invalidate(self) -> None:
        """Something was lost that the server should have."""
        for asker in self._askers:
            asker.link.invalidate()

    def stop(self) -> None:
        """Waiting slots are answered. Safe in a signal handler: it only leaves a note."""
        self._is_stopping = self._slots.is_ending = True
        for asker in self._askers:
            asker.wakes.put(None)
            asker.listens.put(None)

    def end(self, over: Iterable[Slot]) -> None:
        """No slot asks any more. Pending events are logged; groups of those that are over are released."""
        with self.lock:
            for slot in over:
                slot.held.settle(everything=True)
        self._is_over = True
        self.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for asker in self._askers:
            asker.close()
        self._tell()

    def _send_acks(self, asker: Asker) -> None:
        """At the end; also to a server that must not be used any more: what was handled shall not be handled again."""
        all_acks = [shard.acks for shard in asker.shards]
        calls = [call for acks in all_acks if acks for call in acks.sending(0, claims_next=None).calls]
        asker.link.may_check = False
        try:
            if calls:
                asker.link.run(calls)
        except SequencerError as error:
            self._events.emit("groups not released", error=str(error))

    # -- the threads that ask -------------------------------------------------------------------------------------

    def _run(self, asker: Asker) -> None:
        try:
            self._ask_until_over(asker)
        except BaseException as error:
            self.error = error
            asker.link.close()
            with self.lock:
                answers = self._slots.fail(error)
            self._owner.deliver(answers)
            self._owner.interrupt()  # nobody renews the leases of what runs
        while not self._is_over:
            sleep(asker.wakes, LONGEST_S)
        self._send_acks(asker)

    def _ask_until_over(self, asker: Asker) -> None:
        slots, troubles, last = self._slots, 0, 0.0
        while not self._is_over:
            now = time.monotonic()
            with self.lock:
                answers = slots.ready(now)
                due_at = self._due_at(asker, now, slots.shares(now))
                is_crowded = slots.busy > GATHER_FROM
                due_at = max(due_at, last + GATHER_S) if is_crowded else due_at
                asker.asleep_until = min(due_at, now + LONGEST_S) if due_at > now and not answers else 0.0
            self._owner.deliver(answers)
            if answers:
                continue
            if due_at > now:
                if is_crowded and due_at - now <= GATHER_S:
                    time.sleep(due_at - now)
                else:
                    sleep(asker.wakes, min(due_at - now, LONGEST_S))
                    continue
            with self.lock:
                asker.asleep_until, now = 0.0, time.monotonic()
                in_turn = sorted(asker.shards, key=lambda shard: shard.turn(now))
                trips = [(shard, trip) for shard in in_turn if (trip := slots.trip(shard, now))]
            if not trips:
                time.sleep(GATHER_S)
                continue
            troubles = 0 if self._carry_out(asker, trips) else troubles + 1
            last = time.monotonic()
            if troubles:
                pause_s = RECONNECT.delay_s(troubles, 0.5) / 4
                time.sleep(pause_s if self._is_lone else min(pause_s, AWAY_S))

    def _carry_out(self, asker: Asker, trips: Sequence[tuple[Shard, Trip]]) -> bool:
        """All of them in one round trip."""
        link, slots, answers = asker.link, self._slots, Answers()
        calls = [call for _, trip in trips for call in trip.calls]
        waits = [note.wait for _, trip in trips for _, note in trip.notes if note.wait]
        link.may_check = any(trip.claims for _, trip in trips)  # a lease is renewed whatever a check would show
        try:
            results = iter(link.run(calls, wait=max(waits, default=None)) if calls else [])
        except Exception as error:
            with self.lock:
                for shard, _ in trips:
                    answers += slots.lost(shard, error)
                self._wake()
            if isinstance(error, ServerUnavailable):
                self._events.unreachable(error)
            self._owner.deliver(answers)
            self._tell()
            return False
        with self.lock:
            repeat, confirmed = bool(calls) and link.is_repeat, link.confirmed if calls else 0
            now = time.monotonic()
            for shard, trip in trips:
                its_own = [*islice(results, len(trip.calls))]
                answers += slots.answered(shard, its_own, now, is_repeat=repeat, confirmed=confirmed)
            link.is_idle = not slots.busy
            self._wake()  # what it did not bring, others may claim
        if slots.is_spent and not self._is_stopping:
            self._owner.stop()
        self._owner.deliver(answers)
        if not any(shard.is_away for shard in slots.shards):
            self._events.reached()
        self._events.took([group for _, one in answers if isinstance(one, Claimed) for group in one.groups])
        self._tell()
        return True

    def _tell(self) -> None:
        slots = self._slots
        if slots.refusals or slots.halted or slots.outages or slots.left:
            with self.lock:
                refusals, halted, outages, left = slots.take_events()
            if refusals:
                self.invalidate()
                self._owner.lost()
                self._events.refused(refusals)
            if halted or outages:
                self._owner.tell(partial(self._events.halted, halted))
                self._owner.tell(partial(self._events.outages, outages))
            for slot in left:
                self._owner.stuck(slot)
        self._events.emitter.tick()

    # -- the threads that wait for hints --------------------------------------------------------------------------

    def _listen(self, asker: Asker) -> None:
        """A hint that nobody here has a use for is pushed back."""
        waiter, check_s = asker.waiter, STOP_CHECK_S if self._is_lone else LISTEN_S

        def is_over() -> bool:
            return self._is_stopping or (self._is_lone and not asker.is_listening)

        while not self._is_stopping:
            if not asker.is_listening:
                sleep(asker.listens, IDLE_S)
                continue
            try:
                waiter.wait(IDLE_S, is_over, check_s=check_s)
                hinted = [] if waiter.hinted is None else [asker.shards[waiter.hinted]]
            except SequencerError:  # a hint may be lost with it; once a claim was answered, hints are waited for again
                time.sleep(RECONNECT.base_s)
                hinted = [*asker.shards]
            with self.lock:
                kept = [shard for shard in hinted if self._slots.hinted(shard, time.monotonic())]
                self._wake()
            if not kept:
                with suppress(SequencerError):
                    waiter.push_back()


def sleep(wakes: queues.SimpleQueue[None], seconds: float) -> None:
    with suppress(queues.Empty):
        wakes.get(timeout=seconds)
