"""Does in one thread what a drain asks: handlers and steps, pauses, events. What goes to the server, its owner asks.

Only in the function of a handler or a step it may be interrupted, and its time is limited; never around it, in a note
above all.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

from ..drain import effects as asked
from ..drain.effects import Effect, Handle, Run
from ..drain.outcome import Failed
from ..drain.steps.actions import Raised, Returned
from ..drain.steps.functions import Handler
from ..drain.steps.inline import InlineSteps
from ..drain.steps.runner import StepRunner
from ..errors import ConfigurationError, SequencerError, ServerUnavailable, StopConsuming, Undecodable
from ..settings.pace import STOP_CHECK_S, SWITCH_S
from ..values.message import Message
from .around import Work
from .emitter import ConsumerEvents
from .forks import CURRENT_ID, GROUP_SIZE, Fork, Memory, exit_child, not_in_a_copy, note_group, remember_current
from .interruption import interrupt, is_ctrl_c
from .time_limit import TimeLimit, timed_out, without_ours

T = TypeVar("T")


class Performer(ABC):
    lock: AbstractContextManager[Any]  # guards what is held

    def __init__(self, handler: Work, runner: StepRunner, events: ConsumerEvents, limit: TimeLimit) -> None:
        self.events, self._handler, self.limit = events, handler, limit
        self._runner, self._held = runner, runner.held
        self._in_progress: Message | None = None
        self.hung: Message | None = None
        """The message that hangs, according to the supervisor: interrupting it counts as an attempt."""
        self._is_running = self._is_interrupted = self._is_shielded = False
        """Whether a handler or a step runs, so that it may be interrupted; an interrupt came; the step that runs began
        after that.
        """
        self.on_first: Callable[[], object] | None = None  # called once, before the first handler begins
        self.begins: Callable[[Message], object] | None = None  # called before each handler and step
        self.memory: Memory = None

    @abstractmethod
    def ask(self, effect: asked.SettleAndClaim | asked.Ahead | asked.Flush | asked.Note | asked.Wait) -> Any:
        """What the server says. Raises SequencerError."""

    @abstractmethod
    def invalidate(self) -> None:
        """Something was lost that the server should have."""

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        self._runner.is_stopping = True

    def interrupt(self) -> None:
        """Stop now: from its thread's signal handler, raises StopConsuming into a running handler, where it may."""
        self._runner.is_stopping = True
        self._is_interrupted = True  # for a handler that is just about to begin
        if self._is_running:
            interrupt()

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler runs now, and since when, by `time.monotonic`; from any thread."""
        message, since = self._in_progress, self._held.running_since
        return None if message is None or since is None else (message, since)

    def perform(self, effects: Generator[Effect, Any, T]) -> T:
        resume, forks, first = effects.send, Fork.count, self.on_first
        begins, memory, write_id, group = self.begins, self.memory, CURRENT_ID.pack_into, None
        handler = self.limit.limited(cast(Handler, self._handler))
        answer: Any = None
        while True:
            try:
                effect = resume(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            resume, answer = effects.send, None
            if type(effect) is Handle:
                if first:
                    first()
                    first = None
                self._in_progress = message = effect.message
                if begins:
                    begins(message)
                if memory is not None:
                    if message.group is not group:
                        group = note_group(memory, message.group)
                    write_id(memory, GROUP_SIZE, message.id.encode("utf-8", "surrogateescape"))
                try:
                    self._is_running = True
                    if self._is_interrupted:
                        raise StopConsuming("interrupted")
                    handler(message)
                    self._is_running = False
                    if forks != Fork.count:
                        exit_child(None)
                except BaseException as error:
                    # Also SystemExit or KeyboardInterrupt: what ends a handler is a failure of its message.
                    self._is_running = False
                    if forks != Fork.count:
                        exit_child(error)
                    if is_ctrl_c(error):
                        raise
                    answer = self._outcome(error, message)
            else:
                try:
                    answer = self._do(effect)
                except SequencerError as error:
                    if isinstance(error, ServerUnavailable):
                        self.events.unreachable(error)
                    resume, answer = effects.throw, error

    def _do(self, effect: Effect) -> Any:
        match effect:
            case asked.Locked():
                with self.lock:
                    return effect.act()
            case asked.Run():
                self._in_progress = remember_current(self.memory, effect.message)
                first, self.on_first = self.on_first, None
                if first:
                    first()
                if self.begins:
                    self.begins(effect.message)
                return self._run(effect)
            case asked.Sleep():
                until = time.monotonic() + effect.seconds
                while (left := until - time.monotonic()) > 0 and (effect.is_whole or not self._runner.is_stopping):
                    time.sleep(min(left, STOP_CHECK_S))
            case asked.Tell() | Failed():
                try:
                    self.events.tell(effect)
                except StopConsuming:  # an observer's wish
                    self.stop()
                if isinstance(effect, Failed) and type(effect.error) is Undecodable:  # its body may be lost
                    self.invalidate()
            case _:
                return self.ask(cast(Any, effect))
        return None

    def _run(self, effect: Run) -> Returned | Raised:
        """Call a step, or a handler that runs steps. Raises KeyboardInterrupt at a SIGINT, and nothing else.

        Where its start is noted, a consumer that was interrupted before calls it all the same: else an operator would
        be asked about a step that never ran.
        """
        call, results, was_running = effect.call, list[Any](), self._is_running
        if isinstance(call, InlineSteps):
            call.perform = self._performer()

        def called(one: Message) -> None:
            results.append(effect.function(one, call))

        try:
            self._is_running = True
            self._is_shielded = self._is_interrupted and effect.is_begun
            if self._is_interrupted and not effect.is_begun:
                raise StopConsuming("interrupted")
            with not_in_a_copy():
                self.limit.limited(called, effect.timeout_s)(effect.message)
            self._is_running = was_running
        except BaseException as error:
            self._is_running = was_running
            if is_ctrl_c(error):
                raise
            if not results:
                return Raised(self._outcome(error, effect.message, effect))
        finally:
            if isinstance(call, InlineSteps):
                call.perform = misplaced
        return Returned(results[0])

    def _performer(self) -> Callable[[Generator[Effect, Any, Any]], Any]:
        thread, forks, is_inside = threading.get_ident(), Fork.count, False

        def perform(effects: Generator[Effect, Any, Any]) -> Any:
            nonlocal is_inside
            if is_inside or threading.get_ident() != thread or forks != Fork.count:
                raise ConfigurationError("step_misplaced")
            is_inside, self._is_running = True, False
            try:
                with self.limit.paused():
                    return self.perform(effects)
            finally:
                is_inside, self._is_running = False, True
                if self._is_interrupted:  # it came meanwhile
                    raise StopConsuming("interrupted")

        return perform

    def _outcome(self, error: BaseException, message: Message, run: Run | None = None) -> BaseException:
        if type(error) is StopConsuming:
            if message is self.hung:
                return without_ours(timed_out(error, None))
            self.events.released(message, run)
        return without_ours(self.limit.outcome(error))


def misplaced(effects: Generator[Effect, Any, Any]) -> Any:
    """A step that begins when its handler is over."""
    raise ConfigurationError("step_misplaced")


@contextmanager
def quick_switches() -> Iterator[None]:
    """Within, a handler that never waits keeps other threads from running for SWITCH_S only."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(min(switch_s, SWITCH_S))
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
