"""The awaited net: all tasks of an event loop share one connection, and a second one where they wait for replicas."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, Unpack

import redis

from ..calls.call import Call
from ..calls.net_protocol import Alone, Answer, Command, How
from ..errors import SequencerError, ServerUnavailable
from ..settings.options import Replicas
from .cluster_line import AnyLine, ClusterLine
from .endpoint import CALL_TIMEOUT_S, Endpoint, ServedNet
from .line import Line, WaitingLine
from .link import CHECK_EVERY_S, INVALIDATED, REFRESH_EVERY_S, Guide, OneConnection
from .refusals import NodeAway
from .repeats import Repeats, round_trip
from .slots import Place, named

T = TypeVar("T")


@dataclass(slots=True)
class _OfLoop:
    """What one event loop has: a line (False), one that waits for replicas (True), and one that is free (None)."""

    lines: dict[bool | None, AnyLine] = field(default_factory=dict)
    connecting: dict[bool, asyncio.Task[AnyLine | SequencerError]] = field(default_factory=dict)
    first_use: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: asyncio.Task[Any] | None = None
    failure: ServerUnavailable | None = None  # that of the last first use
    refresh_at: float = 0.0


class AwaitedNet(ServedNet):
    """A Net for event loops: each has its own connection. Nothing connects before it is needed."""

    def __init__(self, redis: Any, start: Callable[[], Endpoint]) -> None:
        super().__init__(redis, start)
        self.guide: Guide | None = None
        self._loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}

    async def close(self) -> None:
        """Close the connections of the running loop; the next use connects again."""
        here = self._here
        lines, here.lines = [*here.lines.values()], {}
        for line in lines:
            line.close()
        for line in lines:
            await line.closed()

    @property
    def _here(self) -> _OfLoop:
        loop = asyncio.get_running_loop()  # another one in a fork: its parent's sockets are left alone
        found = self._loops.get(loop)
        if found is None:
            for one in [one for one in [*self._loops] if one.is_closed()]:
                self._loops.pop(one, None)
            found = self._loops[loop] = _OfLoop()
        return found

    # -- for operations -----------------------------------------------------------------------------------------

    async def ask(self, call: Call[T], *, wait: Replicas = None) -> Answer[T]:
        answer = await self.ask_all((call,), wait=wait)
        return Answer(answer.value[0], answer.is_repeat, answer.confirmed)

    async def ask_all(self, calls: Sequence[Call[Any]], **how: Unpack[How]) -> Answer[list[Any]]:
        repeats: Repeats | None = None
        began, line = time.monotonic(), None
        while calls:
            is_sent = False
            try:
                line = await self._line(waits=how.get("wait") is not None)
                is_sent = True
                values, confirmed = await self._once(line, calls, began, **how)
                return Answer(values, repeats is not None and repeats.maybe_sent, confirmed)
            except (redis.RedisError, OSError, ServerUnavailable) as error:
                if line and isinstance(error, ServerUnavailable) and error.code in ("is_replica", "became_replica"):
                    line.retire()
                repeats = repeats or Repeats(calls, self.endpoint.attempts)
                is_over = time.monotonic() - began >= self.endpoint.total_s
                failure = repeats.failed(error, self.name, is_sent=is_sent, is_over=is_over)
                if failure is error:
                    raise
                if failure:
                    raise failure from error
            await asyncio.sleep(next(repeats.delays))
        return Answer([])

    async def _once(
        self,
        line: AnyLine,
        calls: Sequence[Call[Any]],
        began: float,
        *,
        wait: Replicas = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[list[Any], int]:
        def command(call: Call[Any]) -> Command:
            return call.known_command(line.known, self._generation)

        def whole(call: Call[Any]) -> Command:
            return call.eval_command(self._generation)

        trip = round_trip(calls, command, whole, self.endpoint, self.guide is not None, began, wait)
        answers: Any = None
        try:
            while True:
                commands = trip.send(answers)
                if commands is None:
                    assert self.guide
                    await self.guide.find_generation(self._alone(line))
                elif isinstance(commands, float):
                    await asyncio.sleep(commands)
                else:
                    asked = line.ask(commands)
                    if meanwhile:
                        meanwhile()
                        meanwhile = None
                    answers = await asked
        except StopIteration as end:
            values, confirmed = end.value
            return values, confirmed

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Repeated once, as the connection may have gone stale."""
        if not commands:
            return []
        until = self._until()
        line = await self._line(waits=False)
        try:
            return await self._alone(line, until).read(commands, NodeAway)
        except ServerUnavailable:
            if line.is_open:  # the server says so
                raise
        return await self._alone(await self._line(waits=False), until).read(commands, NodeAway)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Alone]:
        here = self._here
        line = here.lines.pop(None, None)
        if line is None or not line.is_open:
            line = await self._connected()
        one = self._alone(line)
        try:
            yield one
            if not one.is_given_up:
                here.lines.setdefault(None, line)
        finally:
            if here.lines.get(None) is not line:
                line.close()

    @asynccontextmanager
    async def once(self) -> AsyncIterator[None]:
        """Who waited while the server could not be reached gets that error: a hundred do not try one by one."""
        here, task = self._here, asyncio.current_task()
        if here.inside is task:  # as an RLock: the first use may lead to another
            yield
            return
        before = here.failure
        async with here.first_use:
            if here.failure is not before and here.failure:
                raise copy(here.failure) from here.failure
            here.inside = task
            try:
                yield
            except ServerUnavailable as error:
                here.failure = error
                raise
            finally:
                here.inside = None

    async def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # -- lines --------------------------------------------------------------------------------------------------

    @property
    def _generation(self) -> str:
        return self.guide.generation if self.guide else ""

    def _until(self) -> float:
        return time.monotonic() + (self._endpoint.total_s if self._endpoint else CALL_TIMEOUT_S)

    def _alone(self, line: AnyLine, until: float = math.inf) -> OneConnection:
        cluster = line if isinstance(line, ClusterLine) else None
        return OneConnection(line.name, line.ask, asyncio.sleep, self.endpoint.total_s, until, cluster)

    async def _connected(self, *, waits: bool = False) -> AnyLine:
        kind, endpoint = WaitingLine if waits else Line, await asyncio.to_thread(lambda: self.endpoint)

        def made(place: Place | None = None) -> Line:
            name = f"{named(place)} of {self.name}" if place else self.name
            return kind(partial(endpoint.make_awaited, place), name, endpoint.total_s)

        line: AnyLine = ClusterLine(endpoint.cluster, self.name, made) if endpoint.cluster else made()
        await line.connect()
        try:
            if self.guide:
                await self.guide.refresh(self._alone(line), is_new=True)
        except BaseException:
            line.close()
            raise
        return line

    async def _line(self, *, waits: bool) -> AnyLine:
        here = self._here
        line = here.lines.get(waits)
        if line and line.is_open and self.guide:
            await self._check_again(here, line, self.guide)
        if line and line.is_open:
            return line
        task = here.connecting.get(waits)
        if task is None:
            task = here.connecting[waits] = asyncio.create_task(self._connect(here, waits), context=Context())
            task.add_done_callback(lambda _: here.connecting.pop(waits))
        found = await asyncio.shield(task)  # of many that wait for it, one may be cancelled
        if isinstance(found, SequencerError):
            raise copy(found) from found
        return found

    async def _connect(self, here: _OfLoop, waits: bool) -> AnyLine | SequencerError:
        try:
            free = None if waits else here.lines.pop(None, None)
            line = free if free and free.is_open else await self._connected(waits=waits)
            here.lines[waits] = line
            self._set_times(here)
        except SequencerError as error:
            return error
        return line

    def _set_times(self, here: _OfLoop) -> None:
        now = asyncio.get_running_loop().time()
        here.refresh_at = now + REFRESH_EVERY_S
        if self.guide:
            self.guide.check_at = now + CHECK_EVERY_S

    async def _check_again(self, here: _OfLoop, line: AnyLine, guide: Guide) -> None:
        """By one task of many, which do not wait for it."""
        now = asyncio.get_running_loop().time()
        if now < here.refresh_at and now < guide.check_at:
            return
        is_refresh = now >= here.refresh_at
        self._set_times(here)
        try:
            await (guide.refresh(self._alone(line), is_new=False) if is_refresh else guide.check(self._alone(line)))
        except ServerUnavailable:  # the connection may be all that is lost
            line.close()
        except BaseException:
            guide.check_at = INVALIDATED
            raise
