"""A consumer whose handlers are coroutines: its worker slots share an event loop, and another thread asks the server.

A slot is a callback: it goes on where its answer comes or its handler ends. A loop that is blocked loses no lease.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ..drain import effects as asked
from ..drain.effects import Effect
from ..drain.outcome import Failed
from ..drain.protocol import drain
from ..drain.slots import Answers, Slot
from ..drain.steps.actions import Raised, Returned
from ..errors import ConfigurationError, HandlerTimeout, StopConsuming, Undecodable
from ..settings.options import ConsumerOptions
from ..values.message import ConsumeSummary, Message
from .slots import ManySlots
from .threads import runner_of
from .time_limit import without_ours

BLOCKED_S = 1.0
"""A loop that takes no delivery for so long is blocked, and said to be."""
IGNORED_S = 5.0
"""A handler that goes on for so long after it was cancelled is named."""


class LoopSlot:
    """One slot of a loop."""

    def __init__(self, slot: Slot, consumer: LoopConsumer, runner: Any) -> None:
        self.slot, self._consumer, self.runner = slot, consumer, runner
        self._effects: Any = None
        self._task: asyncio.Task[Any] | None = None
        self._message: Message | None = None
        self._why: BaseException | None = None
        """With what the task in progress was cancelled."""
        self._limit: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self.summary: ConsumeSummary | None = None
        self.error: BaseException | None = None

    @property
    def running(self) -> tuple[Message, float] | None:
        message, since = self._message, self.slot.held.running_since
        return None if message is None or since is None else (message, since)

    def start(self, options: ConsumerOptions) -> None:
        self._effects = drain(self.runner, options)
        self.resume(None)

    def resume(self, answer: Any, *, throws: bool = False) -> None:
        """Go on with this answer, or with an error that is thrown."""
        step = self._effects.throw if throws else self._effects.send
        try:
            while True:
                answer, step = self._do(step(answer)), self._effects.send
                if answer is WAITS:
                    return
        except StopIteration as end:
            self.summary = end.value
        except BaseException as error:
            self.error = error
        self._consumer.ended(self)

    def _do(self, effect: Effect) -> Any:
        consumer = self._consumer
        match effect:
            case asked.Handle():
                return self._call(effect.message, consumer.handler(effect.message), self._handled)
            case asked.SettleAndClaim() | asked.Flush() | asked.Note() | asked.Wait():
                return WAITS if consumer.hub.ask(self.slot, effect) else None
            case asked.Locked():
                with consumer.hub.lock:
                    return effect.act()
            case asked.Run():
                return self._run(effect)
            case asked.Sleep():
                self._pause = consumer.loop.call_later(effect.seconds, self._wake)
                return WAITS
            case asked.Tell():
                consumer.events.emit(effect.name, effect.message, **effect.fields)
            case Failed():
                try:
                    consumer.events.failed(effect)
                except StopConsuming:  # an observer's wish
                    consumer.stop()
                if isinstance(effect.error, Undecodable):
                    consumer.hub.link.invalidate()
        return None

    def _wake(self) -> None:
        self._pause = None
        self.resume(None)

    def wake(self) -> None:
        """A stop ends a pause."""
        if self._pause:
            self._pause.cancel()
            self._wake()

    # -- handlers and steps ---------------------------------------------------------------------------------------

    def _call(self, message: Message, coroutine: Coroutine[Any, Any, Any], then: Callable[[Any], None]) -> Any:
        consumer = self._consumer
        self._message, self._why = message, StopConsuming("interrupted") if consumer.is_interrupted else None
        if self.slot.held.finished_at is not None:
            consumer.hub.begins(self.slot)
        self._task = consumer.loop.create_task(coroutine)
        self._task.add_done_callback(then)
        if self._why:
            self._task.cancel()
        elif consumer.timeout_s is not None:
            self._limit = consumer.loop.call_later(consumer.timeout_s, self._time_is_up)
        return WAITS

    def _time_is_up(self) -> None:
        seconds = self._consumer.timeout_s
        self.cancel(HandlerTimeout(f"it ran longer than {seconds:g} s (handler_timeout), and was interrupted"))

    def cancel(self, why: BaseException) -> None:
        """End the handler that runs."""
        if self._task and self._why is None:
            self._why = why
            self._task.cancel()

    def _error(self, task: asyncio.Task[Any]) -> BaseException | None:
        """What the handler ended with, as it is recorded."""
        self._task = None
        if self._limit:
            self._limit.cancel()
            self._limit = None
        error: BaseException | None = None
        if task.cancelled():
            error = self._why or asyncio.CancelledError("the handler was cancelled")
        else:
            error = task.exception()
        if error is None:
            return None
        if type(error) is StopConsuming:
            self._consumer.events.emit("message released", self._message)
        return without_ours(error)

    def _handled(self, task: asyncio.Task[Any]) -> None:
        self.resume(self._error(task))

    def _run(self, effect: asked.Run) -> Any:
        async def called() -> Any:
            found = effect.function(effect.message, effect.call)
            return await found if asyncio.iscoroutine(found) else found

        def then(task: asyncio.Task[Any]) -> None:
            error = self._error(task)
            self.resume(Returned(task.result()) if error is None else Raised(error))

        return self._call(effect.message, called(), then)


WAITS: Any = object()
"""In place of an answer: it comes later."""


class LoopConsumer(ManySlots):
    """Runs coroutine handlers for messages of many groups at once, one of each group."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.handler: Any = self._work
        self.timeout_s = self._options.handler_timeout_s
        self.is_interrupted = False
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.loop.close()
        self._ended: asyncio.Future[None] | None = None
        self._left = 0
        self._thread = 0
        self._slots = {
            slot: LoopSlot(slot, self, runner_of(slot.held, self._queue, self._work, self.owner))
            for slot in self._new()
        }

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        for slot in self._slots.values():
            slot.runner.is_stopping = True
        self.hub.stop()
        self._later(self._wake_all)

    def interrupt(self) -> None:
        """Stop now: cancels the handlers that run, and releases their messages. Any thread may call it."""
        self.is_interrupted = True
        self.stop()
        self._later(self._cancel_all)

    def _later(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is over
            self.loop.call_soon_threadsafe(call)

    def _wake_all(self) -> None:
        for slot in self._slots.values():
            slot.wake()

    def _cancel_all(self) -> None:
        for slot in self._slots.values():
            slot.cancel(StopConsuming("interrupted"))

    def deliver(self, answers: Answers) -> None:
        if answers:
            self._later(lambda: self._resume(answers))

    def _resume(self, answers: Answers) -> None:
        for slot, answer in answers:
            self._slots[slot].resume(answer, throws=isinstance(answer, BaseException))

    def ended(self, slot: LoopSlot) -> None:
        """This slot is over."""
        self._left -= 1
        if slot.error:
            self.stop()
        if not self._left and self._ended and not self._ended.done():
            self._ended.set_result(None)

    def run(self) -> ConsumeSummary:
        """Consume until the end, on a loop of its own. Raises as a Consumer."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop():
                raise ConfigurationError("an event loop runs in this thread: await AsyncSequencer.consume() there")
        return asyncio.run(self.run_here())

    async def run_here(self) -> ConsumeSummary:
        """Consume until the end, on the running loop."""
        self.loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._ended, self._left = self.loop.create_future(), len(self._slots)
        self.hub.start()
        watch = self.loop.create_task(self._watch())
        try:
            for slot in self._slots.values():
                slot.start(self._options)
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self.interrupt()
            await self._ended
            raise
        finally:
            watch.cancel()
            await asyncio.to_thread(self.hub.end)
            self.emitter.close()
        return self.summary()

    async def _watch(self) -> None:
        """Beats, and a thread that says what blocks the loop where it does not."""
        beat, is_over = [time.monotonic()], threading.Event()

        def look() -> None:
            told = False
            while not is_over.wait(BLOCKED_S / 4):
                late_s = time.monotonic() - beat[0]
                if late_s < BLOCKED_S:
                    told = False
                elif not told:
                    told = True
                    frame = sys._current_frames().get(self._thread)
                    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "?"
                    self.events.emit("loop blocked", blocked_s=round(late_s, 1), place=place)

        thread = threading.Thread(target=look, name="sequencer-loop-watch", daemon=True)
        thread.start()
        try:
            while True:
                beat[0] = time.monotonic()
                await asyncio.sleep(BLOCKED_S / 4)
        finally:
            is_over.set()
