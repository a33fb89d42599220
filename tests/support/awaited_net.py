"""The awaited net: one connection for all tasks of a loop, one round trip after the other.

It proves that operations run over another net than the blocking one; no client of ours uses it. What may be sent again,
how a batch is sent and read, and what an error means are the blocking net's own rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from sequencer.calls.call import Call
from sequencer.calls.net_protocol import Alone, Answer, Command
from sequencer.errors import ServerUnavailable
from sequencer.net.endpoint import TIMEOUTS, Connection, Endpoint, driver_options
from sequencer.net.link import Guide
from sequencer.net.refusals import translate, unrefused
from sequencer.net.repeats import ROUNDS, Repeats, RoundTrip

T = TypeVar("T")


class AwaitedNet:
    """A Net for one event loop. Nothing connects before it is needed."""

    def __init__(self, endpoint: Endpoint) -> None:
        """The endpoint must have been made from a URL."""
        self.name = endpoint.name
        pool = redis.asyncio.ConnectionPool.from_url(str(endpoint.url))
        options = {**driver_options(pool, TIMEOUTS), "retry": Retry(NoBackoff(), 0)}
        self._make: Callable[[], Connection] = lambda: pool.connection_class(**options)
        self._connection: Connection = None
        self._known: set[str] = set()
        self.guide: Guide | None = None
        """The queue's session, as of a BlockingNet."""
        self._turn = asyncio.Lock()
        self._first_uses: dict[str, asyncio.Lock] = {}

    async def close(self) -> None:
        """Close the connection; the next use connects anew."""
        async with self._turn:
            await self._disconnect()

    # -- for operations -----------------------------------------------------------------------------------------

    async def ask(
        self, call: Call[T], *, wait: tuple[int, int] | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Answer[T]:
        answer = await self.ask_all((call,), wait=wait, meanwhile=meanwhile)
        return Answer(answer.value[0], answer.is_repeat, answer.confirmed)

    async def ask_all(
        self,
        calls: Sequence[Call[Any]],
        *,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer[list[Any]]:
        async def once(connection: Connection) -> tuple[list[Any], int]:
            def make(call: Call[Any]) -> Command:
                return call.known_command(self._known, self.guide.generation if self.guide else "")

            def make_whole(call: Call[Any]) -> Command:
                return call.eval_command(self.guide.generation if self.guide else "")

            round_trip = RoundTrip(calls, make, make_whole=make_whole, is_atomic=is_atomic, wait=wait)
            if again := round_trip.again(await self._exchange(connection, round_trip.commands(), meanwhile)):
                round_trip.take_again(await self._exchange(connection, again))
            for _ in range(ROUNDS) if self.guide and round_trip.stale() else ():
                assert self.guide
                await self.guide.find_generation(_OnConnection(self, connection))
                round_trip.take_again(await self._exchange(connection, round_trip.stale()))
                if not round_trip.stale():
                    break
            return round_trip.values(self.name), round_trip.confirmed

        if not calls:
            return Answer([])
        (values, confirmed), is_repeat = await self._repeated(calls, once)
        return Answer(values, is_repeat, confirmed)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        async def once(connection: Connection) -> list[Any]:
            return await self._exchange(connection, commands)

        answers, _ = await self._repeated(None, once) if commands else ([], False)
        for answer in answers:
            if isinstance(answer, Exception):
                raise translate(answer, self.name) from answer
        return answers

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Alone]:
        await self.read([("PING",)])  # a connection that had gone stale would lose what is sent first
        async with self._turn:
            one = _OnConnection(self, await self._connected())
            try:
                yield one
            except BaseException:
                one.give_up()
                raise
            finally:
                if one.is_given_up:
                    await self._disconnect()

    @asynccontextmanager
    async def once(self, name: str) -> AsyncIterator[None]:
        async with self._first_uses.setdefault(name, asyncio.Lock()):
            yield

    async def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # -- the connection, for who has its turn -------------------------------------------------------------------

    async def _repeated(
        self, calls: Sequence[Call[Any]] | None, once: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> tuple[T, bool]:
        """What it gives in the end, and whether a first attempt may have been carried out."""
        repeats: Repeats | None = None
        async with self._turn:
            while True:
                is_sent = False
                try:
                    connection = await self._connected()
                    is_sent = True
                    return await once(connection), repeats is not None and repeats.maybe_sent
                except (redis.RedisError, OSError, ServerUnavailable) as error:
                    await self._disconnect()
                    repeats = repeats or Repeats(calls)
                    failure = repeats.failed(error, self.name, is_sent=is_sent)
                    if failure is error:
                        raise
                    if failure:
                        raise failure from error
                await asyncio.sleep(repeats.delay_s)

    async def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._make()
            try:
                try:
                    await connection.connect()
                except (redis.RedisError, OSError, UnicodeError) as error:
                    raise translate(error, self.name) from error
                if self.guide:
                    await self.guide.refresh(_OnConnection(self, connection), is_new=True)
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            self._connection, self._known = connection, set()
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _exchange(
        self, connection: Connection, commands: Sequence[Command], meanwhile: Callable[[], None] | None = None
    ) -> list[Any]:
        """The answers, errors of the server's among them."""
        answers: list[Any] = []
        try:
            await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            if meanwhile:
                meanwhile()
            for _ in commands:
                try:
                    answers.append(await connection.read_response())
                except redis.ResponseError as error:
                    answers.append(error)
        except BaseException:
            # An answer may still be on its way: this connection would give it to the next question.
            await self._disconnect()
            raise
        return answers


class _OnConnection:
    """One connection as an `Alone`: what is sent is sent once, on it or not at all."""

    def __init__(self, net: AwaitedNet, connection: Connection) -> None:
        self._net, self._connection, self.name = net, connection, net.name
        self.is_given_up = False

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        return unrefused(await self.answers(commands))

    async def answers(self, commands: Sequence[Command]) -> list[Any]:
        name = self._net.name
        try:
            if self.is_given_up:  # the driver would connect anew
                raise redis.ConnectionError("the connection was lost between two commands")
            answers = await self._net._exchange(self._connection, commands)
        except BaseException as error:
            self.give_up()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, name) from error
            raise
        return [translate(answer, name) if isinstance(answer, Exception) else answer for answer in answers]

    def give_up(self) -> None:
        self.is_given_up = True
