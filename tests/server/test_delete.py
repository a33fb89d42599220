"""A queue that is deleted, or was made by another version; the scripts of the registry do as their model does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sequencer import Sequencer, list_queues
from sequencer.calls.call import Call
from sequencer.calls.register import register, sync_shard
from sequencer.doctor.diagnose import diagnose
from sequencer.errors import ConfigurationError, SequencerError, ServerNotUsable
from sequencer.net.link import Link
from sequencer.queue.registry import deletion
from sequencer.queue.registry.index import remove_from_index
from sequencer.settings.policy import Policy
from sequencer.store.keys import registry_key, shard_keys
from sequencer.store.registration import Registration, plain_tags
from sequencer.testing import wait_until

from ..support.background import Background
from ..support.model.registry import ModelServer
from ..support.own_server import client
from ..support.refused import refused
from ..support.shard import at

REGISTRY = registry_key("sequencer", "q")


# -- delete --------------------------------------------------------------------------------------------------------


def test_a_deleted_queue_leaves_no_key_and_a_producer_registers_it_again(
    admin: Link, caplog: pytest.LogCaptureFixture
) -> None:
    with client(admin, shards=3) as seq, client(admin) as other:
        seq.append_many({"body": n, "group": f"g{n}"} for n in range(1200))
        seq.pause(["g1"])
        used = other.usage()
        assert (used.groups, used.leases, used.owners) == (1200, 0, ())
        with seq.claim():
            assert other.usage().leases == 1
        assert other.delete() == 1200
        assert admin.command("KEYS", "*") == []
        with refused(ConfigurationError, "queue_unknown", queue="q"):
            other.delete()
        with caplog.at_level(logging.WARNING, "sequencer"):
            seq.append(1, "g")
        assert "registered again, with 3 shards" in caplog.text
        assert other.info().backlog == 1


@pytest.mark.parametrize("right", ["scan", "unlink", "zrem"])
def test_a_user_who_may_not_delete_all_deletes_nothing(admin: Link, right: str) -> None:
    admin.command("ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", f"-{right}")
    with client(admin) as seq, Sequencer("q", f"{admin.endpoint.url}?username=app&password=x") as other:
        seq.append(1, "g")
        with pytest.raises(ServerNotUsable):
            other.delete()
        seq.append(2, "g")
        assert seq.info().backlog == 2


def test_a_deletion_that_was_broken_off_is_named_and_ended(admin: Link) -> None:
    with client(admin) as seq:
        seq.append(1, "g")
        there = Registration(1, 0, plain_tags(1), Policy().stored(), is_deleted=True)
        admin.command("HSET", REGISTRY, "generation", f"-1.{10**17}")
        admin.run_one(
            sync_shard(
                shard_keys("sequencer", "q", 0), Registration(10**17, 0, there.tags, there.policy, is_deleted=True)
            )
        )
        (found,) = [one for one in diagnose(admin.endpoint, "sequencer") if one.check == "queues"]
        assert (found.code, found.commands["fix"]) == ("deletion unfinished", "sequencer delete q --yes")
        seq.delete()
        assert admin.command("KEYS", "*") == []


def test_a_queue_that_is_made_anew_as_its_deletion_ends_is_listed(admin: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that is connected appends just before the name is removed."""
    with client(admin) as seq, client(admin) as other:
        seq.append(1, "g")

        async def late(alone: Any, options: Any) -> None:
            with suppress(SequencerError):
                seq.append(2, "g")
            await remove_from_index(alone, options)

        monkeypatch.setattr(deletion, "remove_from_index", late)
        other.delete()
        seq.append(3, "g")
    assert list_queues(admin.endpoint.url) == ["q"]


def test_connected_consumers_are_seen_by_their_names(admin: Link) -> None:
    with client(admin) as seq, client(admin) as other:
        seq.append(1, "g")
        with Background(seq, lambda message: None):
            wait_until(lambda: other.usage().clients)


@pytest.mark.parametrize("word", ["4", "2: this program is too old"])
def test_a_queue_of_another_protocol_is_refused_before_anything_is_written(admin: Link, word: str) -> None:
    with client(admin) as seq:
        seq.append(1, "g")
        admin.command("HSET", REGISTRY, "generation", f"{word}.{10**17}")
        before = {name: admin.command("DUMP", name) for name in admin.command("KEYS", "*")}
        with client(admin) as new:
            uses: list[Callable[[], Any]] = [lambda: new.append(2, "g"), new.info, new.claim]
            for use in uses:
                with refused(ServerNotUsable, "other_version", protocol=word):
                    use()
        assert {name: admin.command("DUMP", name) for name in admin.command("KEYS", "*")} == before
        admin.command("DEL", *before)


# -- the model ------------------------------------------------------------------------------------------------------


def test_scripts_and_model_agree(admin: Link) -> None:
    """What `register` and `sync_shard` answer, and what they leave, step by step."""
    model, keys, policy = ModelServer(), shard_keys("sequencer", "q", 0), Policy().stored()
    one = Registration(5, 0, plain_tags(2), policy)
    two, three = one.changed({**policy, "gap_us": "5"}), Registration(9, 0, plain_tags(3), policy)
    gone = Registration(20, 0, plain_tags(2), policy, is_deleted=True)
    calls: list[Call[Any]] = [
        register(REGISTRY, None, one),
        register(REGISTRY, None, three),
        register(REGISTRY, one, two),
        at(sync_shard(keys, one), 7),
        at(sync_shard(keys, one, "confirm", pending="3.5 0 6"), 7),
        at(sync_shard(keys, one, "remove", pending="3.5 0 7"), 7),
        at(sync_shard(keys, one), 8),
        at(sync_shard(keys, one, "confirm", pending="3.5 0 8"), 8),
        at(sync_shard(keys, one), 9),
        at(sync_shard(keys, two), 9),
        at(sync_shard(keys, one), 9),
        at(sync_shard(keys, three), 9),
        at(sync_shard(keys, gone), 9),
        at(sync_shard(keys, three), 9),
    ]
    for call in calls:
        model.now_us = int(call.now or 0)
        words = ("EVAL", call.eval_command()[1], len(call.keys), *call.keys, *call.args)
        assert call.parse(model.run(words)) == admin.run_one(call), call
        for key in (REGISTRY, keys.policy):
            words = admin.command("HGETALL", key)
            assert dict(zip(words[::2], words[1::2], strict=True)) == {
                name.encode(): value.encode() for name, value in model.hashes.get(key, {}).items()
            }
    assert admin.command("GET", keys.clock) == b"9"
