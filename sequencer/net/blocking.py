"""The blocking net: links of one client, whose methods never suspend; and what finishes an operation at once."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import redis

from ..calls.call import Call
from ..calls.net import Alone, Answer, Command
from .link import Link
from .refusals import translate

T = TypeVar("T")
P = ParamSpec("P")


class Lender(Protocol):
    """Who lends links to a server."""

    @property
    def name(self) -> str: ...

    def link(self) -> AbstractContextManager[Link]: ...


class BlockingNet:
    """A Net over links. What it waits for, it waits for in the thread that calls."""

    def __init__(self, lender: Lender) -> None:
        self._lender, self._lock = lender, threading.RLock()

    @property
    def name(self) -> str:
        return self._lender.name

    async def ask(
        self, call: Call[T], *, wait: tuple[int, int] | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Answer[T]:
        with self._lender.link() as link:
            (value,) = link.run((call,), wait=wait, meanwhile=meanwhile)
            return Answer(value, link.is_repeat, link.confirmed)

    async def ask_all(
        self,
        calls: Sequence[Call[Any]],
        *,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer[list[Any]]:
        with self._lender.link() as link:
            values = link.run(calls, is_atomic=is_atomic, wait=wait, meanwhile=meanwhile) if calls else []
            return Answer(values, link.is_repeat, link.confirmed)

    async def read(self, at: str, commands: Sequence[Command]) -> list[Any]:
        with self._lender.link() as link:
            return link.commands(commands) if commands else []

    @asynccontextmanager
    async def alone(self, at: str) -> AsyncIterator[Alone]:
        with self._lender.link() as link:
            try:
                link.refresh()  # a connection that had gone stale would lose what is sent first
                yield LinkAlone(link)
            except BaseException:
                link.close()
                raise

    @asynccontextmanager
    async def once(self, name: str) -> AsyncIterator[None]:
        with self._lock:
            yield

    async def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class LinkAlone:
    """One link as an `Alone`: no command is repeated."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        return self._link.commands(commands, on=self._link.connection())

    async def answers(self, commands: Sequence[Command]) -> list[Any]:
        try:
            said = self._link.answers(commands)
        except (redis.RedisError, OSError) as error:
            raise translate(error, self._link.endpoint.name) from error
        name = self._link.endpoint.name
        return [translate(answer, name) if isinstance(answer, Exception) else answer for answer in said]


def finish(operation: Coroutine[Any, Any, T]) -> T:
    """Run an operation whose net never suspends, to its end. Raises what it raises."""
    try:
        operation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    operation.close()
    name = getattr(operation, "__qualname__", "")
    raise RuntimeError(f"operation {name} waits for something that is not its net; this is a bug")


def blocking(operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The blocking method of a face for an operation over its `_session`: same parameters, same docstring."""

    @functools.wraps(operation)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(operation(self._session, *args, **kwargs))

    signature = inspect.signature(operation)
    first, *others = signature.parameters.values()
    own = first.replace(name="self", annotation=inspect.Parameter.empty)
    method.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
    return method
