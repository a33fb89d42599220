"""Calls the function of a step, or a handler that runs steps, in the thread of its consumer.

Only there it may be interrupted, and its time is limited. What runs around it, a note above all, is never interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

from ..drain.effects import Effect, Run
from ..drain.steps.actions import Raised, Returned
from ..drain.steps.inline import InlineSteps
from ..errors import ConfigurationError, StopConsuming
from ..values.message import Message
from .emitter import ConsumerEvents
from .forks import Fork, not_in_a_copy
from .interruption import is_ctrl_c
from .time_limit import TimeLimit, timed_out, without_ours


class StepCalls:
    """Calls steps for one consumer."""

    def __init__(
        self, events: ConsumerEvents, limit: TimeLimit, perform: Callable[[Generator[Effect, Any, Any]], Any]
    ) -> None:
        """`perform`: does what effects ask for; returns what they return."""
        self.is_running = False
        """Whether a handler or a step runs, so that it may be interrupted."""
        self.is_interrupted = self.is_shielded = False
        """`is_shielded`: a step runs that was begun after that."""
        self.hung: Message | None = None
        """The message that hangs, according to the supervisor: interrupting it counts as an attempt."""
        self.limit, self._events, self._perform = limit, events, perform

    def run(self, effect: Run) -> Returned | Raised:
        """Call it. Raises KeyboardInterrupt at a SIGINT, and nothing else.

        Where its start is noted, a consumer that was interrupted before calls it all the same: else a person would be
        asked about a step that never ran.
        """
        call, results, was_running = effect.call, list[Any](), self.is_running
        if isinstance(call, InlineSteps):
            call.perform = self._performer()

        def called(one: Message) -> None:
            results.append(effect.function(one, call))

        try:
            self.is_running = True
            self.is_shielded = self.is_interrupted and effect.is_begun
            if self.is_interrupted and not effect.is_begun:
                raise StopConsuming("interrupted")
            with not_in_a_copy():
                self.limit.limited(called, effect.timeout_s)(effect.message)
            self.is_running = was_running
        except BaseException as error:
            self.is_running = was_running
            if is_ctrl_c(error):
                raise
            if not results:
                return Raised(self.outcome(error, effect.message, effect))
        return Returned(results[0])

    def _performer(self) -> Callable[[Generator[Effect, Any, Any]], Any]:
        """What runs the steps of a handler, in its thread."""
        thread, forks, is_inside = threading.get_ident(), Fork.count, False

        def perform(effects: Generator[Effect, Any, Any]) -> Any:
            nonlocal is_inside
            if is_inside or threading.get_ident() != thread or forks != Fork.count:
                raise ConfigurationError("step_misplaced")
            is_inside, self.is_running = True, False
            try:
                with self.limit.paused():
                    return self._perform(effects)
            finally:
                is_inside, self.is_running = False, True
                if self.is_interrupted:  # it came meanwhile
                    raise StopConsuming("interrupted")

        return perform

    def outcome(self, error: BaseException, message: Message, run: Run | None = None) -> BaseException:
        """How the end of a handler or a step is recorded."""
        if type(error) is StopConsuming:
            if message is self.hung:
                return without_ours(timed_out(error, None))
            self._events.released(message, run)
        return without_ours(self.limit.outcome(error))
