"""A line to each node of a cluster, behind one `ask`; its rules are those of cluster.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import redis

from ..calls.net_protocol import Command
from ..errors import SequencerError
from .cluster import Cluster, least
from .line import Line
from .slots import Place, by_node, guarded


class ClusterLine:
    """Connect it, ask, close it. For one event loop."""

    def __init__(self, cluster: Cluster, name: str, make: Callable[[Place], Line]) -> None:
        """`make`: a line to a node, not connected yet."""
        self.name, self.known, self.is_open = name, set[str](), True
        self._cluster, self._make = cluster, make
        self._lines: dict[Place, asyncio.Task[Line]] = {}
        self._near: Place | None = None  # the node that answered last
        self._pinned: Place | None = None  # as of ClusterConnection; only who is alone leaves a MULTI open

    async def connect(self) -> None:
        """Read the map, if it is stale. Raises SequencerError."""
        if self._cluster.map.is_stale:
            await asyncio.to_thread(self._cluster.refresh)

    def ask(self, commands: Sequence[Command]) -> asyncio.Task[list[Any]]:
        """As of Line; a node that can't be reached fails its own commands."""
        return asyncio.get_running_loop().create_task(self._ask(commands))

    async def _ask(self, commands: Sequence[Command]) -> list[Any]:
        if self._pinned is None:
            await self.connect()
        near = self._near or self._cluster.places()[0]
        routed, self._pinned = self._cluster.map.route(commands, near, self._pinned)
        found = by_node(commands, routed)
        answers: list[list[Any]] = [[] for _ in commands]
        of_nodes = [self.of_node(place, [guarded(commands[i]) for i in found[place]]) for place in found]
        for numbers, some in zip(found.values(), await asyncio.gather(*of_nodes), strict=True):
            for i, answer in zip(numbers, some, strict=True):
                answers[i].append(answer)
        return [*map(least, answers)]

    async def of_node(self, place: Place, commands: Sequence[Command]) -> list[Any]:
        is_sent = False
        try:
            self._cluster.check(place)
            line = await self._line(place)
            is_sent = True
            answers = await line.ask(commands)
            self._near = place
            return [self._cluster.noted(place, answer) for answer in answers]
        except (SequencerError, redis.RedisError, OSError) as error:
            self._near = None if self._near == place else self._near
            return [self._cluster.away(place, error, is_sent=is_sent)] * len(commands)

    async def _line(self, place: Place) -> Line:
        """One to that node. Raises SequencerError."""
        task = self._lines.get(place)
        if task is None or (task.done() and not any(line.is_open for line in connected([task]))):
            task = self._lines[place] = asyncio.get_running_loop().create_task(self._connect(place))
        return await asyncio.shield(task)

    async def _connect(self, place: Place) -> Line:
        line = self._make(place)
        await line.connect(self._cluster.connect_s)
        self._cluster.answered(place)
        return line

    async def primaries(self) -> list[Place]:
        return await asyncio.to_thread(self._cluster.primaries)

    def retire(self) -> None:
        for line in connected(self._lines.values()):
            line.retire()

    def close(self) -> None:
        self.is_open = False
        for task in self._lines.values():
            task.cancel()
        for line in connected(self._lines.values()):
            line.close()

    async def closed(self) -> None:
        for line in connected(self._lines.values()):
            await line.closed()


def connected(tasks: Iterable[asyncio.Task[Line]]) -> list[Line]:
    """The lines of those that connected, even if they are closed by now."""
    return [one.result() for one in tasks if one.done() and not one.cancelled() and not one.exception()]


AnyLine = Line | ClusterLine
