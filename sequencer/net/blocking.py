"""The blocking net: links of one client, whose methods never suspend."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from asyncio import _get_running_loop  # in C: 30 ns
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, Unpack

from ..calls.call import Call
from ..calls.net_protocol import Alone, Answer, Command, How
from ..settings.options import Replicas
from ..store.replies import Reading
from ..texts.refusals import refusal_text
from .endpoint import Endpoint, ServedNet
from .link import ConnectionAlone, Guide, Link
from .link import finish as finish

T = TypeVar("T")


class LinkPool:
    """Links for the threads of one client. No lock: a list's `append` and `pop` are each one step for all threads."""

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
        if self._is_closed:  # asked behind: the last one closes it
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


class BlockingNet(ServedNet):
    """A Net over links to one server: it waits in the calling thread. Nothing connects before it is needed."""

    def __init__(self, redis: Any, start: Callable[[], Endpoint]) -> None:
        super().__init__(redis, start)
        self._pool: LinkPool | None = None
        self.guide: Guide | None = None
        """The queue's session: its generation goes with each call, and it checks each new connection first."""
        self._connecting, self._first_use = threading.Lock(), threading.RLock()
        self._has_warned = False

    # -- links --------------------------------------------------------------------------------------------------

    def link(self) -> Lent:
        """A link for the length of the block. Raises ServerUnavailable, ServerNotUsable."""
        if _get_running_loop() is not None and not self._has_warned:
            self._warn()
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

    def _warn(self) -> None:
        """Once for each client, where the caller stands: all tasks of its event loop wait for this one."""
        self._has_warned = True
        if self.endpoint.is_real:
            level, frame = 1, sys._getframe()
            while frame.f_back and frame.f_globals.get("__name__", "").startswith("sequencer."):
                level, frame = level + 1, frame.f_back
            warnings.warn(refusal_text("blocks_loop", {}), RuntimeWarning, stacklevel=level)

    def close(self) -> None:
        """Close the links; the next use connects again."""
        with self._connecting:
            pool, self._pool = self._pool, None
        if pool:
            pool.close()

    # -- for operations -----------------------------------------------------------------------------------------

    async def ask(self, call: Call[T], *, wait: Replicas = None) -> Answer[T]:
        with self.link() as link:
            (value,) = link.run((call,), wait=wait)
            return Answer(value, link.is_repeat, link.confirmed)

    async def ask_all(self, calls: Sequence[Call[Any]], **how: Unpack[How]) -> Answer[list[Any]]:
        with self.link() as link:
            values = link.run(calls, **how) if calls else []
            return Answer(values, link.is_repeat, link.confirmed)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        with self.link() as link:
            return link.commands(commands) if commands else []

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Alone]:
        pool = self.connect()
        link = pool.take()
        try:
            # A connection that had gone stale would lose what is sent first.
            one = ConnectionAlone(link.refresh(), self.name, self.endpoint.total_s)
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
