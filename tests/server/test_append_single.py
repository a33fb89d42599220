"""One message alone: its rights, its keys, and the connections it may travel on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Sequencer
from sequencer.doctor.invariants import check_invariants
from sequencer.doctor.rights import commands_of
from sequencer.errors import ServerNotUsable
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

KEYS = shard_keys("sequencer", "q", 0)


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
        admin.command("ACL", "SETUSER", "app", "resetkeys", *kept, "~sequencer:queues", f"~{KEYS.seen}*")
        with pytest.raises(ServerNotUsable, match="lacks the right to a key"):
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
        seen: list[tuple[Any, ...]] = []
        seq.consume(lambda message: seen.append((message.group, message.id)), until_empty=True)
        assert seen == [(("é",), "ü"), (("é",), "ö")]
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
