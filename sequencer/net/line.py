"""One connection of an event loop, on which many tasks ask at once.

Questions of one turn of the loop leave in one write. One task reads the answers, which come in the order of the
questions. A caller that is cancelled leaves its question behind: the answer is read, and given to nobody.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import redis

from ..calls.net_protocol import Command
from .endpoint import Connection, packer
from .link import in_utf8
from .refusals import SILENT, translate


class Line:
    """Connect it, ask, close it. For one event loop."""

    def __init__(self, make: Callable[[], Connection], name: str, timeout_s: float) -> None:
        """`make`: a connection of redis.asyncio, not connected yet, without a time limit; in a thread, as it may ask
        Sentinel. `timeout_s`: for the next answer.
        """
        self.name, self.known = name, set[str]()  # scripts that were sent in full on it
        self._heard_at = 0.0
        self._make, self._timeout_s = make, timeout_s
        self._connection: Connection = None
        self._asked = deque[tuple[asyncio.Future[list[Any]], int, float]]()
        self._unsent: list[bytes] = []
        self._reader: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._is_retired = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed: Callable[[], Coroutine[Any, Any, None]] | None = None

    @property
    def is_open(self) -> bool:
        return self._reader is not None and self._error is None and not self._is_retired

    async def connect(self, within_s: float = math.inf) -> None:
        """Raises ServerUnavailable, ServerNotUsable."""
        try:
            async with asyncio.timeout(min(within_s, self._timeout_s)):
                self._connection = await asyncio.to_thread(self._make)
                await self._connection.connect()
        except BaseException as error:
            if self._connection:
                await self._connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                error = redis.TimeoutError(SILENT)
            if isinstance(error, redis.RedisError | OSError | UnicodeError):
                raise translate(error, self.name) from error
            raise
        found = packer()
        self._pack = found.pack if found else self._connection.pack_command
        self._reader = asyncio.get_running_loop().create_task(self._read())

    def ask(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        """The answers, errors of the server's among them; or the driver's error with which the connection was lost."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        if not self.is_open:
            future.set_exception(self._error or redis.ConnectionError())
            return future
        try:
            packed = [piece for words in commands for piece in self._pack(*words)]
        except UnicodeEncodeError:  # hiredis packs strictly
            packed = [piece for words in commands for piece in self._pack(*map(in_utf8, words))]
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent += packed
        self._asked.append((future, len(commands), loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._check)
        return future

    def retire(self) -> None:
        """Close it once what was asked is answered: it leads to a server that became a replica."""
        self._is_retired = True
        if not self._asked:
            self.close()

    def close(self, error: BaseException | None = None) -> None:
        """Who still waits for an answer gets the error."""
        if self._error is None:
            self._error = error or redis.ConnectionError()
        if self._timer:
            self._timer.cancel()
        if self._reader:
            self._reader.cancel()
        connection = self._connection
        if connection._writer:  # its disconnect() waits, and close() must not
            connection._writer.close()
            self._closed, connection._reader, connection._writer = connection._writer.wait_closed, None, None
        asked, self._asked = self._asked, deque()
        for future, _, _ in asked:
            if not future.done():
                future.set_exception(self._error)

    async def closed(self) -> None:
        """Wait until it is closed at this end."""
        if self._closed:
            with suppress(OSError):
                await asyncio.wait_for(self._closed(), self._timeout_s)

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._error is None:
            self._connection._writer.writelines(unsent)  # send_packed_command would have each caller wait

    async def _read(self) -> None:
        time = asyncio.get_running_loop().time
        try:
            while self._error is None:
                answers = [await self._answer()]
                if not self._asked:
                    raise redis.InvalidResponse
                future, count, _ = self._asked[0]
                while len(answers) < count:
                    answers.append(await self._answer())
                self._asked.popleft()
                self._heard_at = time()
                if not future.done():
                    future.set_result(answers)
                if self._is_retired and not self._asked:
                    self.close()
        except (redis.RedisError, OSError) as error:
            self.close(error)
        finally:
            self.close()

    async def _answer(self) -> Any:
        try:
            return await self._connection.read_response()
        except redis.ResponseError as error:
            return error

    def _check(self) -> None:
        """Whether the server has been silent for too long since the oldest question was asked."""
        self._timer = None
        if not self._asked:
            return
        loop = asyncio.get_running_loop()
        left_s = max(self._asked[0][2], self._heard_at) + self._timeout_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._check)
        else:
            self.close(redis.TimeoutError(SILENT))


class WaitingLine(Line):
    """WAIT holds up its connection: what is asked while one is out is sent together behind it, with one WAIT."""

    _queued: list[tuple[Sequence[Command], asyncio.Future[list[Any]]]]
    _waits: asyncio.Task[None] | None = None

    def ask(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        if commands[-1][0] != "WAIT":
            return super().ask(commands)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        if self._waits is None or self._waits.done():
            self._queued, self._waits = [], loop.create_task(self._wait())
        self._queued.append((commands, future))
        return future

    async def _wait(self) -> None:
        while self._queued:
            queued, self._queued = self._queued, []
            try:
                together = [one for asked, _ in queued for one in asked[:-1]]
                *answers, confirmed = await super().ask([*together, queued[0][0][-1]])
                for asked, future in queued:
                    own, answers = answers[: len(asked) - 1], answers[len(asked) - 1 :]
                    if not future.done():
                        future.set_result([*own, confirmed])
            except Exception as error:
                for _, future in queued:
                    if not future.done():
                        future.set_exception(error)
