"""The thread that asks the server for all worker slots of a process. It never runs user code.

What slots ask while a round trip is out goes into the next one. A second thread waits for hints while a slot is free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..drain.slots import Answers, Question, Slot, Slots, Trip
from ..errors import SequencerError, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import Guide, Link
from ..net.wait import Waiter
from ..settings.backoff import RECONNECT
from ..settings.pace import IDLE_S
from ..store.keys import ShardKeys
from .emitter import ConsumerEvents

GATHER_S, GATHER_FROM = 0.001, 8
"""Where more slots than this work, a trip sets out this long after the one before: more questions go into it."""
LONGEST_S = 1.0
"""It looks about itself at least so often."""


class Hub:
    """Make it, `start` it, ask; `end` it when all slots are over."""

    def __init__(
        self,
        endpoint: Endpoint,
        shards: Sequence[ShardKeys],
        guide: Guide | None,
        slots: Slots,
        events: ConsumerEvents,
        deliver: Callable[[Answers], None],
    ) -> None:
        """`deliver`: resumes slots with their answers; called by this thread, and must not wait for them."""
        self.lock = threading.Lock()
        """Guards the slots, and what they hold."""
        self.link = Link(endpoint, guide)
        self._waiter = Waiter(endpoint, shards, Link(endpoint, guide, only_follows=True), guide)
        self._slots, self._events, self._deliver = slots, events, deliver
        self._asked, self._listens = threading.Event(), threading.Event()
        self._is_stopping = self._is_over = False
        self.error: BaseException | None = None
        """What ended its thread."""
        self._threads = [
            threading.Thread(target=self._run, name="sequencer-hub", daemon=True),
            threading.Thread(target=self._listen, name="sequencer-waiter", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether an answer will be delivered."""
        if self.error:
            raise self.error
        with self.lock:
            is_awaited = self._slots.ask(slot, question)
        self._asked.set()
        return is_awaited

    def begins(self, slot: Slot) -> None:
        """A handler of this slot begins."""
        with self.lock:
            self._slots.begins(slot)
        self._asked.set()

    def stop(self) -> None:
        """Waiting slots are answered. Safe in a signal handler: it only leaves a note."""
        self._is_stopping = True
        self._asked.set()
        self._listens.set()

    def end(self) -> None:
        """All slots are over."""
        self._is_over = True
        self.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for link in (self.link, self._waiter.link):
            link.close()
        self._tell()

    # -- the thread that asks -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._ask_until_over()
        except BaseException as error:
            self.error = error
            with self.lock:
                answers = self._slots.fail(error)
            self._deliver(answers)

    def _ask_until_over(self) -> None:
        troubles, last = 0, 0.0
        while not self._is_over:
            self._asked.clear()
            now = time.monotonic()
            with self.lock:
                due_at = self._slots.due_at(now)
                is_crowded = self._slots.busy > GATHER_FROM
                answers = self._slots.answer_waiting() if self._is_stopping else []
            self._deliver(answers)
            due_at = max(due_at, last + GATHER_S) if is_crowded else due_at
            if due_at > now:
                if is_crowded and due_at - now <= GATHER_S:
                    time.sleep(due_at - now)
                else:
                    self._asked.wait(min(due_at - now, LONGEST_S))
                    continue
            with self.lock:
                trip = self._slots.trip(time.monotonic())
            if trip is None:
                self._asked.wait(GATHER_S)
                continue
            troubles = 0 if self._carry_out(trip) else troubles + 1
            last = time.monotonic()
            if troubles:
                time.sleep(RECONNECT.delay_s(troubles, 0.5) / 4)

    def _carry_out(self, trip: Trip) -> bool:
        """Whether the server answered."""
        link, calls = self.link, trip.calls
        try:
            results = link.run(calls, wait=trip.waits) if calls else []
        except Exception as error:
            with self.lock:
                answers = self._slots.lost(trip, error)
                if not isinstance(error, ServerUnavailable):
                    answers += [(slot, error) for slot, _ in self._slots.answer_waiting()]
            if isinstance(error, ServerUnavailable):
                self._events.unreachable(error)
            self._deliver(answers)
            return False
        with self.lock:
            repeat, confirmed = bool(calls) and link.is_repeat, link.confirmed if calls else 0
            now = time.monotonic()
            answers = self._slots.answered(trip, results, now, is_repeat=repeat, confirmed=confirmed)
            if self._slots.waits:
                self._listens.set()
            else:
                self._listens.clear()
        self._deliver(answers)
        self._events.reached()
        self._tell()
        return True

    def _tell(self) -> None:
        with self.lock:
            told = [[*some] for some in (self._slots.refusals, self._slots.halted, self._slots.outages)]
            for some in (self._slots.refusals, self._slots.halted, self._slots.outages):
                some.clear()
        refusals, halted, outages = told
        if refusals:
            self.link.invalidate()
            self._events.refused(refusals)
        self._events.halted(halted)
        self._events.outages(outages)
        self._events.emitter.tick()

    # -- the thread that waits for hints --------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._is_stopping:
            self._listens.wait(IDLE_S)
            if self._is_stopping or not self._listens.is_set():
                continue
            try:
                self._waiter.wait(IDLE_S, lambda: self._is_stopping or not self._listens.is_set())
            except SequencerError:
                time.sleep(RECONNECT.base_s)
            with self.lock:
                self._slots.hint()
            self._asked.set()


def raised(answer: Any) -> Any:
    """The answer, unless it is an error."""
    if isinstance(answer, BaseException):
        raise answer
    return answer
