"""Appending on a real server: what is stored, what is refused, and that a refusal leaves nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

import sequencer
from sequencer import EmbeddedServer, Sequencer
from sequencer.doctor.rights import commands_of
from sequencer.errors import (
    BatchRefused,
    ConfigurationError,
    IdConflict,
    InvalidGroup,
    OutcomeUnknown,
    QueueFull,
    ServerNotUsable,
    ServerUnavailable,
)
from sequencer.net.link import Link
from sequencer.settings.body_fields import BodyFields
from sequencer.store.keys import shard_keys
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.handling import consumed
from ..support.invariants import check_invariants
from ..support.refused import refused
from .conftest import command

KEYS = shard_keys("sequencer", "q", 0)


def test_a_message_is_stored_with_what_was_given(seq: Sequencer) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    receipt = seq.append({"step": "paid"}, group=[1002, "x:y"], id=7, score=moment, headers={"trace": "t1"})
    (message,) = seq.peek(["1002", "x:y"])
    assert (message.id, message.group, message.score) == ("7", ("1002", "x:y"), moment.timestamp())
    assert (message.body, message.headers, message.attempt) == ({"step": "paid"}, {"trace": "t1"}, 1)
    assert (receipt.id, receipt.stamp, receipt.duplicate) == ("7", message.stamp, False)


def test_without_a_score_the_time_of_arrival_is_the_score(seq: Sequencer) -> None:
    for n in range(5):
        seq.append(n, group="g")
    messages = seq.peek("g")
    assert [message.body for message in messages] == [0, 1, 2, 3, 4]
    for message in messages:
        assert message.score == pytest.approx(message.appended_at, abs=1e-6)


def test_equal_scores_keep_the_order_of_arrival(seq: Sequencer) -> None:
    for n in ("z", "a", "m"):
        seq.append(n, group="g", id=n, score=5)
    assert [message.id for message in seq.peek("g")] == ["z", "a", "m"]


def test_the_same_id_and_content_is_a_duplicate_not_an_error(seq: Sequencer) -> None:
    first = seq.append({"a": 1}, group="g", id="x", score=3)
    again = seq.append({"a": 1}, group="g", id="x", score=3)
    assert (again.stamp, again.duplicate) == (first.stamp, True)
    assert seq.append({"a": 1}, group="g", id="x").duplicate
    assert seq.info().backlog == 1


@pytest.mark.parametrize("other", [{"body": 2}, {"score": 4}, {"headers": {"h": "1"}}])
def test_the_same_id_with_other_content_is_a_conflict(seq: Sequencer, other: dict[str, Any]) -> None:
    seq.append(1, group="g", id="x", score=3)
    with refused(IdConflict, "id_conflict", id="x"):
        seq.append(**{"body": 1, "group": "g", "id": "x", "score": 3, **other})
    (message,) = seq.peek("g")
    assert (message.body, message.score, message.headers) == (1, 3.0, {})


def test_fields_are_remembered_with_the_queue(make: Callable[..., Sequencer], link: Link) -> None:
    """Who names none takes them at the first append, at its first round trip for many, and on a pipeline."""
    body = {"user": {"id": 7}, "event": "e1", "at": "2026-11-23T10:00:00+01:00"}
    named = {"group_by": ("user.id",), "id_by": "event", "score_by": "at"}
    make(**named).append(body)
    assert make().append(body).duplicate
    assert make().append_many([body, {**body, "event": "e2"}]).duplicates == 1
    assert make(id_by="event").append({**body, "event": "e3"}).id == "e3"
    assert make().append({"own": 1}, group="own", id=1, score=1).id == "1"
    assert [(message.id, message.score) for message in make().peek(7)] == [(f"e{n}", 1795424400.0) for n in (1, 2, 3)]
    for name, value in (("group_by", ("user",)), ("id_by", "id"), ("score_by", "ts")):
        with refused(ConfigurationError, "option_fixed", queue="jobs", name=name):
            make(**{name: value}).connect()
    assert make().fields == make(**named).fields == BodyFields(("user.id",), "event", "at")


def test_without_fields_a_message_without_a_group_makes_no_queue(make: Callable[..., Sequencer], link: Link) -> None:
    with refused(InvalidGroup, "group_missing"):
        make().append({"user": 7})
    with pytest.raises(BatchRefused):
        make().append_many([{"user": 7}])
    assert link.command("KEYS", "*") == []


def test_an_append_joins_the_callers_transaction(seq: Sequencer, server: EmbeddedServer, namespace: str) -> None:
    with redis.Redis.from_url(server.url) as client:
        with client.pipeline(transaction=True) as pipeline:
            pipeline.set(f"{namespace}:own", "1")
            receipt = seq.append(1, group="g", id="x", pipeline=pipeline)
            assert receipt == ("x", None, None, None, None)
            assert seq.peek("g") == []
            pipeline.execute()
        assert client.get(f"{namespace}:own") == b"1"
        assert [message.id for message in seq.peek("g")] == ["x"]
        with client.pipeline(transaction=True) as pipeline:
            seq.append(2, group="g", id="x", pipeline=pipeline)
            with pytest.raises(redis.ResponseError, match="IDCONFLICT"):
                pipeline.execute()
        with client.pipeline(transaction=True) as pipeline:
            seq.append(2, group="g", id="x", replace=True, pipeline=pipeline)
            pipeline.execute()
        assert [message.body for message in seq.peek("g")] == [2]


def test_flushed_scripts_are_sent_again(seq: Sequencer, link: Link) -> None:
    seq.append(1, group="g")
    link.command("SCRIPT", "FLUSH")
    assert seq.append(2, group="g").duplicate is False
    link.command("SCRIPT", "FLUSH")
    assert seq.append_many([{"body": 3, "group": "g"}]).appended == 1
    link.command("SCRIPT", "FLUSH")
    assert seq.consume(lambda message: None, until_empty=True).handled == 3


def test_a_full_server_refuses_producers_and_lets_consumers_drain(start_server: Callable[..., str]) -> None:
    path = start_server()
    with Sequencer("q", f"unix://{path}", backoff=0.01, dead_letter_on=["KeyError"]) as seq:
        for n in range(200):
            seq.append({"n": n, "pad": "x" * 1000}, group=n % 5, score=n)
        command(path, "CONFIG", "SET", "maxmemory", "1")
        with refused(QueueFull, "server_full"):
            seq.append(1, group="late")
        with pytest.raises(QueueFull):
            seq.append_many([{"body": 1, "group": "late"}])
        failed: list[int] = []

        def handler(message: Any) -> None:
            if message.body["n"] == 7 and not failed:
                failed.append(7)
                raise ValueError("once")
            if message.body["n"] == 9:
                raise KeyError("a dead letter needs room too")

        assert seq.consume(handler, until_empty=True, lease=0.5).handled == 199
        assert seq.info().dead == 1
        command(path, "CONFIG", "SET", "maxmemory", "0")
        assert seq.append(1, group="late").duplicate is False


def test_an_unknown_outcome_is_said_with_the_id(make: Callable[..., Sequencer], proxy: FaultProxy) -> None:
    seq, other = make(redis=proxy.url), make(redis=proxy.url)
    seq.append(1, group="g", id="first")
    other.connect()
    proxy.add("reply lost", times=None)
    with refused(OutcomeUnknown, "append_unknown", id="mine"):
        seq.append(2, group="g", id="mine")
    assert proxy.effects["reply lost"] == 3, (
        "a repeatable call is tried three times"
    )  # once in full, twice at the handshake
    with refused(OutcomeUnknown, "append_unknown", id="n0 to n2"):
        other.append_many([{"body": n, "group": "g", "id": f"n{n}"} for n in range(3)])
    with pytest.raises(ServerUnavailable):
        other.append(3, group="g", id="never sent")
    proxy.clear()
    assert seq.append(2, group="g", id="mine").duplicate, "it was stored, once"
    assert seq.append_many([{"body": n, "group": "g", "id": f"n{n}"} for n in range(3)]).duplicates == 3
    assert seq.info().backlog == 5


def test_threads_share_a_client(seq: Sequencer) -> None:
    def produce(thread: int) -> None:
        for n in range(100):
            seq.append(n, group=thread, score=n)

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(produce, range(8))]
    assert seq.info().backlog == 800
    assert [message.body for message in seq.peek(3, limit=100)] == list(range(100))


# -- one message alone: its rights, its keys, and what its receipt says -----------------------------------------


def user_url(admin: Link, *rules: str) -> str:
    admin.command("ACL", "SETUSER", "app", "on", "nopass", "resetkeys", "~*", "+@all", *rules)
    return f"{admin.endpoint.url}?username=app&password=x"


def dumps(admin: Link) -> dict[bytes, Any]:
    return {key: admin.command("DUMP", key) for key in admin.command("KEYS", "*")}


@pytest.mark.parametrize(("group", "id"), [("g", "third"), ("new", "third"), ("g", "second")])
def test_a_right_that_goes_away_leaves_nothing_half_written(admin: Link, group: str, id: str) -> None:
    refused = set()
    for right in sorted(commands_of("append")):
        admin.command("FLUSHALL")
        with Sequencer("q", user_url(admin)) as seq:
            seq.append(1, "g", id="first")
            seq.consume(lambda _: None, until_empty=True)
            seq.append(2, "g", id="second")
            before = dumps(admin)
            admin.command("ACL", "SETUSER", "app", f"-{right.lower()}")
            try:
                seq.append(2, group, id=id)
            except ServerNotUsable:
                refused.add(right)
                assert dumps(admin) == before, right
            assert check_invariants(admin, [KEYS]) == [], right
    assert {"SET", "HSETNX", "ZADD", "HDEL", "RPUSH", "HINCRBY", "GET", "HMGET", "ZSCORE"} <= refused
    assert ("ZREM" in refused) == (id == "second"), "what this way does not need is not asked for"


@pytest.mark.parametrize("name", ["schedule", "clock", "dispatch", "stats"])
def test_a_key_that_may_not_be_written_any_more_stops_it_before_it_writes(admin: Link, name: str) -> None:
    with Sequencer("q", user_url(admin)) as seq:
        seq.append(1, "other")
        seq.consume(lambda _: None, until_empty=True)
        kept = [f"~{key}" for key in (KEYS.order("*"), KEYS.body("*"), KEYS.policy, KEYS.memory, KEYS.leases)]
        kept += [f"~{getattr(KEYS, one)}" for one in ("schedule", "clock", "dispatch", "stats") if one != name]
        before = dumps(admin)
        admin.command("ACL", "SETUSER", "app", "resetkeys", *kept, "~sequencer:queues", f"~{KEYS.dedup}*")
        with refused(ServerNotUsable, "key_denied"):
            seq.append(1, "g")
        assert dumps(admin) == before
        user_url(admin)
        assert not seq.append(1, "g").duplicate


def test_a_pipeline_of_another_encoding_gets_the_same_names(start_server: Callable[..., str]) -> None:
    path = start_server()
    client = redis.Redis(unix_socket_path=path, encoding="latin-1")
    with Sequencer("q", f"unix://{path}") as seq, client.pipeline() as pipeline:
        seq.append(1, group="é", id="ü", score=1)
        seq.append(2, group="é", id="ö", score=2, pipeline=pipeline)
        assert all(isinstance(word, bytes | int) for word in pipeline.command_stack[0][0])
        pipeline.execute()
        assert seq.append(2, group="é", id="ö", score=2).duplicate
        assert [(message.group, message.id) for message in consumed(seq)] == [(("é",), "ü"), (("é",), "ö")]
    client.close()


def test_a_receipt_tells_the_backlog_where_it_is_asked(make: Callable[..., Sequencer]) -> None:
    seq = make(on_late="dead_letter")
    assert seq.append(1, "g", id="1", score=1).backlog is None
    assert seq.append(2, "g", id="2", score=2, backlog=True).backlog == 2
    again = seq.append(2, "g", id="2", score=2, backlog=True)
    assert (again.duplicate, again.backlog) == (True, 2)
    assert seq.append(3, "g", id="3", score=3, delay=60, backlog=True).backlog == 3
    assert seq.append(4, "g", id="3", score=3, delay=60, replace=True, backlog=True).backlog == 3
    assert seq.append(1, "other", id="1", backlog=True).backlog == 1
    with seq.claim(group="g") as lease:
        for message in lease:
            lease.ack(message)
    handled = seq.append(1, "g", id="1", backlog=True)
    assert (handled.outcome, handled.stamp, handled.backlog) == ("duplicate", None, 1)
    late = seq.append(0, "g", id="0", score=0, backlog=True)
    assert (late.outcome, late.backlog) == ("dead_letter", 1)


def test_one_append_takes_a_bounded_number_of_instructions(seq: Sequencer) -> None:
    ours, taken = str(Path(sequencer.__file__).parent), 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal taken
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += event == "opcode" and frame.f_code.co_filename.startswith(ours)
        return trace

    seq.append(1, ["a"])
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        seq.append(2, ["a"])
    finally:
        sys.settrace(old)
    assert taken < 1010  # 1,000; with what redis-py does about 180 more
