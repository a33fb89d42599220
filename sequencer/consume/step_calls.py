"""Calls the function of a step, in the thread of its consumer.

Only there it may be interrupted, and its time is limited. What runs around it, a note above all, is never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..drain.effects import Run
from ..drain.steps.actions import Raised, Returned
from ..errors import StopConsuming
from ..values.message import Message
from .emitter import ConsumerEvents
from .forks import Fork, exit_child
from .time_limit import TimeLimit


class StepCalls:
    """Calls steps for one consumer."""

    def __init__(self, events: ConsumerEvents) -> None:
        self.is_running = False
        """Whether a step runs, so that it may be interrupted."""
        self.is_interrupted = False
        self._events, self._forks, self._has_begun = events, Fork.count, False

    def run(
        self, effect: Run, limit: TimeLimit | None, on_first: Callable[[], object] | None = None
    ) -> Returned | Raised:
        """Call it; before the first one, `on_first`. Raises KeyboardInterrupt, and nothing else.

        Where its start is noted, a consumer that was interrupted before calls it all the same: else a person would be
        asked about a step that never ran.
        """
        results: list[Any] = []
        if on_first and not self._has_begun:
            on_first()
        self._has_begun = True

        def called(message: Message) -> None:
            results.append(effect.function(message, effect.call))

        function = called if limit is None else limit.limited(called)
        try:
            self.is_running = True
            if self.is_interrupted and not effect.is_begun:
                raise StopConsuming("interrupted")
            function(effect.message)
            self.is_running = False
            self._leave_fork(None)
        except BaseException as error:
            self.is_running = False
            self._leave_fork(error)
            if isinstance(error, KeyboardInterrupt):
                raise
            if not results:
                if type(error) is StopConsuming:
                    self._events.interrupted(effect.message, effect.call.name)
                return Raised(error if limit is None else limit.outcome(error))
        return Returned(results[0])

    def _leave_fork(self, error: BaseException | None) -> None:
        if self._forks != Fork.count:
            exit_child(error)
