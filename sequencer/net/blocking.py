"""The blocking net: links of one client, whose methods never suspend."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..calls.call import Call
from ..calls.net_protocol import Alone, Answer, Command
from ..errors import ConfigurationError
from ..settings.options import QueueOptions
from ..store.replies import Reading
from .endpoint import SOCKET_TIMEOUT_S, Endpoint, given_endpoint
from .link import ConnectionAlone, Guide, Link
from .link import finish as finish

T = TypeVar("T")
P = ParamSpec("P")


class LinkPool:
    """Links for the threads of one client: taken, used, put back. The last one back is taken first, while warm.

    No lock: a list's `append` and `pop` are each one step for all threads.
    """

    def __init__(self, endpoint: Endpoint, guide: Guide | None = None) -> None:
        self.endpoint, self._guide = endpoint, guide
        self._idle: list[Link] = []
        self._is_closed, self._pid = False, os.getpid()

    def take(self) -> Link:
        if self._pid != os.getpid():
            # A fork shares its parent's sockets: leave them alone, and start with none.
            self._pid, self._idle = os.getpid(), []
        try:
            return self._idle.pop()
        except IndexError:
            return Link(self.endpoint, self._guide)

    def put(self, link: Link) -> None:
        self._idle.append(link)
        if self._is_closed:  # asked behind: whoever comes last closes it
            self.close()

    def lend(self) -> Lent:
        """A link for the length of a block; what can't be read in it is a DataError."""
        return Lent(self)

    def close(self) -> None:
        self._is_closed = True
        with suppress(IndexError):  # the last one, or another thread was faster
            while True:
                self._idle.pop().close()


class Lent:
    """A link that is put back at the end of its block."""

    __slots__ = ("_link", "_pool")

    def __init__(self, pool: LinkPool) -> None:
        self._pool, self._link = pool, pool.take()

    def __enter__(self) -> Link:
        return self._link

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._pool.put(self._link)
        if error is not None:
            Reading(self._pool.endpoint.name).__exit__(kind, error, trace)


class BlockingNet:
    """A Net over links to one server. What it waits for, it waits for in the thread that calls.

    Nothing connects before it is needed; `start` starts a server then if none was given.
    """

    def __init__(self, redis: Any, start: Callable[[], Endpoint]) -> None:
        self._endpoint, self._start = given_endpoint(redis), start
        self._pool: LinkPool | None = None
        self.guide: Guide | None = None
        """The queue's session: its generation goes with each call, and it checks each new connection first."""
        self._connecting, self._first_use = threading.Lock(), threading.RLock()

    def check_reply_time(self, options: QueueOptions) -> None:
        """Raises ConfigurationError if the reply to a wait for replicas may be taken for a lost one."""
        if self._endpoint and options.wait_replicas:
            reply_s = getattr(self._endpoint.make(), "socket_timeout", None) or SOCKET_TIMEOUT_S
            if options.wait_timeout_s >= reply_s:
                raise ConfigurationError("wait_timeout_too_long", wait_s=options.wait_timeout_s, reply_s=reply_s)

    @property
    def name(self) -> str:
        """How to call the server in a text, whether it was needed yet or not."""
        return self._endpoint.name if self._endpoint else "the embedded server"

    @property
    def endpoint(self) -> Endpoint:
        """The server; starts the embedded one when no other was given."""
        if self._endpoint is None:
            self._endpoint = self._start()
        return self._endpoint

    # -- links --------------------------------------------------------------------------------------------------

    def link(self) -> Lent:
        """A link for the length of the block. Raises ServerUnavailable, ServerNotUsable."""
        return (self._pool or self.connect()).lend()

    def connect(self) -> LinkPool:
        """Connect and check the server, unless that is done. Raises ServerUnavailable, ServerNotUsable."""
        with self._connecting:
            if self._pool is None:
                pool = LinkPool(self.endpoint, self.guide)
                with pool.lend() as link:
                    link.connection()
                self._pool = pool
            return self._pool

    def close(self) -> None:
        """Close the links; the next use connects again."""
        with self._connecting:
            pool, self._pool = self._pool, None
        if pool:
            pool.close()

    # -- for operations -----------------------------------------------------------------------------------------

    async def ask(self, call: Call[T], *, wait: tuple[int, int] | None = None) -> Answer[T]:
        with self.link() as link:
            (value,) = link.run((call,), wait=wait)
            return Answer(value, link.is_repeat, link.confirmed)

    async def ask_all(
        self,
        calls: Sequence[Call[Any]],
        *,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer[list[Any]]:
        with self.link() as link:
            values = link.run(calls, is_atomic=is_atomic, wait=wait, meanwhile=meanwhile) if calls else []
            return Answer(values, link.is_repeat, link.confirmed)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        with self.link() as link:
            return link.commands(commands) if commands else []

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Alone]:
        pool = self.connect()
        link = pool.take()
        try:
            link.refresh()  # a connection that had gone stale would lose what is sent first
            one = ConnectionAlone(link.connection(), self.name)
            yield one
            if one.is_given_up:
                link.close()
        except BaseException:
            link.close()
            raise
        finally:
            pool.put(link)

    @asynccontextmanager
    async def once(self) -> AsyncIterator[None]:
        with self._first_use:
            yield

    async def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Listing(Iterator[T]):
    """What a look finds, read page by page while it is iterated. It has no length; it is false when nothing is left."""

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


def blocking_list(
    operation: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Listing[T]]:
    """The blocking method for an operation that yields; as `blocking`."""

    @functools.wraps(operation)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Listing[T]:
        return Listing(operation(self._session, *args, **kwargs))

    method.__signature__ = _signature(operation)  # type: ignore[attr-defined]
    return method


def blocking(operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The blocking method of a client class for an operation over its `_session`: same parameters, same docstring."""

    @functools.wraps(operation)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(operation(self._session, *args, **kwargs))

    method.__signature__ = _signature(operation)  # type: ignore[attr-defined]
    return method


def _signature(operation: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(operation)
    first, *others = signature.parameters.values()
    own = first.replace(name="self", annotation=inspect.Parameter.empty)
    returned = str(signature.return_annotation).replace("AsyncIterator", "Iterator")
    return signature.replace(parameters=[own, *others], return_annotation=returned)
