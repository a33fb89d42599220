"""What a program runs around its handlers (`around`), and around the life of a consumer (`lifespan`).

Both are context managers, or generators with one `yield`. They are put around handlers when a consumer is made, which
knows whether those run on an event loop. Without one nothing is wrapped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from ..drain.steps.declared import Steps
from ..drain.steps.functions import BatchHandler, Function, Handler, InlineHandler, is_coroutine, name_of, takes
from ..errors import ConfigurationError
from ..net.link import finish
from ..values.message import Message
from .typed import typed

Work = Handler | Steps | InlineHandler | BatchHandler  # what handles the messages of a consumer
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
FunctionOrNone = TypeVar("FunctionOrNone", Function, Function | None)


class Manager(NamedTuple):
    make: Callable[..., Any]
    is_async: bool
    name: str


class Surroundings:
    """The part of a client with which a program registers what runs around handlers."""

    def __init__(self) -> None:
        self.state = SimpleNamespace()
        """Yours: what a `lifespan` opens and handlers use, such as `seq.state.pool`."""
        self._arounds: list[Manager] = []
        self._lifespans: list[Manager] = []

    def around(self, function: FunctionT) -> FunctionT:
        """Run this around each call of a handler, a step or a check (a decorator): a generator function that takes the
        message (or the Batch) and has one `yield`, or a function that returns a context manager.

        Several are nested, the first one outermost. What the handler raises is raised at the `yield`; what leaves this
        function is what the message fails with, and where nothing does, it is handled. Its time counts for
        `handler_timeout`. It gets the body as it is stored. `async def` only for handlers that are. Raises
        ConfigurationError.
        """
        self._arounds.append(_manager(function, "around", 1))
        return function

    def lifespan(self, function: FunctionT) -> FunctionT:
        """Run this around the life of each consumer process, or call of `consume` (a decorator): a generator function
        without parameters with one `yield`, or a function that returns a context manager.

        Before the `yield` it opens what handlers use, in `seq.state` for instance; nothing was claimed yet. After it,
        everything was released. What it raises ends the consumer. `async def` only for handlers that are. Raises
        ConfigurationError.
        """
        self._lifespans.append(_manager(function, "lifespan", 0))
        return function

    def _surrounded(self, work: Work) -> Work:
        """What handles messages as they are stored, with all that runs around it. Raises ConfigurationError."""

        def wrapped(function: Callable[..., Any]) -> Any:
            inner = typed(function)
            for one in reversed(self._arounds):
                inner = _within(one, inner)
            return inner

        def of(one: FunctionOrNone) -> FunctionOrNone:
            return one and replace(one, function=wrapped(one.function))

        if isinstance(work, Steps):
            kinds = {
                kind: {name: replace(step, run=of(step.run), asks=of(step.asks)) for name, step in steps.items()}
                for kind, steps in work.kinds.items()
            }
            return replace(work, kinds=kinds)
        if isinstance(work, InlineHandler | BatchHandler):
            return replace(work, function=wrapped(work.function))
        handler: Handler = wrapped(work)
        return handler


def _manager(function: Any, what: str, count: int) -> Manager:
    """Raises ConfigurationError."""
    name = name_of(function)
    if not callable(function) or inspect.iscoroutinefunction(function) or not takes(function, count):
        raise ConfigurationError("around_invalid", role=what, function=name, message=count)
    if inspect.isgeneratorfunction(function):
        return Manager(contextmanager(function), False, name)
    if inspect.isasyncgenfunction(function):
        return Manager(asynccontextmanager(function), True, name)
    is_entered = hasattr(function, "__enter__")  # a class
    is_async = inspect.isasyncgenfunction(inspect.unwrap(function)) or hasattr(function, "__aenter__")
    return Manager(function, is_async and not is_entered, name)


def _within(around: Manager, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(message: Message, *given: Any) -> Any:
        with around.make(message):
            return function(message, *given)

    @functools.wraps(function)
    async def call_awaited(message: Message, *given: Any) -> Any:
        async with AsyncExitStack() as stack:
            await _enter(stack, around, message)
            return await function(message, *given)

    if is_coroutine(function):
        return call_awaited
    if around.is_async:
        raise ConfigurationError("around_asynchronous", role="around", function=around.name)
    return call


async def _enter(stack: AsyncExitStack, one: Manager, *given: Any) -> None:
    if one.is_async:
        await stack.enter_async_context(one.make(*given))
    else:
        stack.enter_context(one.make(*given))


@asynccontextmanager
async def lived_awaited(lifespans: Sequence[Manager]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for one in lifespans:
            await _enter(stack, one)
        yield


@contextmanager
def lived(lifespans: Sequence[Manager], run: Callable[[Coroutine[Any, Any, Any]], Any] | None = None) -> Iterator[None]:
    """The same for code that does not await. `run`: runs coroutines; without it raises ConfigurationError for any."""
    if run is None and (one := next((one for one in lifespans if one.is_async), None)):
        raise ConfigurationError("around_asynchronous", role="lifespan", function=one.name)
    run, life = run or finish, lived_awaited(lifespans)
    run(life.__aenter__())
    try:
        yield
    except BaseException as error:
        run(life.__aexit__(type(error), error, error.__traceback__))
        raise
    run(life.__aexit__(None, None, None))
