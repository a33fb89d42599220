"""The two faces of an operation: a method that waits for the server, and one that is awaited.

A class that is Blocking or Awaited gets plain methods for its operations, which run over its `_session`, with the same
parameters and docstrings. A type checker knows which of the two it gets.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from .link import finish

T = TypeVar("T")
P = ParamSpec("P")


class Listing(Iterator[T]):
    """What is found, read page by page while it is iterated. It has no length; it is false when nothing is left."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items: Any = items  # of an iterator `finish` takes each step, as of a coroutine
        self._ahead = list[T]()

    def __next__(self) -> T:
        if self:
            return self._ahead.pop()
        raise StopIteration

    def __bool__(self) -> bool:
        if not self._ahead:
            with suppress(StopAsyncIteration):
                self._ahead.append(finish(self._items.__anext__()))
        return bool(self._ahead)


class operation(Generic[P, T]):  # noqa: N801 - reads as a decorator
    """A method for an operation: of Blocking it returns the result, of Awaited a coroutine."""

    def __init__(self, run: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self.run = run

    @overload
    def __get__(self, client: Blocking, kind: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, kind: Any = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, kind: type[Blocking]) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, client: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, kind: Any = None) -> Any:
        raise NotImplementedError  # each class has a plain method in its place


class listing(Generic[P, T]):  # noqa: N801
    """A method for an operation that yields, page by page: to iterate with `for`, or of Awaited with `async for`."""

    def __init__(self, run: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> None:
        self.run = run

    @overload
    def __get__(self, client: Blocking, kind: Any = None) -> Callable[P, Listing[T]]: ...
    @overload
    def __get__(self, client: Awaited, kind: Any = None) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: None, kind: type[Blocking]) -> Callable[Concatenate[Any, P], Listing[T]]: ...
    @overload
    def __get__(self, client: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], AsyncIterator[T]]: ...
    def __get__(self, client: Any, kind: Any = None) -> Any:
        raise NotImplementedError


class _Face:
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            one = inspect.getattr_static(cls, name)
            if isinstance(one, operation | listing):
                setattr(cls, name, _method(one, is_blocking=issubclass(cls, Blocking)))


class Blocking(_Face):
    """Its methods wait for the server."""


class Awaited(_Face):
    """Its methods are awaited."""


def _method(one: operation[..., Any] | listing[..., Any], *, is_blocking: bool) -> Callable[..., Any]:
    run: Callable[..., Any] = one.run
    signature, end = inspect.signature(run), Listing if isinstance(one, listing) else finish

    def blocking(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return end(run(self._session, *args, **kwargs))

    def listed(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(self._session, *args, **kwargs)

    async def awaited(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await run(self._session, *args, **kwargs)

    method = functools.wraps(run)(blocking if is_blocking else listed if isinstance(one, listing) else awaited)
    first, *others = signature.parameters.values()
    own = first.replace(name="self", annotation=inspect.Parameter.empty)
    returned = str(signature.return_annotation)
    returned = returned.replace("AsyncIterator", "Iterator") if is_blocking else returned
    method.__signature__ = signature.replace(parameters=[own, *others], return_annotation=returned)  # type: ignore[attr-defined]
    return method
