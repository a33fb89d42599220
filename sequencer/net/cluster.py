"""A connection to a cluster: one to each node, and each command goes to the node that has its first key.

It follows nothing and waits for nothing. A node that does not have a key says so, the map learns from it, and
`repeats.py` decides what is sent again, and when. An answer is read from the connection on which its command went:
by place, an old answer would go to a new question once a node's connection was replaced.

ASK is never followed: a shard would be written on two nodes at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..calls.net_protocol import Command
from ..errors import SequencerError, ServerNotUsable
from .refusals import BROKEN, NOT_HERE, SILENT, NodeAway, NotHere, translate
from .slots import Place, SlotMap, by_node, guarded, named

CONNECT_S = 0.75
"""How long each step of a connect to a node may take, and to ask it for the map; once nodes are away, all together."""
AWAY_S = CONNECT_S
"""How long a node that could not be reached is not asked again: then a call finds each of them away once at most."""
LATE_S = 0.1
"""How long an answer may have been on its way before the time for it is measured."""


class Cluster:
    """What connections to one cluster share: the map, and who is away. Connected only while the map is read, so threads
    and forks may share it.
    """

    make: Callable[[Place], Any]
    """Makes a connection of the driver to a node; is set before one is needed."""

    def __init__(self, seeds: Sequence[Place], name: str) -> None:
        self.map, self.name, self._seeds = SlotMap(), name, seeds
        self._failed: dict[Place, tuple[float, Exception | None]] = {}
        """When a node last failed to serve, until it answers; with what, if it could not be reached."""

    @property
    def connect_s(self) -> float:
        return CONNECT_S / (1 + len(self._failed))

    def places(self) -> list[Place]:
        """All that may know the map: first those that did not fail, then those that failed longest ago."""
        known = dict.fromkeys([*self.map.primaries, *self._seeds])
        return sorted(known, key=lambda one: self._failed.get(one, (0.0, None))[0])

    def refresh(self) -> None:
        """Read the map, if it is stale. Raises SequencerError where no node answers, and it never was read."""
        if not self.map.is_stale:
            return
        self.map.is_stale = False  # first: other threads go on with the one that is there
        failures, until = list[SequencerError](), time.monotonic() + CONNECT_S
        for place in self.places():
            try:
                self._read_map(place)
                return
            except (redis.RedisError, OSError, UnicodeError, ValueError, TypeError) as error:
                failures.append(translate(self.away(place, error), self.name))
            if self.map.primaries and time.monotonic() >= until:
                break
        self.map.is_stale = True
        if not self.map.primaries:
            raise next((one for one in failures if isinstance(one, ServerNotUsable)), failures[0])

    def primaries(self) -> list[Place]:
        """All of them, as far as a node that answers knows. Raises SequencerError."""
        self.map.is_stale = True
        self.refresh()
        return self.map.primaries

    def _read_map(self, place: Place) -> None:
        node = self.connected(place)
        try:
            node.send_command("CLUSTER", "SLOTS", check_health=False)
            if not node.can_read(self.connect_s):
                raise redis.TimeoutError(SILENT)
            self.map.read(node.read_response(), place)
            for one in {*self._failed}.difference(self.map.primaries):  # replaced, or only once named
                self._failed.pop(one, None)
        finally:
            node.disconnect()

    def noted(self, place: Place, answer: Any) -> Any:
        """A node's answer; NotHere where it did not carry out what it was asked."""
        self.answered(place)
        if isinstance(answer, redis.ResponseError) and BROKEN in str(answer):
            return NodeAway(answer, named(place), is_sent=False)  # in a way: it carries out nothing of ours
        if not isinstance(answer, NOT_HERE):
            return answer
        if isinstance(answer, redis.exceptions.MovedError):
            self.map.learn(answer, place)
        elif not isinstance(answer, redis.exceptions.AskError | redis.exceptions.TryAgainError):
            self._failed[place], self.map.is_stale = (time.monotonic(), None), True
        return NotHere(answer, named(place))

    def away(self, place: Place, error: Exception, *, is_sent: bool = False) -> NodeAway:
        self.map.is_stale = True
        if error is not self._failed.get(place, (0.0, None))[1]:  # it was asked again
            is_lost = is_sent and not isinstance(error, redis.TimeoutError)  # a connection of several, perhaps
            is_reached = is_lost or isinstance(error, redis.ResponseError | ValueError | TypeError)
            self._failed[place] = time.monotonic(), None if is_reached else error
        return NodeAway(error, named(place), is_sent=is_sent)

    def answered(self, place: Place) -> None:
        if self._failed:
            self._failed.pop(place, None)

    def is_away(self, place: Place) -> bool:
        """Whether it could not be reached, and is to prove by a connect that it can, which takes less time."""
        return bool(self._failed) and self._failed.get(place, (0.0, None))[1] is not None

    def check(self, place: Place) -> None:
        """Raises what a node failed with a moment ago."""
        at, error = self._failed.get(place, (0.0, None))
        if error and time.monotonic() - at < AWAY_S:
            raise error

    def connected(self, place: Place) -> Any:
        """A connection to that node, past all routing."""
        self.check(place)
        node = self.make(place)
        connect(node, self.connect_s)
        return node


def connect(node: Any, within_s: float) -> None:
    """Connect, each step within that time: a node that is frozen accepts connections, and is silent then."""
    reply_s = node.socket_timeout

    def greet(_: Any) -> None:
        node.socket_timeout = reply_s  # what parsers go by from then on
        node.on_connect()
        node._sock.settimeout(reply_s)

    node.socket_timeout = node.socket_connect_timeout = min(within_s, reply_s)
    node.redis_connect_func = greet
    node.connect()


def least(answers: Sequence[Any]) -> Any:
    """The one answer, or of several to WAIT an error or the least."""
    errors = [one for one in answers if isinstance(one, Exception)]
    return (errors or answers)[0] if errors or len(answers) == 1 else min(answers)


class Node:
    """A connection to one node. What it failed with is the answer to all that was asked on it, and not read yet."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self.place, self.driver, self.is_connected = place, cluster.make(place), False
        self.failure: NodeAway | None = None
        self._cluster, self._sent_at = cluster, 0.0

    def send(self, packed: Any) -> None:
        is_sent = False
        try:
            self._cluster.check(self.place)
            if not self.is_connected:
                connect(self.driver, self._cluster.connect_s)
                self.is_connected = True
                self._cluster.answered(self.place)
            is_sent, self._sent_at = True, time.monotonic()
            self.driver.send_packed_command(packed, check_health=False)
        except (SequencerError, redis.RedisError, OSError, UnicodeError) as error:
            self._fail(error, is_sent=is_sent)

    def read(self) -> Any:
        if self.failure:
            return self.failure
        try:
            waited_s = time.monotonic() - self._sent_at  # for other nodes, which were asked at the same time
            if waited_s > LATE_S and not self.driver.can_read(max(0.0, self.driver.socket_timeout - waited_s)):
                raise redis.TimeoutError(SILENT)
            answer = self.driver.read_response()
        except redis.ResponseError as error:
            answer = error
        except (redis.RedisError, OSError) as error:
            return self._fail(error, is_sent=True)
        return self._cluster.noted(self.place, answer)

    def _fail(self, error: Exception, *, is_sent: bool) -> NodeAway:
        self.driver.disconnect()
        self.failure = self._cluster.away(self.place, error, is_sent=is_sent)
        return self.failure


class ClusterConnection:
    """What is used of a driver's connection. Nothing connects to a node before it is sent something."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._map = cluster, cluster.map
        self._nodes: dict[Place, Node] = {}
        self._unread: deque[list[Node]] = deque()  # where each answer will come from, WAIT's from several
        self._near: Place | None = None  # the node that answered last
        self._pinned: Place | None = None  # the node on which a MULTI is open

    def connect(self) -> None:
        """Read the map, if it is stale. Raises SequencerError."""
        self._cluster.refresh()

    def disconnect(self, *_: Any) -> None:
        nodes, self._nodes = [*self._nodes.values()], {}
        self._unread.clear()
        self._near = self._pinned = None
        for node in nodes:
            node.driver.disconnect()

    def send_command(self, *words: Any, **_: Any) -> None:
        """By a short way where there is nothing to decide: a tenth less time for an append."""
        place = None if self._map.is_stale or self._pinned else self._map.owner(words)
        if place:
            node = self._node(place)
            node.send(node.driver.pack_command(*guarded(words)))
            self._unread.append([node])
        else:
            self.send_packed_command([words])

    def pack_commands(self, commands: Sequence[Command]) -> Sequence[Command]:
        return commands

    def send_packed_command(self, commands: Sequence[Command], **_: Any) -> None:
        """A node that can't be reached fails its own commands, when they are read. Raises UnicodeEncodeError, and sends
        nothing then.
        """
        if self._pinned is None:
            self._cluster.refresh()
        routed, pinned = self._map.route(commands, self._near or self._cluster.places()[0], self._pinned)
        sources: list[list[Node]] = [[] for _ in commands]
        packed = dict[Node, Any]()
        for place, numbers in by_node(commands, routed).items():
            node = self._node(place)
            packed[node] = node.driver.pack_commands([guarded(commands[i]) for i in numbers])
            for i in numbers:
                sources[i].append(node)
        self._pinned = pinned
        for node in sorted(packed, key=lambda one: not one.is_connected):  # others must not wait for a connect
            node.send(packed[node])
        self._unread += sources

    def _node(self, place: Place) -> Node:
        node = self._nodes.get(place)
        if node is None or node.failure or self._cluster.is_away(place):
            node = self._nodes[place] = Node(self._cluster, place)
        return node

    def read_response(self, *_: Any, **__: Any) -> Any:
        if not self._unread:
            raise redis.ConnectionError
        nodes = self._unread.popleft()
        answer = least([one.read() for one in nodes])
        self._near = None if nodes[0].failure else nodes[0].place
        if isinstance(answer, Exception):
            raise answer
        return answer

    def can_read(self, timeout: float = 0) -> bool:
        """Whether the next answer is there; while none is awaited, whether a node has closed its connection."""
        if self._unread:
            first = self._unread[0][0]
            return bool(first.failure or first.driver.can_read(timeout))
        return any(one.driver.can_read(0) for one in self._nodes.values() if one.is_connected and not one.failure)

    async def primaries(self) -> list[Place]:
        return self._cluster.primaries()

    async def of_node(self, place: Place, commands: Sequence[Command]) -> list[Any]:
        """What one node answers, past all routing."""
        node = self._node(place)
        node.send(node.driver.pack_commands(commands))
        return [node.read() for _ in commands]
