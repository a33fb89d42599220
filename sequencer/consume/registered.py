"""What a program registers with its client: a handler, or steps; and observers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from ..drain.steps.declared import Step, StepOptions, Steps, new_step
from ..drain.steps.functions import BatchHandler, Handler, InlineHandler, batch_handler, checked_handler, is_coroutine
from ..drain.steps.inline import InlineSteps
from ..errors import ConfigurationError, HandlerNotFound
from ..settings.options import ConsumerOptions, QueueOptions, timing
from ..values.batch import Batch
from ..values.durations import Duration
from ..values.message import Message
from .around import Surroundings, Work
from .emitter import Observer
from .typed import converter_of

AnyHandler = Handler | Callable[[Message, InlineSteps], Any]
"""With one parameter, or with a second one, `steps`."""
HandlerT = TypeVar("HandlerT", bound=AnyHandler)
BatchHandlerT = TypeVar("BatchHandlerT", bound=Callable[[Batch], Any])
ObserverT = TypeVar("ObserverT", bound=Observer)
StepT = Callable[..., Any]

REGISTERED = (
    *("_function", "_handler", "_timing", "_steps", "_observers", "_success_observers"),
    *("state", "_arounds", "_lifespans"),
)
"""What `register_as` takes over."""


def needs_loop(work: Work) -> bool:
    """Whether it has coroutines, which an event loop runs."""
    return work.has_coroutines if isinstance(work, Steps) else is_coroutine(work)


class Registered(Surroundings):
    """The part of a client with which a program registers handlers, steps and observers."""

    def __init__(self, kind_by: str | None) -> None:
        super().__init__()
        self._function: Any = None  # what was registered; `_handler` is what is made of it
        self._handler: Handler | InlineHandler | BatchHandler | None = None
        self._timing: tuple[float | None, float | None] = None, None
        """Time limit and backoff that its registration names."""
        self._steps = Steps(kind_by)
        self._observers: list[Observer] = []
        self._success_observers: list[Observer] = []

    def register_as(self, other: Registered) -> None:
        """Have what is registered with another client."""
        for name in REGISTERED:
            found = getattr(other, name)
            if isinstance(found, list):  # its emitter has them, too
                getattr(self, name)[:] = found
            else:
                setattr(self, name, found)

    @overload
    def handler(self, function: HandlerT, /) -> HandlerT: ...
    @overload
    def handler(
        self, /, *, timeout: Duration | None = None, backoff: Duration | None = None
    ) -> Callable[[HandlerT], HandlerT]: ...
    @overload
    def handler(
        self, /, *, batch: int, timeout: Duration | None = None, backoff: Duration | None = None
    ) -> Callable[[BatchHandlerT], BatchHandlerT]: ...
    def handler(
        self,
        function: Any = None,
        /,
        *,
        batch: int | None = None,
        timeout: Duration | None = None,
        backoff: Duration | None = None,
    ) -> Any:
        """Register the function that handles this queue's messages (a decorator, with or without parentheses).

        It takes one Message per call. A second parameter, `steps`, gets the InlineSteps that run its steps. `batch`: it
        takes a Batch instead: up to this many messages of one group (1 to 1000), in order. `timeout`: time limit of a
        call, in place of `handler_timeout`. `backoff`: delay before the first retry, in place of the queue's.

        Raises ConfigurationError for a function that can't be called so, and if steps are registered.
        """

        def register(given: Any) -> Any:
            checked = checked_handler(given) if batch is None else batch_handler(given, batch)
            converter_of(given)
            if self._steps:
                raise ConfigurationError("handler_and_steps", steps=self._steps.names)
            self._timing = timing("handler", timeout, backoff)
            self._function, self._handler = given, checked
            return given

        return register if function is None else register(function)

    @overload
    def step(self, function: StepT, /) -> Step: ...
    @overload
    def step(self, kind: str = "", /, **options: Unpack[StepOptions]) -> Callable[[StepT], Step]: ...
    def step(self, kind: Any = "", /, **options: Any) -> Any:
        """Register a function as one step of handling each message (a decorator, with or without parentheses).

        It takes the message, or the message and its StepCall, and returns its result, which must be JSON. Each step has
        its own outcome, kept with the message: a step that is done does not run again, and one that fails does not stop
        the others. The message is acknowledged when all of them are done.

        `kind`: in a queue with `kind_by`, the value of that field whose messages have this step. `order`: steps run
        from the lowest, equal ones in the order of registration. `once`: it never runs again by itself; if its outcome
        is unknown, its `check` or an operator decides. `after`: the step or steps that must be done first. `optional`:
        its failure is logged and holds nothing back. `attempts`: maximum number of attempts (default: `max_attempts`,
        or 1 if optional). `timeout`: time limit of a call, in place of `handler_timeout`. `backoff`: delay before the
        first retry, in place of the queue's; of several failed steps the longest holds. `retry_on`: only these errors
        are retried; `never_retry`: these are not. `declined`: these mean that a `once` step took no effect, and end the
        message by `on_failure`; other errors leave its outcome unknown. `name`: default that of the function; it is
        part of keys and ledgers, so keep it when you rename the function.

        The registered function becomes a Step: it can be called as before, and has `check`. Raises ConfigurationError.
        """
        if callable(kind) and not isinstance(kind, str):
            return self._add(kind, options)
        return lambda function: self._add(function, {"kind": kind, **options})

    def _add(self, function: StepT, options: dict[str, Any]) -> Step:
        step = new_step(function, **options)
        converter_of(function)
        if self._handler is not None:
            raise ConfigurationError("handler_and_steps", steps=[step.name])
        return self._steps.add(step)

    @overload
    def observe(self, callback: ObserverT, /) -> ObserverT: ...
    @overload
    def observe(self, /, *, successes: bool) -> Callable[[ObserverT], ObserverT]: ...
    def observe(self, callback: Any = None, /, *, successes: bool | None = None) -> Any:
        """Call this with an Event when a message of this client's consumers fails or ends for good, or a group parks.

        `event.name` is "message failed", "group parked", "group broken", "dead letter", "message dropped", "step
        failed", "finished with failures", "outage began" or "outage ended", and `event.error` what the handler raised.
        It is called before the failure is recorded in the server; for an outage, and when a claim parks a group (a
        missing number or foreign data, without an error), after that. It runs in the thread that runs handlers. Its own
        Exception is logged once and changes nothing. `successes`: also call it with "message handled" and "step done",
        which have `took_s`, before they are recorded in the server; without such an observer they are not even made.
        A decorator, `@seq.observe` or `@seq.observe(successes=True)`. Raises ConfigurationError.
        """
        successful = self._success_observers if successes else []
        return partial(self._observe, successful) if successes is not None else self._observe(successful, callback)

    def _observe(self, successes: list[Observer], callback: ObserverT) -> ObserverT:
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise ConfigurationError("observer_invalid", value=callback)
        self._observers.append(callback)
        successes.append(callback)
        return callback

    @property
    def registered_handler(self) -> Work | None:
        """The function given to `handler`, or the steps, if any. Raises ConfigurationError for steps that don't fit."""
        if self._steps:
            self._steps.check()
            return self._steps
        return self._handler

    def _work(self, handler: AnyHandler | Work | None, queue: str) -> Work:
        """What handles messages: what is given, else what is registered. Raises HandlerNotFound, ConfigurationError."""
        work = self.registered_handler if self._is_registered(handler) else handler
        if work is None:
            raise HandlerNotFound(queue=queue)
        return work if isinstance(work, Steps) else checked_handler(work)

    def _is_registered(self, handler: AnyHandler | Work | None) -> bool:
        return handler is None or handler is self._function or handler is self._handler

    def _timed(
        self, handler: AnyHandler | Work | None, queue: QueueOptions, options: ConsumerOptions
    ) -> tuple[QueueOptions, ConsumerOptions]:
        """The options with which this is run: what the registration of a handler names takes precedence."""
        timeout_s, backoff_s = self._timing if self._is_registered(handler) else (None, None)
        queue = queue if backoff_s is None else replace(queue, backoff_s=backoff_s)
        return queue, options if timeout_s is None else replace(options, handler_timeout_s=timeout_s)
