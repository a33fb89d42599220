"""A consumer whose handlers are coroutines: its worker slots share an event loop, and another thread asks the server.

A slot is a callback: it goes on where its answer comes or its handler ends. A loop that is blocked loses no lease.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from ..drain import effects as asked
from ..drain.effects import Effect
from ..drain.outcome import Failed
from ..drain.protocol import drain
from ..drain.slots import Answers, Slot
from ..drain.steps.actions import Raised, Returned
from ..drain.steps.inline import InlineSteps
from ..errors import ConfigurationError, LeaseLost, SequencerError, StopConsuming, Undecodable
from ..settings.options import ConsumerOptions
from ..values.message import ConsumeSummary, Message
from . import time_limit
from .around import lived_awaited
from .current import CURRENT
from .forks import Fork, exit_child
from .perform import quick_switches
from .slots import ManySlots
from .time_limit import TimeIsUp, timed_out, without_ours

BLOCKED_S = 1.0  # a loop that takes no delivery for so long is blocked, and said to be
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
WAITS: Any = object()  # in place of an answer: it comes later


class LoopSlot:
    def __init__(self, slot: Slot, consumer: LoopConsumer) -> None:
        self.slot, self._consumer, self.runner = slot, consumer, consumer.runner_of(slot.held)
        self._effects: Any = None
        self._task: asyncio.Task[Any] | None = None
        self._message: Message | None = None
        self.hung: Message | None = None
        self._why: BaseException | None = None  # with what the handler in progress was cancelled
        self._limit_s: float | None = None  # of the handler or the step in progress
        self._limit: asyncio.TimerHandle | None = None
        self._limited_at: float | None = None  # when the time of the handler ends
        self._pause: asyncio.TimerHandle | None = None
        self._future: asyncio.Future[Any] | None = None  # of a question that a step of a handler asks
        self._in_step: asyncio.Task[Any] | None = None
        """What runs a step of a handler that is in progress: but for its own function, nothing of it is interrupted."""
        self._is_shielded = False
        self.summary: ConsumeSummary | None = None
        self.error: BaseException | None = None

    @property
    def running(self) -> tuple[Message, float] | None:
        message, since = self._message, self.slot.held.running_since
        return None if message is None or since is None else (message, since)

    def stop(self) -> None:
        self.runner.is_stopping = True

    def is_over_time(self, now: float) -> bool:
        at, held = self._limited_at, self.slot.held
        return at is not None and now >= at + time_limit.IGNORED_S and held.stuck_since != held.running_since

    def start(self, options: ConsumerOptions) -> None:
        self._effects = drain(self.runner, options)
        self.resume(None)

    def resume(self, answer: Any) -> None:
        """Go on with this answer; an exception of ours, which no handler returned, is thrown."""
        if (future := self._future) is not None:
            self._future = None
            future.set_result(answer)
            return
        try:
            while True:
                is_error = isinstance(answer, Unanswered)
                effect = self._effects.throw(answer.error) if is_error else self._effects.send(answer)
                if (answer := self._do(effect)) is WAITS:
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
                if consumer.is_interrupted:
                    return self._outcome(StopConsuming("interrupted"), effect.message)
                return self._call(None, effect.message, consumer.work)
            case asked.SettleAndClaim() | asked.Flush() | asked.Note() | asked.Wait():
                return WAITS if consumer.ask(self.slot, effect) else None
            case asked.Locked():
                with consumer.hub.lock:
                    return effect.act()
            case asked.Run():
                if (refused := self._refused(effect)) is not None:
                    return refused
                function: Any = effect.function
                if isinstance(effect.call, InlineSteps):
                    call = effect.call
                    call.perform, function = partial(self._perform, call), partial(self._with_steps, function)
                return self._call(effect, effect.message, function, effect.call)
            case asked.Sleep():
                pause = consumer.loop.call_later(effect.seconds, self._wake)
                self._pause = None if effect.is_whole else pause
                return WAITS
            case asked.Tell() | Failed():
                consumer.tell_now(partial(consumer.events.tell, effect))
                if isinstance(effect, Failed) and type(effect.error) is Undecodable:
                    consumer.hub.invalidate()
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

    def _call(self, run: asked.Run | None, message: Message, function: Any, *given: Any) -> Any:
        self._consumer.begins(self.slot, message)
        self._message, self._why = message, None
        self._task = self._consumer.loop.create_task(self._begun(run, function, message, *given))
        self._task.add_done_callback(partial(self._ended, run))
        return WAITS

    async def _begun(self, run: asked.Run | None, function: Any, *given: Any) -> tuple[Any, BaseException | None]:
        """Its time begins where it does: not while another handler blocks the loop, which alone is to blame then."""
        self._begin_time(run.timeout_s if run else None)
        return await outcome_of(function, *given)

    def _begin_time(self, own_s: float | None = None) -> None:
        self._limit_s = seconds = self._consumer.timeout_s if own_s is None else own_s
        if seconds is not None:
            self._limit = self._consumer.loop.call_later(seconds, lambda: self.cancel(TimeIsUp()))
            self._limited_at = time.monotonic() + seconds

    def _end_time(self) -> None:
        if self._limit:
            self._limit.cancel()
            self._limit = self._limited_at = None

    def cancel(self, why: BaseException) -> None:
        """End the handler that runs; a stop also one that ignored the end of its time."""
        if self._task and (self._why is None or (isinstance(why, StopConsuming) and isinstance(self._why, TimeIsUp))):
            self._why = why
            if not self._is_shielded:
                self._task.cancel()

    def _ended(self, run: asked.Run | None, task: asyncio.Task[Any]) -> None:
        self._task = None
        cancelled = None, asyncio.CancelledError("cancelled before it began")
        result, error = cancelled if task.cancelled() else task.result()
        self._end_time()
        assert self._message
        problem = error and self._outcome(error, self._message, run)
        self.resume(problem if run is None else Raised(problem) if problem is not None else Returned(result))

    def _outcome(self, error: BaseException, message: Message, run: asked.Run | None = None) -> BaseException:
        why, self._why = self._why, None
        if isinstance(error, asyncio.CancelledError) and why is not None:
            if isinstance(why, TimeIsUp):
                return without_ours(timed_out(error, self._limit_s))
            error = why.with_traceback(error.__traceback__)
        if type(error) is StopConsuming:
            if message is self.hung:
                return without_ours(timed_out(error, None))
            self._consumer.events.released(message, run)
        return without_ours(error)

    def _refused(self, effect: asked.Run) -> Raised | None:
        """A step begins no more, unless its start is noted: else an operator would be asked about it."""
        if effect.is_begun or not self._consumer.is_interrupted:
            return None
        return Raised(self._outcome(StopConsuming("interrupted"), effect.message, effect))

    # -- steps of a handler ---------------------------------------------------------------------------------------

    async def _with_steps(self, function: Callable[..., Any], message: Message, steps: InlineSteps) -> Any:
        """Run a handler. A step that it left in progress is cancelled and waited for; none begins any more."""
        try:
            result = function(message, steps)
            return await result if hasattr(result, "__await__") else result
        finally:
            steps.perform = step_refused
            if self._in_step:
                self._in_step.cancel()
                await asyncio.wait([self._in_step])

    async def _perform(self, steps: InlineSteps, effects: Generator[Effect, Any, Any]) -> Any:
        """Do what a step asks, while its handler runs."""
        if self._in_step or steps.perform is step_refused:
            raise ConfigurationError("step_misplaced")
        self._in_step, self._is_shielded = asyncio.current_task(), True
        self._end_time()
        resume, answer = effects.send, None
        try:
            while True:
                try:
                    effect = resume(answer)
                except StopIteration as end:
                    return end.value
                try:
                    resume, answer = effects.send, await self._inside(effect)
                except SequencerError as error:
                    resume, answer = effects.throw, error
        finally:
            self._in_step, self._is_shielded = None, False
            self._begin_time()
            if self._consumer.is_interrupted:
                raise StopConsuming("interrupted")
            if self._why:  # it came meanwhile
                raise asyncio.CancelledError

    async def _inside(self, effect: Effect) -> Any:
        if isinstance(effect, asked.Run):
            if (refused := self._refused(effect)) is not None:
                return refused
            self._consumer.begins(self.slot, effect.message)
            self._is_shielded = self._consumer.is_interrupted
            self._begin_time(effect.timeout_s)
            result, error = await outcome_of(effect.function, effect.message, effect.call)
            self._end_time()
            self._is_shielded = True
            outcome = error and self._outcome(error, effect.message, effect)
            self._why = None
            return Returned(result) if outcome is None else Raised(outcome)
        if (answer := self._do(effect)) is WAITS:
            self._future = self._consumer.loop.create_future()
            answer = await result_of(self._future)
            if isinstance(answer, Unanswered):
                raise answer.error
        return answer


async def result_of(future: asyncio.Future[Any]) -> Any:
    """Its result, also where the task is cancelled meanwhile: that comes with what it awaits next."""
    task, cancels = asyncio.current_task(), 0
    assert task
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            cancels += 1
            task.uncancel()
    if cancels:
        task.cancel()
    return future.result()


class Unanswered:
    """In place of an answer, where the server gave none."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def outcome_of(function: Callable[..., Any], *given: Any) -> tuple[Any, BaseException | None]:
    """What it returns, or raises, whatever that is: an event loop would end at SystemExit."""
    forks, result, error = Fork.count, None, None
    CURRENT.set(given[0])
    try:
        result = function(*given)
        if hasattr(result, "__await__"):
            result = await result
    except BaseException as raised:
        error = raised
    if forks != Fork.count:
        exit_child(error)
    return result, error


async def step_refused(effects: Generator[Effect, Any, Any]) -> Any:
    """A step that begins when its handler is over."""
    raise ConfigurationError("step_misplaced")


class LoopConsumer(ManySlots[LoopSlot]):
    """Runs coroutine handlers for messages of many groups at once, one of each group."""

    loop: asyncio.AbstractEventLoop
    _context: Context  # each handler gets a copy of it
    _is_running = False

    def _new(self, slot: Slot) -> LoopSlot:
        return LoopSlot(slot, self)

    def stop(self) -> None:
        super().stop()
        for one in self.slots.values():
            self.tell(one.wake)

    def interrupt(self) -> None:
        if not self.is_interrupted:
            super().interrupt()
            for one in self.slots.values():
                self.tell(partial(one.cancel, StopConsuming("interrupted")))

    def tell(self, call: Callable[[], object]) -> None:
        if self._is_running:
            with suppress(RuntimeError):  # the loop is over
                self.loop.call_soon_threadsafe(self.tell_now, call, context=self._context)

    def lost(self) -> None:
        self.tell(self._cancel_lost)

    def _cancel_lost(self) -> None:
        for one in self.slots.values():
            if any(group.is_lost for group in one.slot.held.groups):
                group = one.slot.held.groups[0].leased
                one.cancel(LeaseLost(group=group.group, token=int(group.token)))

    def deliver(self, answers: Answers) -> None:
        if answers:
            self.tell(lambda: self._resume(answers))

    def _resume(self, answers: Answers) -> None:
        for slot, answer in answers:
            self.slots[slot].resume(Unanswered(answer) if isinstance(answer, BaseException) else answer)

    def ended(self, one: LoopSlot) -> None:
        super().ended(one)
        if all(one.summary or one.error for one in self.slots.values()) and not self._ended.done():
            self._ended.set_result(None)

    def run(self) -> ConsumeSummary:
        """Consume until the end, on a loop of its own. Raises as a Consumer."""
        return asyncio.run(self.run_here())

    async def run_here(self) -> ConsumeSummary:
        async with lived_awaited(self.lifespans):
            return await self._run()

    async def _run(self) -> ConsumeSummary:
        self.loop, self._context = asyncio.get_running_loop(), copy_context()
        self._ended, self._is_running = self.loop.create_future(), True
        self.hub.start()
        is_over, name = threading.Event(), "sequencer-loop-watch"
        given = threading.get_ident(), is_over
        watch = threading.Thread(target=self._watch, args=given, name=name, daemon=True)
        watch.start()
        with quick_switches():
            try:
                for one in self.slots.values():
                    one.start(self._options)
                await self.until(self._ended)
            finally:
                is_over.set()
                watch.join()
                await self.until(self.loop.run_in_executor(None, self.hub.end, self.over))
                self.emitter.close()
        return self._summary()

    def _watch(self, thread: int, is_over: threading.Event) -> None:
        """In a thread: asks the loop for a beat, and says what blocks it where none comes."""
        beat, asked_at, place, is_ended = threading.Event(), time.monotonic(), "", False
        beat.set()
        while not is_ended:
            is_ended, now = is_over.wait(BLOCKED_S / 4), time.monotonic()
            self.watch(now)
            if is_ended or beat.is_set():
                if place:
                    self.events.emit("loop blocked", blocked_s=round(now - asked_at, 1), place=place, is_over=True)
                beat.clear()
                asked_at, place = now, ""
                self.tell(beat.set)
            elif not place and now - asked_at >= BLOCKED_S:
                place = place_of(thread)
                self.events.emit("loop blocked", blocked_s=round(now - asked_at, 1), place=place, is_over=False)


def place_of(thread: int) -> str:
    """Where this thread is: in code that is no library's, if it is."""
    frame = innermost = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    code, line = (frame or innermost).f_code, (frame or innermost).f_lineno  # type: ignore[union-attr]
    return f"{code.co_filename}:{line} in {code.co_qualname}"
