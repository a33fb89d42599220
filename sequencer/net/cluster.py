"""A connection to a cluster: one to each node, and each command goes to the node that has its first key.

It follows nothing and waits for nothing. A node that does not have a key says so, the map learns from it, and
`repeats.py` decides what is sent again, and when. An answer is read from the connection on which its command went:
by place, an old answer would go to a new question once a node's connection was replaced.

ASK is never followed: a shard would be written on two nodes at once.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import redis

from ..calls.net_protocol import Command
from ..errors import SequencerError, ServerNotUsable
from .refusals import BROKEN, NOT_HERE, NodeAway, NotHere, translate
from .slots import Place, SlotMap, by_node, guarded

MARK = "+cluster"
READ_MAP_S = 1.0
"""How long one node may take to answer with the map before the next one is asked."""
_URL = re.compile(r"(\w+)\+cluster://([^/?#]*@)?([^/?#@\s]+)(?:/0?)?(?:\?([^?#@]*))?")
AWAY_S = 0.5
"""How long a node that could not be reached is not asked again: one that is frozen takes the whole time limit of each
question.
"""
Node = Any
"""A connection of the driver to one node."""


def parse_cluster_url(url: str) -> tuple[list[Place], str, str]:
    """`redis+cluster://[user:pass@]h1[:6379],h2/[?options]`: its nodes, what its URL would be, were it a server called
    `node`, and the URL without what is secret. Raises ValueError.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError
    scheme, user, hosts, query = (part or "" for part in found.groups())
    parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
    seeds = [(one.hostname or "", one.port or 6379) for one in parts]
    if not all(host for host, _ in seeds):
        raise ValueError
    return seeds, f"{scheme}://{user}node/?{query}", f"{scheme}{MARK}://{'***@' if user else ''}{hosts}"


class Cluster:
    """What connections to one cluster share: the map. Connected only while it is read, so threads and forks may
    share it.
    """

    make: Callable[..., Node]
    """Makes a connection to a node; is set before one is needed."""

    def __init__(self, seeds: Sequence[Place], name: str, away_s: float = AWAY_S) -> None:
        self.map, self.name, self.timeout_s, self._away_s = SlotMap(seeds), name, READ_MAP_S, away_s
        self._away: dict[Place, tuple[float, Exception]] = {}

    def refresh(self) -> None:
        """Read the map, if it is stale. Raises SequencerError where no node answers, and it never was read."""
        if not self.map.is_stale:
            return
        self.map.is_stale = False  # first: other threads go on with the one that is there
        failures, began = list[SequencerError](), time.monotonic()
        for place in self.map.places():
            try:
                self._read(place)
                return
            except (redis.RedisError, OSError, UnicodeError, ValueError, TypeError) as error:
                self.away(place, error, is_sent=False)
                failures.append(translate(error, f"{named(place)} of {self.name}"))
            if self.map.primaries and time.monotonic() - began >= self.timeout_s:
                break
        self.map.is_stale = True
        if not self.map.primaries:
            raise next((one for one in failures if isinstance(one, ServerNotUsable)), failures[0])

    def noted(self, place: Place, answer: Any) -> Any:
        """A node's answer; NotHere where it did not carry out what it was asked."""
        self.map.answered(place)
        if self._away:
            self._away.pop(place, None)
        if isinstance(answer, redis.ResponseError) and BROKEN in str(answer):
            return NodeAway(answer, named(place), is_sent=False)  # in a way: it carries out nothing of ours
        if not isinstance(answer, NOT_HERE):
            return answer
        if isinstance(answer, redis.exceptions.MovedError):
            self.map.learn(answer, place)
        elif not isinstance(answer, redis.exceptions.AskError | redis.exceptions.TryAgainError):
            self.map.failed(place, time.monotonic())
        return NotHere(answer, named(place))

    def away(self, place: Place, error: Exception, *, is_sent: bool) -> NodeAway:
        now = time.monotonic()
        self.map.failed(place, now)
        is_lost = is_sent and not isinstance(error, redis.TimeoutError)  # a connection of several, perhaps
        if not (is_lost or place in self._away or isinstance(error, redis.ResponseError)):
            self._away[place] = now, error
        return NodeAway(error, named(place), is_sent=is_sent)

    def check(self, place: Place) -> None:
        """Raises what a node failed with a moment ago."""
        began, error = self._away.get(place, (0.0, None))
        if error and time.monotonic() - began < self._away_s:
            raise error
        self._away.pop(place, None)

    def connected(self, place: Place) -> Node:
        """A connection to that node, past all routing. One that is frozen connects, and says nothing."""
        try:
            self.check(place)
            node = self.make(place)
            node.connect()
            node.send_command("PING", check_health=False)
            with suppress(redis.ResponseError):
                node.read_response()
        except (redis.RedisError, OSError) as error:
            self.away(place, error, is_sent=False)
            raise
        return node

    def _read(self, place: Place) -> None:
        node = self.make(place, socket_timeout=READ_MAP_S, socket_connect_timeout=READ_MAP_S)
        try:
            node.connect()
            node.send_command("CLUSTER", "SLOTS", check_health=False)
            self.map.read(node.read_response(), place)
        finally:
            node.disconnect()


def least(answers: Sequence[Any]) -> Any:
    """The one answer, or of several to WAIT an error or the least."""
    errors = [one for one in answers if isinstance(one, Exception)]
    return (errors or answers)[0] if errors or len(answers) == 1 else min(answers)


def named(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


class ClusterConnection:
    """What is used of a driver's connection. Nothing connects to a node before it is sent something."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._map = cluster, cluster.map
        self._nodes: dict[Place, Node] = {}
        self._fresh = set[Place]()  # nodes that are not connected yet
        self._unread: deque[list[tuple[Place, Node]]] = deque()  # where each answer will come from, WAIT's from several
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
            node.disconnect()

    def send_command(self, *words: Any, **_: Any) -> None:
        """By a short way where there is nothing to decide: a tenth less time for an append."""
        place = None if self._map.is_stale or self._pinned else self._map.owner(words)
        if place in self._nodes:
            packed = self._nodes[place].pack_command(*guarded(words))
            self._unread.append([(place, self._sent(place, packed))])
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
        routed, pinned = self._map.route(commands, self._near, self._pinned)
        found = by_node(commands, routed)
        packed = {one: self._node(one).pack_commands([guarded(commands[i]) for i in found[one]]) for one in found}
        self._pinned = pinned
        sources: list[list[tuple[Place, Node]]] = [[] for _ in commands]
        for place, numbers in found.items():
            node = self._sent(place, packed[place])
            for i in numbers:
                sources[i].append((place, node))
        self._unread += sources

    def _node(self, place: Place) -> Node:
        if place not in self._nodes:
            self._nodes[place] = self._cluster.make(place)
            self._fresh.add(place)
        return self._nodes[place]

    def _sent(self, place: Place, packed: Any) -> Node:
        """The node's connection; NodeAway where that failed."""
        node, is_sent = self._nodes[place], False
        try:
            self._cluster.check(place)
            if place in self._fresh:
                node.connect()
                self._fresh.discard(place)
            is_sent = True
            node.send_packed_command(packed, check_health=False)
        except (SequencerError, redis.RedisError, OSError, UnicodeError) as error:
            return self._lost(place, error, is_sent=is_sent)
        return node

    def _lost(self, place: Place, error: Exception, *, is_sent: bool) -> NodeAway:
        if node := self._nodes.pop(place, None):
            node.disconnect()
        self._near = None if self._near == place else self._near
        away = self._cluster.away(place, error, is_sent=is_sent)
        # What is still to come on that connection is lost with it.
        self._unread = deque([[(at, away if one is node else one) for at, one in some] for some in self._unread])
        return away

    def read_response(self, *_: Any, **__: Any) -> Any:
        if not self._unread:
            raise redis.ConnectionError
        answer = least([self._read(*source) for source in self._unread.popleft()])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _read(self, place: Place, node: Node) -> Any:
        if isinstance(node, NodeAway):
            return node
        try:
            answer = node.read_response()
        except redis.ResponseError as error:
            answer = error
        except (redis.RedisError, OSError) as error:
            return self._lost(place, error, is_sent=True)
        self._near = place
        return self._cluster.noted(place, answer)

    def can_read(self, timeout: float = 0) -> bool:
        """Whether the next answer is there; while none is awaited, whether a node has closed its connection."""
        if self._unread:
            return any(isinstance(one, NodeAway) or one.can_read(timeout) for _, one in self._unread[0][:1])
        return any(one.can_read(0) for one in self._nodes.values())

    def primaries(self) -> list[tuple[str, Node]]:
        """Name and connection of each primary, for what is asked of nodes, not of keys. Raises SequencerError."""
        self._map.is_stale = True  # one that is new may be unknown
        self._cluster.refresh()
        for place in self._map.primaries:
            try:
                self._node(place).connect()
            except (redis.RedisError, OSError, UnicodeError) as error:
                raise translate(self._lost(place, error, is_sent=False), self._cluster.name) from error
        return [(f"{named(place)} of {self._cluster.name}", self._nodes[place]) for place in self._map.primaries]
