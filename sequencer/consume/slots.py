"""A consumer with many worker slots: each has a thread for its handlers, another asks the server for all."""

from __future__ import annotations

import asyncio
import queue as queues
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..drain import effects as asked
from ..drain.held import Held
from ..drain.held_group import History
from ..drain.protocol import drain
from ..drain.slots import Answers, Question, Slot, Slots
from ..drain.steps.functions import BatchHandler
from ..errors import StopConsuming
from ..net.endpoint import Endpoint
from ..net.link import Guide
from ..settings.options import ConsumerOptions
from ..settings.pace import STOP_CHECK_S
from ..store.keys import ShardKeys
from ..values.message import ConsumeSummary, Message
from . import time_limit
from .around import lived
from .current import in_progress
from .forks import Memory, remember_current
from .hub import Hub
from .perform import Performer, quick_switches
from .threads import AnyConsumer
from .time_limit import ThreadTimeLimit

if TYPE_CHECKING:
    from .on_loop import LoopSlot


SlotT = TypeVar("SlotT", bound="ThreadSlot | LoopSlot")
T = TypeVar("T")


class ManySlots(AnyConsumer, Generic[SlotT]):
    """What consumers with many worker slots have in common."""

    is_single = False
    """Whether it has one slot, which takes as many groups at once as it wants."""

    def _set_up(
        self, endpoint: Endpoint, shards: Sequence[ShardKeys], guide: Guide | None, new_history: Callable[[], History]
    ) -> None:
        options, queue, handler = self._options, self._queue, self.work
        self.timeout_s = options.handler_timeout_s
        self._options = replace(options, max_messages=None)  # counted over all slots
        ends = options.until_empty or options.until_idle or options.max_age_s is not None
        given = shards, queue.queue, self.owner, options.lease_s
        self._all = Slots(
            *given,
            max_attempts=queue.max_attempts,
            is_patient=not ends,
            clock=time.monotonic,
            max_messages=options.max_messages,
            batch=handler.size if isinstance(handler, BatchHandler) else 1,
            are_apart=len(endpoint.of_shards(len(shards))) > 1,
            is_single=self.is_single,
        )
        self.hub = Hub(endpoint, shards, guide, self._all, self)
        self.on_first: Callable[[], object] | None = None  # called once, before the first handler begins
        self.memory: Memory = None
        self._beginning = threading.Lock()
        self._on_stuck: Callable[[Message], object] | None = None
        self.is_interrupted = False
        self._interrupted_at: float | None = None
        self.error: BaseException | None = None
        """What ended it early, where it runs in the background of an event loop."""
        self._named: set[Slot] = set()  # those that ignore an interrupt, once that is logged
        histories = [new_history() for _ in range(options.concurrency or 1)]
        made = [self._new(self._all.new(history=history)) for history in histories]
        self.slots: dict[Slot, SlotT] = {one.slot: one for one in made}

    @abstractmethod
    def _new(self, slot: Slot) -> SlotT: ...

    @abstractmethod
    def deliver(self, answers: Answers) -> None:
        """Resume slots with their answers. The hub's thread calls this, as the next two: none waits for a handler."""

    @abstractmethod
    def lost(self) -> None:
        """Leases were found lost."""

    @abstractmethod
    def tell(self, call: Callable[[], object]) -> None:
        """Call this in a thread that may run user code: an observer's."""

    def tell_now(self, call: Callable[[], object]) -> None:
        try:
            call()
        except StopConsuming:  # an observer's wish
            self.stop()

    @abstractmethod
    async def run_here(self) -> ConsumeSummary:
        """Consume until the end, on the running loop. A cancel interrupts handlers, and is raised when all is over."""

    async def until(self, done: asyncio.Future[T]) -> T:
        """Wait for it. A cancel of who waits interrupts handlers, and is raised at the end."""
        cancelled = None
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError as error:  # there may be several: a cancel scope repeats its own
                cancelled = error
                self.interrupt()
        if cancelled:
            raise cancelled from done.exception()
        return done.result()

    @property
    def _helds(self) -> Sequence[Held]:
        return [slot.held for slot in self.slots]

    # -- what a Consumer has, too ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        for one in self.slots.values():
            one.stop()
        self.hub.stop()

    def interrupt(self) -> None:
        """Stop now: interrupts all handlers that run, and releases their messages. Any thread may call it."""
        self.stop()
        self._interrupted_at = self._interrupted_at or time.monotonic()
        self.is_interrupted = True

    def hang(self) -> None:
        """The messages in progress hang, so the end of each counts as an attempt: `interrupt` follows. Any thread."""
        for one in self.slots.values():
            if running := one.running:
                one.hung = running[0]
                self.hub.renew_last(one.slot, running[1])

    def on_stuck(self, call: Callable[[Message], object]) -> None:
        """Call this, in the hub's thread, when a handler ignores the end of its time: it has to end the process."""
        self._on_stuck = call

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler has run longest, and since when, by `time.monotonic`; from any thread."""
        found = [running for one in self.slots.values() if (running := one.running)]
        return min(found, key=lambda one: one[1], default=None)

    def _summary(self) -> ConsumeSummary:
        if error := next((one.error for one in self.slots.values() if one.error), self.hub.error):
            raise error
        ended = {one.summary.reason for one in self.slots.values() if one.summary}
        reason: Any = "recycled" if self._all.is_spent else next(one for one in REASONS if one in ended)
        return ConsumeSummary(reason, **self._sums("handled", "failed", "lost"))

    @property
    def over(self) -> list[Slot]:
        return [slot for slot, one in self.slots.items() if one.summary or one.error]

    # -- what its slots and its hub call --------------------------------------------------------------------------

    def begins(self, slot: Slot, message: Message) -> None:
        """A handler or a step of this slot is about to begin."""
        if slot.held.finished_at is not None and not slot.is_late:
            self.hub.begins(slot)
        if self.on_first or self.memory is not None:
            with self._beginning:
                first, self.on_first = self.on_first, None
                if first:
                    first()
                remember_current(self.memory, message)

    def ended(self, one: SlotT) -> None:
        """This slot is over. A stop that its handler asked for is one of the consumer."""
        is_stop = one.error or (one.summary and one.summary.reason == "stopped")
        if is_stop and not self._all.is_ending:
            self.stop()

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether an answer will be delivered."""
        is_awaited = self.hub.ask(slot, question)
        if self.memory is not None and not self._all.busy:
            with self._beginning:
                remember_current(self.memory, None)
        return is_awaited

    def stuck(self, slot: Slot) -> None:
        """The lease of a handler that is stuck was renewed for the last time."""
        one, is_killed = self.slots[slot], self._on_stuck is not None
        if (running := one.running) and running[0] is not one.hung:
            runs_s = round(time.monotonic() - running[1], 1)
            self.events.emit("handler stuck", running[0], runs_s=runs_s, is_killed=is_killed)
            if self._on_stuck:
                self._on_stuck(running[0])

    def watch(self, now: float) -> None:
        """Called now and then by a thread that runs no handler."""
        at = self._interrupted_at
        for one in self.slots.values():
            if one.is_over_time(now) and (running := one.running):
                self.hub.renew_last(one.slot, running[1])
            is_late = at is not None and now - at >= time_limit.IGNORED_S and one.slot not in self._named
            if is_late and (running := one.running):
                self._named.add(one.slot)
                runs_s = round(now - running[1], 1)
                self.events.emit("handler slow", running[0], runs_s=runs_s, is_stopping=True)


REASONS = ("recycled", "stopped", "drained")  # of slots that ended differently the first one counts


class ThreadSlot(Performer):
    """One slot, and the thread that runs its handlers."""

    limit: ThreadTimeLimit

    def __init__(self, slot: Slot, consumer: SlotConsumer) -> None:
        limit = ThreadTimeLimit(consumer.timeout_s)
        super().__init__(consumer.work, consumer.runner_of(slot.held), consumer.events, limit)
        self.slot, self._consumer = slot, consumer
        self.lock = consumer.hub.lock
        self.begins = lambda message: consumer.begins(slot, message)
        self.answers = queues.SimpleQueue[Any]()
        self.summary: ConsumeSummary | None = None
        self.error: BaseException | None = None

    def ask(self, effect: asked.SettleAndClaim | asked.Ahead | asked.Flush | asked.Note | asked.Wait) -> Any:
        if isinstance(effect, asked.Ahead) or not self._consumer.ask(self.slot, effect):
            return None
        while callable(answer := self.answers.get()):  # for an observer, in this thread
            answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def invalidate(self) -> None:
        self._consumer.hub.invalidate()

    def is_over_time(self, now: float) -> bool:
        """Whether the handler that runs ignored the end of its time; it may be interrupted here."""
        if not self._consumer.is_interrupted:
            return self.limit.check(now)
        if not (self._is_interrupted and self._was_sent):
            self._is_interrupted = True  # for a handler that is just about to begin
            self._was_sent = not self._is_shielded and self.limit.interrupt()
        return False

    _was_sent = False

    def run(self, options: ConsumerOptions) -> None:
        try:
            with in_progress(self):
                self.summary = self.perform(drain(self._runner, options))
        except BaseException as error:
            self.error = error
        self._consumer.ended(self)
        self._consumer.wake.set()


class SlotConsumer(ManySlots[ThreadSlot]):
    """Runs plain handlers for messages of many groups at once, each slot in a thread of its own."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.wake = threading.Event()
        self._calls = queues.SimpleQueue[Callable[[], object]]()

    def _new(self, slot: Slot) -> ThreadSlot:
        return ThreadSlot(slot, self)

    def deliver(self, answers: Answers) -> None:
        for slot, answer in answers:
            self.slots[slot].answers.put(answer)

    def lost(self) -> None:
        """A thread goes on: what it finishes is not acknowledged."""

    def tell(self, call: Callable[[], object]) -> None:
        self._calls.put(call)
        self.wake.set()

    def run(self) -> ConsumeSummary:
        """Consume until the end. Raises as a Consumer."""
        with lived(self.lifespans), quick_switches():
            try:
                self.hub.start()
                self._run_slots()
            finally:
                self.stop()
                self.hub.end(self.over)
                self._tell()
                self.emitter.close()
        return self._summary()

    def _run_slots(self) -> None:
        threads = [
            threading.Thread(target=copy_context().run, args=given, name=f"sequencer-slot-{n}", daemon=True)
            for n, given in enumerate([(slot.run, self._options) for slot in self.slots.values()], 1)
        ]
        try:
            for thread in threads:
                thread.start()
            self._watch(threads)
        except BaseException:  # Ctrl-C; once more, and they are left alone
            self.interrupt()
            self._watch(threads)
            raise

    async def run_here(self) -> ConsumeSummary:
        thread = ThreadPoolExecutor(1, "sequencer-consumer")  # one of the loop's own would be missed for long
        loop, context = asyncio.get_running_loop(), copy_context()
        try:
            return await self.until(loop.run_in_executor(thread, lambda: context.run(self.run)))
        finally:
            thread.shutdown(wait=False)

    def _watch(self, threads: Sequence[threading.Thread]) -> None:
        while any(thread.is_alive() for thread in threads):
            self.watch(time.monotonic())
            self._tell()
            self.wake.wait(STOP_CHECK_S)
            self.wake.clear()

    def _tell(self) -> None:
        while not self._calls.empty():  # nobody else takes from it
            self.tell_now(self._calls.get())
