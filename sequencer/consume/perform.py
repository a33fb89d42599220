"""Does in one thread what a drain asks: handlers and steps, pauses, events. What goes to the server, its owner asks."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

from ..drain import effects as asked
from ..drain.effects import Effect, Handle
from ..drain.outcome import Failed
from ..drain.steps.functions import Handler
from ..drain.steps.runner import StepRunner
from ..errors import SequencerError, ServerUnavailable, StopConsuming, Undecodable
from ..net.link import Link
from ..settings.pace import STOP_CHECK_S, SWITCH_S
from ..values.message import Message
from .around import Work
from .emitter import ConsumerEvents
from .forks import CURRENT_ID, GROUP_SIZE, Fork, Memory, exit_child, note_group, remember_current
from .interruption import interrupt, is_ctrl_c
from .step_calls import StepCalls
from .time_limit import TimeLimit

T = TypeVar("T")


class Performer(ABC):
    """One thread that runs handlers."""

    lock: AbstractContextManager[Any]
    """Guards what is held."""
    link: Link

    def __init__(self, handler: Work, runner: StepRunner, events: ConsumerEvents, limit: TimeLimit) -> None:
        self.events, self._handler, self._limit = events, handler, limit
        self._runner, self._held = runner, runner.held
        self._step_calls = StepCalls(events, limit, self.perform)
        self._in_progress: Message | None = None
        self.on_first: Callable[[], object] | None = None
        """Called once, before the first handler begins."""
        self.begins: Callable[[Message], object] | None = None
        """Called before each handler and step."""
        self.memory: Memory = None

    @abstractmethod
    def ask(self, effect: asked.SettleAndClaim | asked.Ahead | asked.Flush | asked.Note | asked.Wait) -> Any:
        """What the server says. Raises SequencerError."""

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        self._runner.is_stopping = True

    def interrupt(self) -> None:
        """Stop now: from its thread's signal handler, raises StopConsuming into a running handler, where it may."""
        self._runner.is_stopping = True
        self._step_calls.is_interrupted = True  # for a handler that is just about to begin
        if self._step_calls.is_running:
            interrupt()

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler runs now, and since when, by `time.monotonic`; any thread may look."""
        message, since = self._in_progress, self._held.running_since
        return None if message is None or since is None else (message, since)

    @property
    def handlers_s(self) -> float:
        """Its time in handlers and steps since it began, including the one that runs now; any thread may read it."""
        ended_s, since = self._held.handlers_s, self._held.running_since
        return ended_s if since is None else ended_s + time.monotonic() - since

    def perform(self, effects: Generator[Effect, Any, T]) -> T:
        resume, forks, first, calls = effects.send, Fork.count, self.on_first, self._step_calls
        begins, memory, write_id, group = self.begins, self.memory, CURRENT_ID.pack_into, None
        handler = calls.limit.limited(cast(Handler, self._handler))
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
                    calls.is_running = True
                    if calls.is_interrupted:
                        raise StopConsuming("interrupted")
                    handler(message)
                    calls.is_running = False
                    if forks != Fork.count:
                        exit_child(None)
                except BaseException as error:
                    # Also SystemExit or KeyboardInterrupt: what ends a handler is a failure of its message.
                    calls.is_running = False
                    if forks != Fork.count:
                        exit_child(error)
                    if is_ctrl_c(error):
                        raise
                    answer = calls.outcome(error, message)
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
                return self._step_calls.run(effect)
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
                    self.link.invalidate()
            case _:
                return self.ask(cast(Any, effect))
        return None


@contextmanager
def quick_switches() -> Iterator[None]:
    """Within, a handler that never waits keeps other threads from running for SWITCH_S only."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(min(switch_s, SWITCH_S))
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
