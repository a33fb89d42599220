"""What a link is told of a queue: the route that its calls bring, and when to look whether that is still so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .endpoint import Connection

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
