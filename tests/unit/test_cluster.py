"""Which node a command goes to, and what becomes of each answer of a cluster: its rules, with nodes that answer what
they are told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import AskError, ClusterDownError, MasterDownError, MovedError, NoScriptError, TryAgainError

from sequencer.calls.call import Call
from sequencer.calls.net_protocol import Command
from sequencer.errors import ConfigurationError, ServerNotUsable, ServerUnavailable
from sequencer.net import cluster as cluster_module
from sequencer.net import link as link_module
from sequencer.net import repeats as repeats_module
from sequencer.net.cluster import Cluster, ClusterConnection, Node
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import ConnectionAlone, Link, finish
from sequencer.net.slots import SlotMap, by_node, guarded, key_of, slot_of

from ..support.refused import refused

A, B, C = ("a", 1), ("b", 2), ("c", 3)
KEY_A, KEY_B = "{3}:schedule", "{2}:schedule"
MAP = [[0, 5460, [b"a", 1, b"id"]], [5461, 10922, [b"b", 2, b"id"], [b"r", 9, b"id"]], [10923, 16383, [None, 3, b"id"]]]
LOST = redis.ConnectionError("reset by peer")
ASK = Call("inspect", (KEY_A,), ("a",), lambda reply: reply.decode())
TAKE = ASK._replace(script="claim", repeatable=False)
ASK_B = ASK._replace(keys=(KEY_B,))
MOVED = MovedError(f"{slot_of(KEY_A)} b:2")


class Nodes:
    """Three nodes, which answer by place what they are given, else OK; and the time."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers, self.log, self.slept, self.time = answers, list[tuple[str, str]](), list[float](), 100.0
        self.down = set[str]()
        self.map: Any = MAP
        self.cluster = Cluster([C], "the cluster")
        self.cluster.make = lambda place: FakeNode(self, place[0])
        self.endpoint = Endpoint(lambda: ClusterConnection(self.cluster), "the cluster", None, cluster=self.cluster)

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def asked(self, name: str, words: Any) -> Any:
        self.log.append((name, words[0]))
        return self.map if words[0] == "CLUSTER" else left.pop(0) if (left := self.answers.get(name)) else b"OK"


class FakeNode:
    """A connection to one."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes, self.name, self.unread = nodes, name, list[Any]()
        self.socket_timeout, self._sock = 5.0, self
        self.redis_connect_func: Callable[[Any], None]
        self.on_connect = self.settimeout = lambda *_: None

    def connect(self) -> None:
        if self.name in self.nodes.down:
            raise redis.ConnectionError("refused")
        self.redis_connect_func(self)

    def disconnect(self) -> None:
        self.unread.clear()

    def pack_commands(self, commands: Any) -> Any:
        return commands

    def pack_command(self, *words: Any) -> Any:
        return [words]

    def send_command(self, *words: Any, **_: Any) -> None:
        self.send_packed_command([words])

    def send_packed_command(self, commands: Any, **_: Any) -> None:
        self.unread += [self.nodes.asked(self.name, words) for words in commands]

    def read_response(self) -> Any:
        if isinstance(answer := self.unread.pop(0), Exception):
            raise answer
        return answer

    def can_read(self, _: float) -> bool:
        return bool(self.unread)


Linked = Callable[..., tuple[Nodes, Link]]


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Linked:
    def link(**answers: list[Any]) -> tuple[Nodes, Link]:
        nodes = Nodes(**answers)
        for module in (cluster_module, link_module, repeats_module):
            monkeypatch.setattr(module, "time", nodes)
        return nodes, Link(nodes.endpoint)

    return link


# -- routes -----------------------------------------------------------------------------------------------------


def test_the_first_key_of_a_command_and_the_key_that_never_exists() -> None:
    keyed: list[Command] = [("HGET", "k", "f"), ("EVALSHA", "sha", 2, "k", "l", "a"), ("ZINTERCARD", 2, "k", "l")]
    assert [*map(key_of, keyed)] == ["k"] * 3
    assert [*map(key_of, [("EVALSHA", "sha", 0), ("CLIENT", "LIST"), ("TIME",)])] == [None] * 3
    assert guarded(("EVAL", "text", 1, KEY_A, "a", "b")) == ("EVAL", "text", 2, KEY_A, "{3}:~", "a", "b")
    assert guarded(("EVALSHA", "sha", 1, "n:queues")) == ("EVALSHA", "sha", 2, "n:queues", "{n:queues}:~")
    assert slot_of("{n:queues}:~") == slot_of("n:queues")
    for words in (("EVAL", "text", 0, "a"), ("HGET", KEY_A, "f")):
        assert guarded(words) == words


def test_what_has_no_key_goes_with_its_neighbour_and_a_transaction_stays_on_one_node() -> None:
    slots = SlotMap()
    slots.read(MAP, C)
    assert slots.primaries == [A, B, C]

    def routed(*commands: Command, pinned: Any = None) -> Any:
        return slots.route(commands, C, pinned)

    assert routed(("INFO",), ("TIME",)) == ([C, C], None)
    assert routed(("INFO",), ("GET", KEY_A), ("TIME",), ("GET", KEY_B)) == ([A, A, A, B], None)
    assert routed(("MULTI",), ("GET", KEY_A), ("GET", KEY_B), ("EXEC",), ("GET", KEY_B)) == ([A, A, A, A, B], None)
    assert routed(("MULTI",), ("GET", KEY_B)) == ([B, B], B)
    assert routed(("GET", KEY_A), ("DISCARD",), pinned=B) == ([B, B], None)
    commands = [("GET", KEY_A), ("GET", KEY_B), ("WAIT", 1, 9)]
    assert by_node(commands, routed(*commands)[0]) == {A: [0, 2], B: [1, 2]}


# -- answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [ASK, TAKE])
@pytest.mark.parametrize(
    ("answer", "asked", "code"),
    [
        (MOVED, "cab", ""),  # at once
        (AskError(f"{slot_of(KEY_A)} b:2"), "caa", "slot_moving"),
        (TryAgainError("keys"), "caa", "slot_moving"),
        (ClusterDownError("Hash slot not served"), "caba", "cluster_down"),  # b has the map
        (MasterDownError("link down"), "caba", "primary_lost"),
        (redis.ReadOnlyError("READONLY"), "caba", "is_replica"),
    ],
)
def test_what_a_node_did_not_carry_out_is_sent_again(
    linked: Linked, call: Any, answer: Any, asked: str, code: str
) -> None:
    nodes, link = linked(a=[answer])
    assert link.run((call,)) == ["OK"]
    assert ("".join(node for node, _ in nodes.log), link.is_repeat) == (asked, False)
    assert nodes.slept == ([0.02] if code else [])
    nodes.answers["a"] = [answer] * 999
    began = nodes.time
    if not code:
        link.run((call,))
        assert nodes.log[len(asked) :] == [("b", "EVALSHA")], "who has not heard of it yet would take it back"
        return
    with refused(ServerUnavailable, code) as caught:
        link.run((call,))
    assert (caught.value.maybe_sent, 5.0 <= nodes.time - began < 5.25) == (False, True), "one deadline"


def test_repeatable_calls_outlast_a_failover_and_others_say_what_may_have_happened(linked: Linked) -> None:
    nodes, link = linked(a=[LOST] * 5)
    assert (link.run((ASK,)), link.is_repeat) == (["OK"], True)
    assert nodes.slept[:3] == [0.02, 0.03, 0.045]
    for call, lost, maybe_sent, took_s in ((TAKE, [LOST], True, 0.0), (ASK, [], False, 5.0)):
        nodes.answers["a"], began = lost, nodes.time
        nodes.down |= set() if lost else {"a"}
        with refused(ServerUnavailable, "unreachable") as caught:
            link.run((call,))
        assert (caught.value.maybe_sent, took_s <= nodes.time - began < took_s + 0.25) == (maybe_sent, True)


@pytest.mark.parametrize("how", ["down", "silent", "cut"])
def test_a_node_that_is_away_fails_its_own_commands_and_is_not_asked_again_at_once(linked: Linked, how: str) -> None:
    """One that is silent would take the whole time limit of each question. A connection that is cut is replaced."""
    nodes, link = linked(a=[LOST if how == "cut" else redis.TimeoutError("silent"), b"late"])
    nodes.down |= {"a"} if how == "down" else set()
    alone = ConnectionAlone(link.connection(), "s")
    ask = [("GET", KEY_A), ("GET", KEY_B), ("GET", KEY_A)]
    one, two, three = finish(alone.answers(ask))
    assert (one.code, one.maybe_sent, two, three.code) == ("unreachable", how != "down", b"OK", "unreachable")
    nodes.down, nodes.answers["a"] = set(), []
    nodes.log.clear()
    first, *_ = finish(alone.answers(ask))
    assert getattr(first, "code", first) == ("unreachable" if how != "cut" else b"OK")
    assert nodes.log.count(("a", "GET")) == 2 * (how == "cut")
    nodes.time += cluster_module.AWAY_S
    assert finish(alone.answers(ask)) == [b"OK"] * 3, "an answer to an earlier question is read by nobody"


@pytest.mark.parametrize("is_by_place", [False, True])
def test_an_answer_is_read_where_its_command_went(linked: Linked, monkeypatch: Any, is_by_place: bool) -> None:
    """The node's connection is replaced while an answer is on its way."""
    if is_by_place:  # a control
        read = Node.read
        monkeypatch.setattr(Node, "read", lambda self: read(connection._nodes[self.place]))
    _, link = linked(a=[b"old", b"new"])
    connection: Any = link.connection()
    connection.send_command("GET", KEY_A)
    del connection._nodes[A]
    connection.send_command("GET", KEY_A)
    assert (connection.read_response() == b"old") is not is_by_place


def test_a_write_on_two_nodes_waits_for_replicas_of_both(linked: Linked) -> None:
    nodes, link = linked(a=[b"one", 2], b=[b"two", 1])
    assert (link.run((ASK, ASK_B), wait=(1, 9)), link.confirmed) == (["one", "two"], 1)
    nodes.answers |= {"a": [b"one", 0, 1, 0], "b": [NoScriptError(), 1, b"two", 1]}
    assert (link.run((ASK, ASK_B), wait=(1, 9)), link.confirmed) == (["one", "two"], 0), "both are asked again"


def test_reads_are_repeated_and_questions_of_rights_stay_as_they_are(linked: Linked) -> None:
    nodes, link = linked(a=[MOVED, b"again"], b=[b"found", LOST])
    assert [link.command("GET", KEY_A), link.command("GET", KEY_A)] == [b"found", b"again"]
    nodes.answers["a"] = [b"OK", MOVED, b"OK"]
    answers = finish(ConnectionAlone(link.connection(), "s").answers([("MULTI",), ("GET", KEY_A), ("DISCARD",)]))
    assert (answers[1].code, len(answers)) == ("slot_moving", 3)


def test_the_map_is_read_from_a_node_that_did_not_fail(linked: Linked) -> None:
    nodes, link = linked()
    link.connection()
    nodes.down |= {"c", "a"}
    nodes.cluster.away(C, LOST)
    assert link.command("GET", KEY_B) == b"OK"
    assert nodes.log[1:] == [("b", "CLUSTER"), ("b", "GET")]


def test_one_server_is_no_cluster(linked: Linked) -> None:
    nodes, link = linked()
    nodes.map = redis.ResponseError("ERR This instance has cluster support disabled")
    with refused(ServerNotUsable, "is_no_cluster"):
        link.command("GET", KEY_A)
    nodes.map = []
    with refused(ServerUnavailable, "cluster_down"):
        link.command("GET", KEY_A)


# -- where it is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", ["/", "h:x/", "h1,h2/3", "h1,,h2/", "h?wrong_option=1", "h?db=2"])
def test_a_url_that_can_not_be_read_keeps_its_password(rest: str) -> None:
    with refused(ConfigurationError, "cluster_url_unreadable") as caught:
        Endpoint.from_url(f"redis+cluster://u:secret@{rest}")
    assert "secret" not in f"{caught.value} {caught.value.__context__}"


def test_a_url_names_nodes_user_tls_and_time_limit() -> None:
    endpoint = Endpoint.from_url("valkeys+cluster://u:secret@h1:7000,h2/?socket_timeout=0.5")
    assert endpoint.cluster
    assert endpoint.name == "valkeys+cluster://***@h1:7000,h2"
    assert endpoint.cluster.places() == [("h1", 7000), ("h2", 6379)]
    node = endpoint.cluster.make(("h2", 6379))
    assert (node.host, node.port, node.username, node.password, node.socket_timeout) == ("h2", 6379, "u", "secret", 0.5)
    assert isinstance(node, redis.SSLConnection)
    endpoint.limit(0.25)
    assert endpoint.cluster.make(("h2", 6379)).socket_timeout == endpoint.make_awaited(B).socket_connect_timeout == 0.25


@pytest.mark.parametrize("host", ["", "?"])
def test_a_move_to_an_unknown_address_is_one_to_another_port_of_that_host(host: str) -> None:
    known = Cluster([("a", 1)], "name").map
    known.learn(MovedError(f"{slot_of(KEY_A)} {host}:2"), ("a", 1))
    assert known.owner(("GET", KEY_A)) == ("a", 2)
