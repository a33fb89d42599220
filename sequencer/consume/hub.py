"""The thread that asks the server for all worker slots of a process. It never runs user code.

What slots ask while a round trip is out goes into the next one. A second thread waits for hints while a slot is free.
"""

from __future__ import annotations

import queue as queues
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..calls.claim import Claimed
from ..drain.slots import Question, Slot, Slots, Trip
from ..errors import SequencerError, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import Guide, Link
from ..net.wait import Waiter
from ..settings.backoff import RECONNECT
from ..settings.pace import IDLE_S
from ..store.keys import ShardKeys

if TYPE_CHECKING:
    from .slots import ManySlots

GATHER_S, GATHER_FROM = 0.001, 8
"""Where more slots than this work, a trip sets out this long after the one before: more questions go into it."""
LONGEST_S = 1.0  # the longest sleep of its thread


class Hub:
    """Make it, `start` it, ask; `end` it when all slots are over."""

    def __init__(
        self, endpoint: Endpoint, shards: Sequence[ShardKeys], guide: Guide | None, slots: Slots, owner: ManySlots[Any]
    ) -> None:
        self.lock = threading.Lock()  # guards the slots, and what they hold
        self.link = Link(endpoint, guide)
        self._waiter = Waiter(endpoint, shards, Link(endpoint, guide, only_follows=True), guide)
        self._slots, self._owner, self._events = slots, owner, owner.events
        self._wakes, self._listens = queues.SimpleQueue[None](), queues.SimpleQueue[None]()
        """What wakes the two threads. A signal handler may put into them, whatever it interrupts."""
        self._is_asleep = self._is_listening = self._is_stopping = self._is_over = False
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, name="sequencer-hub", daemon=True),
            threading.Thread(target=self._listen, name="sequencer-waiter", daemon=True),
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
        """Under the lock."""
        if self._is_asleep:
            self._is_asleep = False
            self._wakes.put(None)

    def stop(self) -> None:
        """Waiting slots are answered. Safe in a signal handler: it only leaves a note."""
        self._is_stopping = self._slots.is_ending = True
        self._wakes.put(None)
        self._listens.put(None)

    def end(self, over: Iterable[Slot]) -> None:
        """No slot asks any more. Pending events are logged; groups of those that are over are released."""
        self._is_over = True
        self.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._settle(over)
        for link in (self.link, self._waiter.link, self._waiter.other):
            link.close()
        self._tell()

    def _settle(self, over: Iterable[Slot]) -> None:
        """Also to a server that must not be used any more: what was handled shall not be handled again."""
        self.link.may_check = False
        with self.lock:
            for slot in over:
                slot.held.settle(everything=True)
            sendings = [acks.sending(0, claims_next=None) for acks in self._slots.acks if acks]
        try:
            if calls := [call for sending in sendings for call in sending.calls]:
                self.link.run(calls)
        except SequencerError as error:
            self._events.emit("groups not released", error=str(error))

    # -- the thread that asks -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._ask_until_over()
        except BaseException as error:
            self.error = error
            self.link.close()
            with self.lock:
                answers = self._slots.fail(error)
            self._owner.deliver(answers)
            self._owner.interrupt()  # nobody renews the leases of what runs

    def _ask_until_over(self) -> None:
        troubles, last = 0, 0.0
        while not self._is_over:
            now = time.monotonic()
            with self.lock:
                due_at = self._slots.due_at(now)
                is_crowded = self._slots.busy > GATHER_FROM
                answers = self._slots.answer_waiting() if self._is_stopping else []
                due_at = max(due_at, last + GATHER_S) if is_crowded else due_at
                self._is_asleep = due_at > now and not answers
                self._update_listening()
            self._owner.deliver(answers)
            if answers:
                continue
            if due_at > now:
                if is_crowded and due_at - now <= GATHER_S:
                    time.sleep(due_at - now)
                else:
                    sleep(self._wakes, min(due_at - now, LONGEST_S))
                    continue
            with self.lock:
                trip = self._slots.trip(time.monotonic())
            if trip is None:
                time.sleep(GATHER_S)
                continue
            troubles = 0 if self._carry_out(trip) else troubles + 1
            last = time.monotonic()
            if troubles:
                time.sleep(RECONNECT.delay_s(troubles, 0.5) / 4)

    def _carry_out(self, trip: Trip) -> bool:
        link, calls = self.link, trip.calls
        link.may_check = trip.claims  # a lease is renewed whatever a check would show
        try:
            results = link.run(calls, wait=trip.waits) if calls else []
        except Exception as error:
            with self.lock:
                answers = self._slots.lost(trip, error)
                if not isinstance(error, ServerUnavailable):
                    answers += [(slot, error) for slot, _ in self._slots.answer_waiting()]
            if isinstance(error, ServerUnavailable):
                self._events.unreachable(error)
            self._owner.deliver(answers)
            self._tell()
            return False
        with self.lock:
            repeat, confirmed = bool(calls) and link.is_repeat, link.confirmed if calls else 0
            now = time.monotonic()
            answers = self._slots.answered(trip, results, now, is_repeat=repeat, confirmed=confirmed)
            link.is_idle = not self._slots.busy
            self._update_listening()
        if self._slots.is_spent and not self._is_stopping:
            self._owner.stop()
        self._owner.deliver(answers)
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
                self.link.invalidate()
                self._owner.lost()
                self._events.refused(refusals)
            if halted or outages:
                self._owner.tell(partial(self._events.halted, halted))
                self._owner.tell(partial(self._events.outages, outages))
            for slot in left:
                self._owner.stuck(slot)
        self._events.emitter.tick()

    # -- the thread that waits for hints --------------------------------------------------------------------------

    def _update_listening(self) -> None:
        before, self._is_listening = self._is_listening, self._slots.waits
        if self._is_listening and not before:
            self._listens.put(None)

    def _listen(self) -> None:
        waiter = self._waiter
        while not self._is_stopping:
            if not self._is_listening:
                sleep(self._listens, IDLE_S)
                continue
            try:
                waiter.wait(IDLE_S, lambda: self._is_stopping or not self._is_listening)
            except SequencerError:
                time.sleep(RECONNECT.base_s)
            with self.lock:
                if is_wanted := self._slots.waits:
                    self._slots.hint()
                self._wake()
            if not is_wanted:
                with suppress(SequencerError):
                    waiter.push_back()


def sleep(wakes: queues.SimpleQueue[None], seconds: float) -> None:
    with suppress(queues.Empty):
        wakes.get(timeout=seconds)
