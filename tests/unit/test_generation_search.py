"""What a client makes of a registration, of shards, and of what is missing of both: over a model of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from sequencer.errors import DataError, ServerNotUsable, ServerUnavailable
from sequencer.store.keys import index_key, registry_key, shard_keys

from ..support.listed_net import run
from ..support.model.clients import ModelNet, connected, looked, made, session
from ..support.refused import refused

KEYS = [shard_keys("n", "q", shard) for shard in range(2)]
REGISTRY, INDEX = registry_key("n", "q"), index_key("n")


@pytest.mark.parametrize(
    ("others", "level"),
    [
        ({}, logging.INFO),
        ({"orders": "p3", "orders-2": "p3"}, logging.INFO),
        ({"orders": "p3", "aq": "p3", "odd": "x"}, logging.WARNING),
    ],
)
def test_a_new_queue_is_told_once_with_a_name_like_its_own(
    caplog: pytest.LogCaptureFixture, others: dict[str, str], level: int
) -> None:
    server, net, seq = made()
    if others:
        server.run(("HSET", INDEX, *[word for pair in others.items() for word in pair]))
    with caplog.at_level(logging.INFO, "sequencer"):
        run(seq.shards())
        assert caplog.messages == [], "a mere look makes nothing"
        run(seq.shards(register=True))
        looked(net, seq)
        connected(server)
    [record] = caplog.records
    near = "aq" if level == logging.WARNING else ""
    found = record.levelno, record.event, record.queue, record.near  # type: ignore[attr-defined]
    assert found == (level, "queue created", "q", near)
    assert getattr(record, "delete", "") == ("sequencer delete q --namespace n" if near else "")


def test_who_did_not_know_a_queue_whose_policy_is_gone_refuses() -> None:
    server, net, seq = made(shards=2)
    run(seq.shards(register=True))
    server.hashes.clear()  # its messages are there, and the shard's clock
    with refused(DataError, "registration_lost", queue="q"):
        run(session(ModelNet(server)).shards(register=True))
    run(seq.find_generation(net.one))
    assert server.hashes[REGISTRY]["table"] == "0 1"


def test_an_older_registry_gets_what_is_newer_again() -> None:
    server, net, seq = made()
    connected(server)
    old = dict(server.hashes[REGISTRY])
    run(seq.shards(register=True))
    connected(server, on_late="drop")
    newer = dict(server.hashes[REGISTRY])
    looked(net, seq)
    server.hashes[REGISTRY] = old
    looked(net, seq)
    assert server.hashes[REGISTRY] == newer


# -- the policy -------------------------------------------------------------------------------------------------


def test_a_change_is_told_and_is_the_next_version(caplog: pytest.LogCaptureFixture) -> None:
    server, _, _ = made()
    connected(server)
    with caplog.at_level(logging.WARNING, "sequencer"):
        seq = connected(server, on_late="drop", watermark_window=5.0)
    assert run(seq.policy()).on_late == "drop"
    assert "q: policy changed: on_late from 'handle' to 'drop'" in caplog.messages
    policy = server.hashes[KEYS[0].policy]
    assert (policy["version"], server.hashes[REGISTRY]["version"], policy["on_late"]) == ("1", "1", "drop")
    assert policy["packed"] == f"{seq.generation} 0 300000000 0 drop 0 5000000 1000000"


def test_a_rule_that_changes_leaves_a_mark_until_groups_were_looked_at() -> None:
    server, _, _ = made()
    connected(server, reorder_window=5.0)
    seen: list[Any] = []
    zscan = server._zscan

    def look(*key: Any) -> Any:
        seen.append(server.hashes[KEYS[0].policy].get("again"))
        return zscan()

    server._zscan = look  # type: ignore[method-assign]
    seq = connected(server, reorder_window=0.0)
    assert seen == [f"{seq.generation} 1"]
    assert "again" not in server.hashes[KEYS[0].policy]


def test_a_registration_that_others_change_all_the_time_is_given_up() -> None:
    server, net, seq = made(on_late="drop")
    connected(server)
    register = server._register

    def busy(keys: list[str], args: Any) -> Any:
        version = int(server.hashes[REGISTRY]["version"]) + 1
        server.hashes[REGISTRY]["version"] = str(version)
        return register(keys, args)

    server._register = busy  # type: ignore[method-assign]
    with refused(ServerUnavailable, "queue_contended", queue="q"):
        run(seq.shards(register=True))
    assert len(net.slept) == 11


def test_an_index_that_can_not_be_written_is_told_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    server, _, seq = made()
    hset = server._hset

    def refuse(key: str, *words: Any) -> Any:
        return DataError("wrong_type", server="s", error="it is a string") if key == INDEX else hset(key, *words)

    server._hset = refuse  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "sequencer"):
        assert run(seq.shards(register=True)) == KEYS[:1]
    assert [record.event for record in caplog.records] == ["queue not listed"]  # type: ignore[attr-defined]


def test_a_registration_that_waits_for_a_deletion_is_given_up() -> None:
    server, net, seq = made()
    known = connected(server)._registration
    assert known
    gone = replace(known, is_deleted=True, generation_number=known.generation_number + 5)
    server.run(("HSET", REGISTRY, "generation", gone.generation))
    with refused(ServerNotUsable, "queue_being_deleted", queue="q"):
        run(seq.shards(register=True))
    assert net.slept
