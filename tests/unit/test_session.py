"""What a client asks before it uses a queue, and when a connection is new: over a net that answers from a list, or over
a model of registry and shards.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from sequencer.doctor.rights import missing_rights
from sequencer.errors import ConfigurationError, DataError, ServerNotUsable, ServerUnavailable
from sequencer.queue.registry.index import queue_names
from sequencer.queue.session import Session
from sequencer.settings.policy import Policy
from sequencer.store.keys import index_key, registry_key, shard_keys
from sequencer.store.registration import spread_tags

from ..support.listed_net import ListedNet, run
from ..support.model.clients import ModelNet, connected, looked, made, session
from ..support.refused import refused

OPENED = [b"OK", [], b"OK"]
LOOK = [[], [], 0, None]
KEYS = [shard_keys("n", "q", shard) for shard in range(2)]
REGISTRY, INDEX = registry_key("n", "q"), index_key("n")


def denied(right: str) -> ServerNotUsable:
    error = f"User x has no permissions to run the '{right}' command"
    return ServerNotUsable("right_denied", server="s", error=error)


def test_the_first_use_registers_and_the_next_asks_nothing() -> None:
    server, net, seq = made(shards=2)
    assert run(seq.shards("append")) == KEYS
    assert server.hashes[REGISTRY]["table"] == "0 1"
    assert server.hashes[INDEX] == {"q": "p3"}
    assert {server.hashes[keys.policy]["generation"] for keys in KEYS} == {seq.generation}
    assert seq.generation.startswith("3.17")
    assert server.hashes[REGISTRY]["generation"] == seq.generation
    net.one.asked.clear()
    assert run(seq.keys_of("g")) in KEYS
    assert (run(seq.shards("append")), run(seq.policy()), net.asked) == (KEYS, Policy(), [])
    assert (seq.known_shards(), seq.known_sequence(), run(seq.policy()).sequence) == (KEYS, False, False)


def test_a_mere_look_writes_nothing_and_is_remembered_only_of_a_queue_that_is_there() -> None:
    server, net, seq = made()
    assert len(run(seq.shards())) == 1
    assert (server.hashes, seq.generation) == ({}, "")
    other = connected(server, shards=2, sequence=True)
    assert len(run(seq.shards())) == 2
    assert run(seq.policy()).sequence is True
    assert seq.generation == other.generation
    net.one.asked.clear()
    assert len(run(seq.shards())) == 2
    assert net.asked == []


def test_a_policy_that_others_wrote_is_foreign_data() -> None:
    server, _, _ = made()
    seq = connected(server)
    server.hashes[KEYS[0].policy]["dedup_us"] = "soon"
    with refused(DataError, "foreign_data"):
        run(seq.fresh_policy())
    for name, value in (("policy", '{"dedup_us": "soon"}'), ("table", ""), ("table", "0 0")):
        server.hashes[REGISTRY][name] = value
        with refused(DataError, "foreign_data"):
            run(session(ModelNet(server)).shards())


def test_the_policy_of_now_is_what_a_lost_server_gets_again() -> None:
    server, net, seq = made()
    run(seq.shards(register=True))
    connected(server, on_late="drop")
    assert run(seq.fresh_policy()).on_late == "drop"
    server.hashes.clear()
    server.clocks.clear()
    run(seq.find_generation(net.one))
    assert server.hashes[KEYS[0].policy]["on_late"] == "drop"


def test_what_is_missing_is_told_by_role_and_the_connection_is_fit_for_others() -> None:
    net = ListedNet(OPENED, {"ZADD": denied("zadd"), "BLPOP": denied("blpop")})
    missing = run(missing_rights(net, "n", "q", KEYS))
    assert (missing["append"], missing["consume"]) == (["+zadd"], ["+blpop", "+zadd"])
    assert ("give up",) not in net.asked


def test_a_key_that_may_not_be_touched_is_told_as_its_pattern() -> None:
    error = ServerNotUsable("key_denied", server="s", error="No permissions to access a key")
    net = ListedNet(OPENED, {"EVAL": error, "HSET": error})
    assert run(missing_rights(net, "n", "q", KEYS))["append"] == ["~n:queues", "~{n:q:*"]


@pytest.mark.parametrize(
    ("answers", "lacks"),
    [
        ([[denied("multi"), denied("exec"), denied("multi")]], ["+exec", "+multi"]),
        ([OPENED, {"DISCARD": denied("discard")}], ["+discard"]),
    ],
)
def test_without_multi_or_discard_the_connection_is_given_up(answers: list[Any], lacks: list[str]) -> None:
    """Nothing more is asked, since it would be done."""
    net = ListedNet(*answers)
    assert run(missing_rights(net, "n", "q", KEYS))["append"] == lacks
    assert [str(one[0]) for one in net.asked][-2:] == ["give up", "shared"]


def test_a_right_that_is_missing_is_asked_for_again_and_named() -> None:
    net = ListedNet(LOOK, OPENED, {"ZADD": denied("zadd")}, LOOK, OPENED, {})
    seq = session(net)
    with refused(ServerNotUsable, "rights_missing", role="append", rights=["+zadd"]):
        run(seq.allow("append"))
    run(seq.allow("append"))
    run(seq.allow("consume"))
    assert net.answers == []


def test_a_server_that_knows_the_queue_is_only_asked() -> None:
    _, net, seq = made(shards=2)
    assert looked(net, seq) == ["INFO"], "the queue was never used"
    run(seq.shards(register=True))
    assert looked(net, seq) == ["INFO", "HGETALL", "HGET", "HMGET", "HMGET"]


def test_a_server_is_checked_with_each_look_and_one_without_info_is_not() -> None:
    def check(info: Any, seq: Session) -> None:
        run(seq.refresh(ListedNet([info])._alone()))

    check(b"redis_version:7.0.0\r\nrole:master\r\n", seq := made()[2])
    check(ServerNotUsable("command_unknown", server="s", error="unknown command 'INFO'"), seq)
    with refused(ServerNotUsable, "is_too_old", version="5.0.1"):
        check(b"redis_version:5.0.1\r\n", seq)
    with refused(ServerNotUsable, "right_denied"):
        check(denied("info"), seq)
    with refused(ServerUnavailable, "is_replica"):
        check(b"role:slave\r\n", seq)  # that may change again
    with refused(ServerNotUsable, "is_replica"):
        check(b"role:slave\r\n", made()[2])


@pytest.mark.parametrize(
    ("asked", "tags"), [({}, spread_tags("n", "q", 16)), ({"shards": 2}, spread_tags("n", "q", 2))]
)
def test_a_new_queue_in_a_cluster_has_spread_shards_and_what_is_registered_wins(
    asked: Any, tags: tuple[str, ...]
) -> None:
    server, net, seq = made(**asked)
    net.is_cluster = True
    assert run(seq.shards("append")) == [shard_keys("n", "q", tag) for tag in tags]
    assert server.hashes[REGISTRY]["table"] == " ".join(tags)
    assert run(session(net).shards("append")) == run(seq.shards())
    if asked:
        with refused(ConfigurationError, "option_fixed", before=2, value=16):
            run(session(net, shards=16).shards("append"))


def away(net: ModelNet, *keys: str) -> None:
    """Nothing that names such a key arrives any more."""
    answers = net.one.answers

    async def some(commands: Any, **_: Any) -> list[Any]:
        failed = [any(word in keys for word in words) for words in commands]
        found = await answers([words for words, is_away in zip(commands, failed, strict=True) if not is_away])
        return [ServerUnavailable("unreachable") if is_away else found.pop(0) for is_away in failed]

    net.one.answers = some  # type: ignore[method-assign]


@pytest.mark.parametrize("keys", [[REGISTRY], [INDEX], [KEYS[0].policy], [KEYS[1].policy], [REGISTRY, KEYS[1].policy]])
def test_what_cannot_be_reached_is_taken_to_be_as_it_was(keys: list[str]) -> None:
    server, net, seq = made(shards=2)
    run(seq.shards("append"))
    away(net, *keys)
    assert "EXISTS" not in looked(net, seq)
    server.hashes[KEYS[0].policy]["version"] = server.hashes[KEYS[1].policy]["version"] = "9"
    with suppress(ServerUnavailable):
        looked(net, seq)
    assert "EXISTS" in net.asked, "what can be reached is another one: the queue is found again"


def test_who_only_reads_needs_the_registry_or_the_first_shard() -> None:
    server = made()[0]
    connected(server, shards=2)
    for keys in ([REGISTRY], [KEYS[0].policy, KEYS[0].clock]):
        net = ModelNet(server)
        away(net, *keys)
        assert run(session(net).shards()) == KEYS
        with pytest.raises(ServerUnavailable):
            run(session(net).shards(register=True))
    away(net, REGISTRY)
    with pytest.raises(ServerUnavailable):
        run(session(net).shards())


def test_the_queues_of_a_namespace_come_by_name() -> None:
    found = [b"b", b"p3", b"a", b"p2", b"\xff", b"p1", b"we ird", b"p1"]
    assert run(queue_names(ListedNet([found]), "n")) == ["a", "b"]
