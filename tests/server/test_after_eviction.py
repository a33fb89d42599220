"""What an eviction leaves behind, and what `doctor --repair` makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer import Message, Sequencer
from sequencer.doctor.diagnose import MAX_SHOWN, diagnose, is_healthy
from sequencer.errors import ConfigurationError
from sequencer.net.link import Link
from sequencer.store.keys import index_key, registry_key, shard_keys

from ..support.handling import consumed
from ..support.redis_cli import run_line
from ..support.refused import refused

KEYS = shard_keys("sequencer", "q", 0)


@pytest.fixture
def seq(admin: Link) -> Iterator[Sequencer]:
    with Sequencer("q", str(admin.endpoint.url)) as found:
        yield found


def fixed(seq: Sequencer) -> None:
    seq.doctor(repair=True)
    assert is_healthy(seq.doctor())


def test_a_group_whose_parked_head_lost_its_body_goes_on_once_that_is_repaired(admin: Link, seq: Sequencer) -> None:
    """Else `parked` would say for ever that a message which is not there can't be read."""
    seq.append(1, "g", id="lost", score=1)
    seq.append(2, "g", id="next", score=2)
    admin.command("HDEL", KEYS.body("g"), "lost")
    seq.consume(lambda _: None, until_empty=True)
    assert [info.failure and info.failure.type for info in seq.parked()] == ["Undecodable"]
    fixed(seq)
    assert list(seq.parked()) == []
    assert [message.id for message in consumed(seq)] == ["next"]


def test_a_group_that_is_parked_for_another_message_stays_so(admin: Link) -> None:
    with Sequencer("q", str(admin.endpoint.url), max_attempts=1) as seq:
        seq.append(1, "g", id="bad", score=1)
        seq.append(2, "g", id="lost", score=2)

        def fail(_: Message) -> None:
            raise ValueError("no")

        seq.consume(fail, until_empty=True)
        admin.command("HDEL", KEYS.body("g"), "lost")
        fixed(seq)
        assert [(info.head_id, info.failure and info.failure.type) for info in seq.parked()] == [("bad", "ValueError")]


@pytest.mark.parametrize("lost", ["all but messages", "all but the clock", "all but the index"])
def test_what_a_list_shows_can_be_deleted(admin: Link, seq: Sequencer, lost: str) -> None:
    seq.append(1, "g")
    known = [registry_key("sequencer", "q"), KEYS.policy]
    gone = {
        "all but messages": [*known, KEYS.clock, index_key("sequencer")],
        "all but the clock": [*known, index_key("sequencer"), KEYS.schedule, KEYS.stats],
        "all but the index": [key.decode() for key in admin.command("KEYS", "{*")],
    }
    admin.command("DEL", *gone[lost])
    with Sequencer("q", str(admin.endpoint.url)) as other:
        assert other.usage().leases == 0
        other.delete()
        assert admin.command("KEYS", "*") == []
        with refused(ConfigurationError, "queue_unknown", queue="q"):
            other.delete()


def test_what_the_doctor_says_of_a_queue_without_registration_brings_it_back(admin: Link, tmp_path: Path) -> None:
    with Sequencer("q", str(admin.endpoint.url), shards=3) as seq:
        seq.append_many({"body": n, "group": f"g{n}"} for n in range(20))
        seq.consume(lambda _: None, max_messages=3)
        policies = [shard_keys("sequencer", "q", shard).policy for shard in range(3)]
    admin.command("DEL", registry_key("sequencer", "q"), *policies, index_key("sequencer"))
    diagnose(admin.endpoint, "sequencer", repair=True)
    (told,) = [one for one in diagnose(admin.endpoint, "sequencer") if one.code == "unregistered"]
    done = run_line(told.commands["register"], tmp_path, str(admin.endpoint.url))
    assert "problem" not in done.stdout, done.stdout + done.stderr
    with Sequencer("q", str(admin.endpoint.url)) as seq:
        assert seq.consume(lambda _: None, until_empty=True).handled == 17
        assert seq.info().shards == 3


def test_a_full_server_is_said_to_take_no_repair(admin: Link, seq: Sequencer) -> None:
    seq.append(1, "g")
    admin.command("DEL", index_key("sequencer"))
    admin.command("HSET", shard_keys("sequencer", "q", 0).policy, "on_late", "drop")
    admin.command("CONFIG", "SET", "maxmemory", 1)
    found = diagnose(admin.endpoint, "sequencer", repair=True)
    left = {one.code: one for one in found if not one.repaired}
    assert {"not in index", "shard policy differs", "repair needs room"} <= left.keys()
    assert left["repair needs room"].commands == {"fix": "sequencer doctor --repair"}
    admin.command("CONFIG", "SET", "maxmemory", 0)
    fixed(seq)


def test_what_is_lost_is_listed_with_group_and_id_and_the_next_step_is_said(admin: Link, seq: Sequencer) -> None:
    """More than a person reads: a script takes the ids, and what is lost is appended again from its source."""
    count = MAX_SHOWN + 20
    seq.append_many({"body": n, "group": ["a b", "7"], "id": f"m{n}"} for n in range(count))
    seq.append(1, "whole", id="stays")
    seq.append(1, "gone")
    admin.command("DEL", KEYS.body("a b:7"), KEYS.body("gone"), KEYS.order("gone"))
    assert "removed" not in [one.code for one in diagnose(admin.endpoint, "sequencer", "q")], "nothing yet"
    found = seq.doctor(repair=True)
    lost = [one for one in found if one.code == "message without record"]
    assert {(one.fields.get("group"), one.fields.get("id"), one.repaired) for one in lost} == {
        (("a b", "7"), f"m{n}", True) for n in range(count)
    }
    assert len(lost) == count
    assert "more" not in [one.code for one in found]
    (said,) = [one for one in found if one.code == "removed"]
    assert (said.fields["messages"], said.fields["groups"]) == (count, 1)
    assert "removed" not in [one.code for one in seq.doctor(repair=True)], "said once"


def test_a_dead_letter_that_is_broken_is_listed_with_group_and_id(admin: Link, seq: Sequencer) -> None:
    admin.command("ZADD", KEYS.dead, 1, "1" * 16 + "a b:c\nm57", 2, "odd")
    seq.append(1, "g")
    found = [one for one in seq.doctor() if one.check == "dead letters"]
    assert {(one.fields.get("group"), one.fields.get("id")) for one in found} == {(("a b", "c"), "m57"), (None, None)}
