"""One connection alone, as operations ask it; a session as links ask it, on the connection that they have; and when.

`finish` runs an operation over a net that never suspends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import redis

from ..calls.net_protocol import Alone, Command
from .endpoint import Connection, receive, send
from .refusals import translate, unrefused

T = TypeVar("T")
LOOK_EVERY_S = 60.0
"""How long what was seen of a server and a queue is believed, on a connection that is used."""
CHECK_EVERY_S = 2.0
"""How long a client that is used believes that its server evicts nothing. What is evicted meanwhile is lost; to ask
costs the server 8 us.
"""
DOUBTED = 0.0
"""`check_at` of a client that lost something: it checks at the next call."""


class Guide(Protocol):
    """What a link is told of a queue. Its methods use the connection that they get, on which nothing is in flight."""

    check_at: float
    """When one of the client's links is to check the server again, by the clock of links."""

    @property
    def route(self) -> str:
        """The route of the queue, as it is known now; "" while the queue was not found."""
        ...

    def look(self, connection: Connection, *, is_new: bool) -> None:
        """Look whether server and queue are as they were: with each new connection, and each LOOK_EVERY_S of use."""
        ...

    def check(self, connection: Connection) -> None:
        """Check whether the server evicts keys by now: each CHECK_EVERY_S of use, and where something was lost."""
        ...

    def find_route(self, connection: Connection) -> None:
        """A lane has another route than this one. Raises SequencerError where none is found."""
        ...


class Follower:
    """The guide of a link that only follows: the claim behind a wait comes back, and the next one goes elsewhere."""

    check_at = math.inf

    def __init__(self, route: Callable[[], str]) -> None:
        self._route = route

    @property
    def route(self) -> str:
        return self._route()

    def look(self, connection: Any, *, is_new: bool) -> None:
        pass

    def check(self, connection: Any) -> None:
        pass

    def find_route(self, connection: Any) -> None:
        pass


class QueueGuide(Protocol):
    """What a session tells of its queue, asked over one connection alone."""

    route: str
    """"" while the queue was not found."""

    async def look(self, alone: Alone, *, is_new: bool) -> None: ...

    async def check(self, alone: Alone) -> None: ...

    async def find_route(self, alone: Alone) -> None: ...


class LinkGuide:
    """A session as links ask it."""

    def __init__(self, queue: QueueGuide, name: Callable[[], str]) -> None:
        """`name`: how to call the server in a text."""
        self._queue, self._name = queue, name
        self.check_at = 0.0

    @property
    def route(self) -> str:
        return self._queue.route

    def look(self, connection: Connection, *, is_new: bool) -> None:
        finish(self._queue.look(ConnectionAlone(connection, self._name()), is_new=is_new))

    def check(self, connection: Connection) -> None:
        finish(self._queue.check(ConnectionAlone(connection, self._name())))

    def find_route(self, connection: Connection) -> None:
        finish(self._queue.find_route(ConnectionAlone(connection, self._name())))


class Looks:
    """The looks of one link, of which nothing is unread. Without a guide there are none."""

    __slots__ = ("_guide", "_look_at", "is_astray", "is_idle", "may_look")

    def __init__(self, guide: Guide | None) -> None:
        self._guide = guide
        self._look_at = 0.0
        """When to look again at server and queue."""
        self.is_astray = False
        """Whether a call that was posted came back for its route."""
        self.may_look = True
        """Whether a connection that is there already is used to look; what is to be sent waits for that."""
        self.is_idle = False
        """Whether its consumer found nothing to do: then only a doubt has the server checked."""

    @property
    def route(self) -> str:
        """The route of the queue, as it is known now."""
        return self._guide.route if self._guide else ""

    @property
    def is_guided(self) -> bool:
        """Whether another route would be found."""
        return self._guide is not None

    @property
    def is_due(self) -> bool:
        """Whether there is a look before anything else is sent."""
        guide, now = self._guide, time.monotonic()
        if guide is None or not self.may_look:
            return False
        return now >= self._look_at or self._is_check_due(guide, now)

    def _is_check_due(self, guide: Guide, now: float) -> bool:
        return now >= guide.check_at and (guide.check_at == DOUBTED or not self.is_idle)

    def doubt(self) -> None:
        """Something was lost that the server should have: it is checked before this client sends anything else."""
        if self._guide:
            self._guide.check_at = DOUBTED

    def begin(self, connection: Connection) -> None:
        """Look over a new connection."""
        if self._guide:
            self._guide.look(connection, is_new=True)
            self._looked(self._guide)

    def again(self, connection: Connection) -> None:
        """Look over one that is there already, if it is time for that."""
        guide = self._guide
        if guide is None:
            return
        if self.is_astray:
            self.find_route(connection)
        elif self.may_look:
            now = time.monotonic()
            if now >= self._look_at:
                guide.look(connection, is_new=False)
                self._looked(guide)
            elif self._is_check_due(guide, now):
                self._check(guide, connection)

    def find_route(self, connection: Connection) -> None:
        """A lane has another route than the one that was brought."""
        if self._guide:
            self.is_astray = False
            self._guide.find_route(connection)

    def _check(self, guide: Guide, connection: Connection) -> None:
        guide.check_at = time.monotonic() + CHECK_EVERY_S  # first: other threads of the client need not check as well
        try:
            guide.check(connection)
        except BaseException:
            guide.check_at = DOUBTED
            raise

    def _looked(self, guide: Guide) -> None:
        now = time.monotonic()
        self._look_at, guide.check_at = now + LOOK_EVERY_S, now + CHECK_EVERY_S


class ConnectionAlone:
    """One connection as an `Alone`: what is sent is sent once, on it or not at all."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self.is_given_up = False
        """Whether it is to be closed at the end, as one that is lost is already."""

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        return unrefused(await self.answers(commands))

    async def answers(self, commands: Sequence[Command]) -> list[Any]:
        try:
            if self.is_given_up:  # the driver would connect anew
                raise redis.ConnectionError("the connection was lost between two commands")
            send(self._connection, commands)
            answers = receive(self._connection, len(commands))
        except BaseException as error:
            self.give_up()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self._name) from error
            raise
        return [translate(answer, self._name) if isinstance(answer, Exception) else answer for answer in answers]

    def give_up(self) -> None:
        self.is_given_up = True


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
