"""Which node a command goes to, and what becomes of each answer of a cluster: its rules, with nodes that answer what
they are told.
"""

from __future__ import annotations

from types import SimpleNamespace
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
from sequencer.net.cluster import Cluster, ClusterConnection
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import ConnectionAlone, Link, finish
from sequencer.net.refusals import BROKEN
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
    """Connections to three nodes, which answer by place what they are given; else OK."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers, self.log, self.slept, self.time = answers, list[tuple[str, str]](), list[float](), 100.0
        self.down = set[str]()
        self.map: Any = MAP
        self.cluster = Cluster([C], "the cluster")
        self.cluster.make = lambda place, **_: FakeNode(self, place[0])
        self.endpoint = Endpoint(lambda: ClusterConnection(self.cluster), "the cluster", None, cluster=self.cluster)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class FakeNode:
    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes, self.name, self.unread = nodes, name, list[Any]()

    def connect(self) -> None:
        if self.name in self.nodes.down:
            raise redis.ConnectionError("refused")

    def disconnect(self) -> None:
        self.unread.clear()

    def send_command(self, *words: Any, **_: Any) -> None:
        self.send_packed_command([words])

    def pack_commands(self, commands: Any) -> Any:
        return commands

    def pack_command(self, *words: Any) -> Any:
        return [words]

    def send_packed_command(self, commands: Any, **_: Any) -> None:
        for words in commands:
            self.nodes.log.append((self.name, words[0]))
            left = self.nodes.answers.get(self.name)
            self.unread.append(self.nodes.map if words[0] == "CLUSTER" else left.pop(0) if left else b"OK")

    def read_response(self) -> Any:
        answer = self.unread.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def can_read(self, _: float) -> bool:
        return bool(self.unread)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of the nodes in use."""
    time = SimpleNamespace()
    for module in (cluster_module, link_module, repeats_module):
        monkeypatch.setattr(module, "time", time)
    return time


def linked(clock: Any, **answers: list[Any]) -> tuple[Nodes, Link]:
    nodes = Nodes(**answers)
    clock.monotonic, clock.sleep = lambda: nodes.time, nodes.sleep
    return nodes, Link(nodes.endpoint)


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
    slots = SlotMap([C])
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
def test_a_call_follows_a_slot_that_moved_at_once(clock: Any, call: Any) -> None:
    nodes, link = linked(clock, a=[MOVED], b=[b"yes"])
    assert link.run((call,)) == ["yes"]
    assert (nodes.log[1:], nodes.slept, link.is_repeat) == ([("a", "EVAL"), ("b", "EVAL")], [], False)
    link.run((call,))
    assert nodes.log[-1] == ("b", "EVALSHA")
    assert nodes.log.count(("c", "CLUSTER")) == 1, "who has not heard of it yet would take it back"


@pytest.mark.parametrize("call", [ASK, TAKE])
@pytest.mark.parametrize("answer", [AskError(f"{slot_of(KEY_A)} b:2"), TryAgainError("keys")])
def test_a_slot_on_its_way_is_waited_for_on_its_own_node(clock: Any, call: Any, answer: Exception) -> None:
    nodes, link = linked(clock, a=[answer] * 3 + [b"yes"])
    assert link.run((call,)) == ["yes"]
    assert (nodes.log[2:], nodes.slept) == ([("a", "EVAL")] * 3, [0.02, 0.03, 0.045])
    nodes.answers["a"] = [answer] * 999
    began = nodes.time
    with refused(ServerUnavailable, "slot_moving") as caught:
        link.run((call,))
    assert caught.value.maybe_sent is False
    assert 5.0 <= nodes.time - began < 5.25, "one deadline"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ClusterDownError("Hash slot not served"), "cluster_down"),
        (MasterDownError("link down"), "primary_lost"),
        (redis.ReadOnlyError("READONLY"), "is_replica"),
    ],
)
def test_a_node_that_can_not_serve_now_has_the_map_read_again(clock: Any, answer: Exception, code: str) -> None:
    nodes, link = linked(clock, a=[answer, b"yes"])
    assert link.run((TAKE,)) == ["yes"]
    assert nodes.log == [("c", "CLUSTER"), ("a", "EVAL"), ("b", "CLUSTER"), ("a", "EVAL")]
    nodes.answers["a"] = [answer] * 999
    with refused(ServerUnavailable, code):
        link.run((TAKE,))


def test_a_lost_node_fails_its_own_commands_alone(clock: Any) -> None:
    nodes, link = linked(clock, a=[LOST, b"late"], b=[b"two"])
    alone = ConnectionAlone(link.connection(), "s")
    one, two, three = finish(alone.answers([("GET", KEY_A), ("GET", KEY_B), ("GET", KEY_A)]))
    assert (one.code, one.maybe_sent, two, three.code) == ("unreachable", True, b"two", "unreachable")
    nodes.time += 1
    assert finish(alone.read([("GET", KEY_A)])) == [b"OK"], "an answer to an earlier question is read by nobody"


@pytest.mark.parametrize("how", ["down", "silent", "cut"])
def test_a_node_that_is_away_is_not_asked_again_at_once(clock: Any, how: str) -> None:
    """One that is silent would take the whole time limit of each question. A connection that is cut is replaced."""
    nodes, link = linked(clock, a=[LOST if how == "cut" else redis.TimeoutError("silent")])
    nodes.down |= {"a"} if how == "down" else set()
    alone = ConnectionAlone(link.connection(), "s")
    ask = [("GET", KEY_A), ("GET", KEY_B)]
    assert [getattr(one, "code", one) for one in finish(alone.answers(ask))] == ["unreachable", b"OK"]
    nodes.down, nodes.answers["a"] = set(), []
    nodes.log.clear()
    first, second = finish(alone.answers(ask))
    assert (getattr(first, "code", first), second) == ("unreachable" if how != "cut" else b"OK", b"OK")
    assert nodes.log.count(("a", "GET")) == (how == "cut")
    nodes.time += cluster_module.AWAY_S
    assert finish(alone.answers(ask)) == [b"OK", b"OK"]


def test_a_node_on_which_no_script_runs_any_more_is_named(clock: Any) -> None:
    broken = redis.ResponseError(f"Attempted to access {BROKEN} script: on @user_script:1")
    _, link = linked(clock, a=[broken])
    with refused(ServerNotUsable, "scripts_broken") as caught:
        link.run((ASK, ASK_B))
    assert "a:1" in caught.value.fields["server"]
    assert caught.value.answers == [None, "OK"]


def test_an_answer_is_read_where_its_command_went(clock: Any) -> None:
    """Twin of a reader by place: the node's connection is replaced while an answer is on its way."""
    _, link = linked(clock, a=[b"old", b"new"])
    connection: Any = link.connection()
    connection.send_command("GET", KEY_A)
    old = connection._nodes.pop(A)
    connection.send_command("GET", KEY_A)
    assert connection._nodes[A] is not old
    assert [connection.read_response() for _ in range(2)] == [b"old", b"new"]


def test_repeatable_calls_outlast_a_failover_and_others_say_what_may_have_happened(clock: Any) -> None:
    nodes, link = linked(clock, a=[LOST] * 5 + [b"yes"])
    assert (link.run((ASK,)), link.is_repeat) == (["yes"], True)
    assert nodes.slept[:3] == [0.02, 0.03, 0.045]
    nodes.answers["a"] = [LOST]
    with refused(ServerUnavailable, "unreachable") as caught:
        link.run((TAKE,))
    assert caught.value.maybe_sent
    nodes.down.add("a")
    began = nodes.time
    with refused(ServerUnavailable, "unreachable") as caught:
        link.run((ASK,))
    assert (caught.value.maybe_sent, 5.0 <= nodes.time - began < 5.25) == (False, True)


def test_a_write_on_two_nodes_waits_for_replicas_of_both(clock: Any) -> None:
    nodes, link = linked(clock, a=[b"one", 2], b=[b"two", 1])
    assert (link.run((ASK, ASK_B), wait=(1, 9)), link.confirmed) == (["one", "two"], 1)
    nodes.answers |= {"a": [b"one", 0, 1, 0], "b": [NoScriptError(), 1, b"two", 1]}
    assert (link.run((ASK, ASK_B), wait=(1, 9)), link.confirmed) == (["one", "two"], 0), "both are asked again"


def test_reads_are_repeated_and_questions_of_rights_stay_as_they_are(clock: Any) -> None:
    nodes, link = linked(clock, a=[MOVED, b"again"], b=[b"found", LOST])
    assert link.command("GET", KEY_A) == b"found"
    assert link.command("GET", KEY_A) == b"again"
    alone = ConnectionAlone(link.connection(), "s")
    nodes.answers["a"] = [b"OK", MOVED, b"OK"]
    answers = finish(alone.answers([("MULTI",), ("GET", KEY_A), ("DISCARD",)]))
    assert (answers[1].code, len(answers)) == ("slot_moving", 3)


def test_the_map_is_read_from_a_node_that_did_not_fail(clock: Any) -> None:
    nodes, link = linked(clock)
    link.connection()
    nodes.down |= {"c", "a"}
    nodes.cluster.map.failed(C, nodes.time)
    assert link.command("GET", KEY_B) == b"OK"
    assert nodes.log[1:] == [("b", "CLUSTER"), ("b", "GET")]


def test_one_server_is_no_cluster(clock: Any) -> None:
    nodes, link = linked(clock)
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
    assert endpoint.cluster.map.places() == [("h1", 7000), ("h2", 6379)]
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
