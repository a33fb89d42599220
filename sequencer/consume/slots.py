"""A consumer with many worker slots: each has a thread for its handlers, another asks the server for all."""

from __future__ import annotations

import queue as queues
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, cast

from ..drain import effects as asked
from ..drain.held_group import History
from ..drain.protocol import drain
from ..drain.slots import Answers, Slot, Slots
from ..drain.steps.functions import Handler
from ..net.endpoint import Endpoint
from ..net.link import Guide
from ..settings.options import ConsumerOptions, QueueOptions
from ..settings.pace import STOP_CHECK_S, SWITCH_S
from ..settings.policy import HistoryKept
from ..store.keys import ShardKeys
from ..values.message import ConsumeSummary, Message
from .emitter import ConsumerEvents, EventEmitter
from .forks import owner_name
from .hub import Hub, raised
from .perform import Performer
from .registered import Work
from .threads import runner_of
from .time_limit import TimeLimit


class ThreadSlot(Performer):
    """One slot, and the thread that runs its handlers."""

    def __init__(self, slot: Slot, hub: Hub, handler: Work, *given: Any) -> None:
        def handle(message: Message) -> None:
            if slot.held.finished_at is not None:
                hub.begins(slot)
            cast(Handler, handler)(message)

        super().__init__(handle if callable(handler) else handler, *given)
        self.slot, self._hub, self.lock, self.link = slot, hub, hub.lock, hub.link
        self.answers = queues.SimpleQueue[Any]()
        self.summary: ConsumeSummary | None = None
        self.error: BaseException | None = None

    def ask(self, effect: asked.SettleAndClaim | asked.Ahead | asked.Flush | asked.Note | asked.Wait) -> Any:
        if isinstance(effect, asked.Ahead):
            return None
        return raised(self.answers.get()) if self._hub.ask(self.slot, effect) else None

    def run(self, options: ConsumerOptions) -> None:
        try:
            self.summary = self.perform(drain(self._runner, options))
        except BaseException as error:
            self.error = error


class ManySlots:
    """What consumers with many worker slots have in common."""

    def __init__(
        self,
        endpoint: Endpoint,
        shards: Sequence[ShardKeys],
        queue: QueueOptions,
        options: ConsumerOptions,
        handler: Work,
        *,
        owner: str | None = None,
        guide: Guide | None = None,
        emitter: EventEmitter | None = None,
        keeps_history: Callable[[], HistoryKept] = lambda: "",
    ) -> None:
        """As of a Consumer."""
        self.owner = owner or owner_name()
        self.emitter = emitter or EventEmitter(queue.queue)
        self.events = ConsumerEvents(self.emitter, queue, self.owner)
        self._queue, self._options, self._work, self._keeps = queue, options, handler, keeps_history
        self._all = Slots(
            shards,
            queue.queue,
            self.owner,
            options.lease_s,
            max_attempts=queue.max_attempts,
            is_patient=not (options.until_empty or options.until_idle),
            clock=time.monotonic,
        )
        self.hub = Hub(endpoint, shards, guide, self._all, self.events, self.deliver)
        self._slots: dict[Slot, Any] = {}

    def deliver(self, answers: Answers) -> None:
        """Resume slots. The hub's thread calls it."""
        raise NotImplementedError

    def _new(self) -> Iterator[Slot]:
        """As many as run at once."""
        options = self._options
        for _ in range(options.concurrency or 1):
            history = History(self.owner, self._keeps)
            yield self._all.new(audits=options.audit, audit_length=options.audit_length, history=history)

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler has run longest, and since when, by `time.monotonic`; any thread may look."""
        found = [running for one in self._slots.values() if (running := one.running)]
        return min(found, key=lambda one: one[1], default=None)

    @property
    def handlers_s(self) -> float:
        """Time in handlers and steps of all slots that have ended; any thread may read it."""
        return sum(slot.held.handlers_s for slot in self._slots)

    @property
    def counts(self) -> dict[str, int]:
        """What it has done since it began, and what its emitter counted; any thread may look."""
        sums = {name: sum(getattr(slot.held, name) for slot in self._slots) for name in ("handled", "lost")}
        return {**sums, **asdict(self.emitter.counts)}

    def summary(self) -> ConsumeSummary:
        """Of all slots. Raises what ended one of them."""
        if error := next((one.error for one in self._slots.values() if one.error), None):
            raise error
        ended = [one.summary for one in self._slots.values()]
        counts = [sum(getattr(one, name) for one in ended) for name in ("handled", "failed", "lost")]
        return ConsumeSummary(ended[0].reason, *counts)


class SlotConsumer(ManySlots):
    """Runs plain handlers for messages of many groups at once, each slot in a thread of its own."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for slot in self._new():
            runner, limit = runner_of(slot.held, self._queue, self._work, self.owner), TimeLimit(None)
            self._slots[slot] = ThreadSlot(slot, self.hub, self._work, runner, self.events, limit)

    def deliver(self, answers: Answers) -> None:
        for slot, answer in answers:
            self._slots[slot].answers.put(answer)

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        for slot in self._slots.values():
            slot.stop()
        self.hub.stop()

    def run(self) -> ConsumeSummary:
        """Consume until the end. Raises as a Consumer."""
        switch_s = sys.getswitchinterval()
        threads = [
            threading.Thread(target=slot.run, args=(self._options,), name=f"sequencer-slot-{n}", daemon=True)
            for n, slot in enumerate(self._slots.values(), 1)
        ]
        try:
            sys.setswitchinterval(min(switch_s, SWITCH_S))
            self.hub.start()
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                if any(slot.error for slot in self._slots.values()):
                    self.stop()
                for thread in threads:
                    thread.join(STOP_CHECK_S)  # a signal is handled between two of these
        finally:
            sys.setswitchinterval(switch_s)
            self.stop()
            self.hub.end()
            self.emitter.close()
        return self.summary()
