"""A queue that is flushed or deleted under clients; an index that others write."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest
import redis

from sequencer import Sequencer, list_queues
from sequencer.doctor.diagnose import diagnose
from sequencer.doctor.rights import acl_rules
from sequencer.errors import DataError
from sequencer.net.link import Link
from sequencer.store.keys import index_key, registry_key, shard_keys

from ..support.link_clock import LinkClock, stopped_clock
from ..support.own_server import client
from ..support.redis_cli import run_line

REGISTRY, INDEX = registry_key("sequencer", "q"), index_key("sequencer")


@pytest.mark.parametrize("lost", ["everything", "policies", "policies and registry"])
def test_the_next_append_notices(admin: Link, lost: str, caplog: pytest.LogCaptureFixture) -> None:
    """Else a sequence hands out numbers anew, and messages lie in shards at which no new client looks."""
    with client(admin, shards=4, on_late="drop", dedup_window=5.0) as old:
        for n in range(20):
            old.append(n, f"g{n}", id=f"a{n}")
        if lost == "everything":
            admin.command("FLUSHALL")
        else:
            admin.command("DEL", *[shard_keys("sequencer", "q", shard).policy for shard in range(4)])
            admin.command("DEL", *([REGISTRY] if "registry" in lost else ["nothing"]))
        with caplog.at_level(logging.WARNING, "sequencer"):
            assert old.append_many({"body": n, "group": f"g{n}", "id": f"b{n}"} for n in range(40)).appended == 40
    seen: list[str] = []
    with client(admin) as new:
        assert (new.info().shards, new.policy.on_late, new.policy.dedup_window) == (4, "drop", 5.0)
        new.consume(lambda message: seen.append(message.id), until_empty=True)
    assert len(seen) == len({*seen}) == (40 if lost == "everything" else 60)
    assert ("queue restored" in caplog.text) == (lost != "policies")


def test_a_shard_that_an_evicting_server_forgot_gets_only_its_own_messages_again(admin: Link) -> None:
    """Of a chunk over shards, only what was refused is sent again: nothing passes for a duplicate."""
    with client(admin, shards=2) as seq:
        seq.append_many({"body": n, "group": f"g{n}"} for n in range(4))
        admin.command("DEL", shard_keys("sequencer", "q", 1).policy)
        receipt = seq.append_many({"body": n, "group": f"g{n}", "id": f"m{n}"} for n in range(40))
        assert (receipt.appended, receipt.duplicates) == (40, 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LinkClock:
    return stopped_clock(monkeypatch)


def test_a_registry_key_that_is_lost_alone_is_made_again_within_a_minute(
    admin: Link, clock: LinkClock, caplog: pytest.LogCaptureFixture
) -> None:
    with client(admin, shards=3) as seq:
        seq.append(1, "g")
        before = admin.command("HGETALL", REGISTRY)
        admin.command("DEL", REGISTRY, INDEX)
        seq.append(2, "g")
        with client(admin) as new:
            assert (new.info().shards, new.info().backlog) == (3, 2), "and nothing is wrong meanwhile"
        assert admin.command("EXISTS", REGISTRY) == 0, "a mere look writes nothing"
        clock.now += 61
        with caplog.at_level(logging.WARNING, "sequencer"):
            seq.append(3, "g")
        assert admin.command("HGETALL", REGISTRY) == before
        assert admin.command("HGET", INDEX, "q") == b"p3"
        assert "its registration was lost; registered again, with 3 shards" in caplog.text


def test_a_policy_of_others_is_taken_over_and_not_set_back(admin: Link, clock: LinkClock) -> None:
    """Else two programs that ask for two policies would change it for ever, once a minute."""
    with client(admin, on_late="drop") as first, client(admin, on_late="refuse") as second:
        first.append(1, "g")
        second.append(2, "g")
        for _ in range(3):
            clock.now += 61
            first.append(3, "g")
            second.append(4, "g")
        assert first.policy.on_late == "refuse"


def test_a_producer_of_one_queue_neither_reroutes_others_nor_stops_their_views(admin: Link, clock: LinkClock) -> None:
    admin.command("ACL", "SETUSER", "a", "on", ">a", "resetchannels", *acl_rules("sequencer", "append", "a"))
    with client(admin, shards=2) as seq:
        for n in range(10):
            seq.append(n, f"g{n}")
        with redis.Redis.from_url(f"{admin.endpoint.url}?username=a&password=a") as bad:
            for words in (
                ("HSET", INDEX, "q", "1"),
                ("HSET", INDEX, "q", "foreign"),
                ("DEL", INDEX),
                ("SET", INDEX, "x"),
            ):
                bad.execute_command(*words)
                with client(admin) as new:
                    new.append(1, "g1")
                    assert new.info().shards == 2
                clock.now += 61
                seq.append(1, "g2")
            for key in (REGISTRY, shard_keys("sequencer", "q", 0).policy):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    bad.hset(key, "generation", "2.5")
        assert seq.info().backlog == 18


def test_an_index_of_another_type_stops_lists_alone(admin: Link) -> None:
    with client(admin) as seq, Sequencer("gone", str(admin.endpoint.url)) as other:
        seq.append(1, "g")
        other.append(1, "g")
        admin.commands([("DEL", INDEX), ("SET", INDEX, "x")])
        with pytest.raises(DataError):
            list_queues(admin.endpoint.url)
        for queue in ("q", None):
            found = [one for one in diagnose(admin.endpoint, "sequencer", queue) if one.level == "problem"]
            assert len(found) == 1
            diagnose(admin.endpoint, "sequencer", queue, repair=True)
        other.delete()
    with client(admin) as late:
        late.append(2, "g")
        assert late.consume(lambda message: None, until_empty=True).handled == 2
        admin.command("DEL", INDEX)
        diagnose(admin.endpoint, "sequencer", repair=True)
        assert list_queues(admin.endpoint.url) == ["q"]
        assert admin.command("HGET", INDEX, "q") == b"p3", "as a client writes it"


def test_what_is_no_name_stops_no_list_and_doctor_removes_it(admin: Link, tmp_path: Path) -> None:
    url = f"{admin.endpoint.url}?db=2"
    with Sequencer("q", url) as seq, closing(Link(seq.endpoint)) as link:
        seq.append({}, "g")
        for damage, code in ((("HSET", INDEX, "we ird", "3"), "invalid name"), (("SET", INDEX, 1), "foreign index")):
            link.command(*damage)
            (found,) = [one for one in diagnose(seq.endpoint, "sequencer") if one.code == code]
            assert run_line(next(iter(found.commands.values())), tmp_path, url).returncode == 0
            diagnose(seq.endpoint, "sequencer", repair=True)
            assert code not in [one.code for one in diagnose(seq.endpoint, "sequencer")]
            assert list_queues(url) == ["q"]
