"""One connection alone, as operations ask it; and a session as links ask it: on the connection that they have."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import redis

from ..calls.net_protocol import Alone, Command
from .endpoint import Connection, receive, send
from .refusals import translate, unrefused

T = TypeVar("T")


LOOK_EVERY_S = 60.0
"""How long what was seen of a server and a queue is believed, on a connection that is used."""


class Guide(Protocol):
    """What a link is told of a queue. Its methods use the connection that they get, on which nothing is in flight."""

    @property
    def route(self) -> str:
        """The route of the queue, as it is known now; "" while the queue was not found."""
        ...

    def look(self, connection: Connection) -> None:
        """Look whether server and queue are as they were: with each new connection, and each LOOK_EVERY_S of use."""
        ...

    def find_route(self, connection: Connection) -> None:
        """A lane has another route than this one. Raises SequencerError where none is found."""
        ...


class Follower:
    """The guide of a link that only follows: the claim behind a wait comes back, and the next one goes elsewhere."""

    def __init__(self, route: Callable[[], str]) -> None:
        self._route = route

    @property
    def route(self) -> str:
        return self._route()

    def look(self, connection: Any) -> None:
        pass

    def find_route(self, connection: Any) -> None:
        pass


class QueueGuide(Protocol):
    """What a session tells of its queue, asked over one connection alone."""

    route: str
    """"" while the queue was not found."""

    async def look(self, alone: Alone) -> None: ...

    async def find_route(self, alone: Alone) -> None: ...


class LinkGuide:
    """A session as links ask it."""

    def __init__(self, queue: QueueGuide, name: Callable[[], str]) -> None:
        """`name`: how to call the server in a text."""
        self._queue, self._name = queue, name

    @property
    def route(self) -> str:
        return self._queue.route

    def look(self, connection: Connection) -> None:
        finish(self._queue.look(ConnectionAlone(connection, self._name())))

    def find_route(self, connection: Connection) -> None:
        finish(self._queue.find_route(ConnectionAlone(connection, self._name())))


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
