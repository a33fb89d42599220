"""What a claim takes of what is due: within its limits, of one group, and ahead while a batch is handled."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer
from sequencer.calls.operate import pause, redrive
from sequencer.calls.outage import outage
from sequencer.calls.settle import Ack, ack
from sequencer.errors import DataError, InvalidGroup
from sequencer.net.link import Link
from sequencer.settings.options import SIZE_BESIDE, ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.keys import shard_keys
from sequencer.store.record import RECORD_HEAD
from sequencer.testing.wire import Wire, name_of, wired

from ..support.invariants import check_invariants
from ..support.shard import SECOND, Shard, item


def taken(shard: Shard, limits: ClaimLimits, *, alone: int | None = None) -> dict[str, int]:
    """Group -> how many of its messages."""
    return {group: len(lease.messages) for group, lease in shard.claim(limits, alone=alone).items()}


# -- limits ---------------------------------------------------------------------------------------------------


def test_bytes_are_those_of_records_and_40_for_each(shard: Shard) -> None:
    shard.append(*[item("g", str(n), body="1" * 58) for n in range(9)])
    size = RECORD_HEAD + 60 + SIZE_BESIDE
    for bytes, count in ((4 * size, 4), (4 * size - 1, 3), (1, 1)):
        claimed = shard.claimed(ClaimLimits(1, 100, bytes))
        (lease,) = claimed.groups
        assert (len(lease.messages), claimed.size) == (count, size)
        shard.ack(lease, count=0)


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_large_bodies_are_given_out_up_to_the_limit(shard: Shard, size: int) -> None:
    """They are read in steps."""
    for n in range(40):
        shard.append(item("g", str(n), body=f'"{"x" * (size - 4)}"'))
    limit = 30 * (RECORD_HEAD + size + SIZE_BESIDE)
    assert taken(shard, ClaimLimits(1, 100, limit)) == {"g": 30}


def test_of_many_due_groups_each_gets_an_eighth_at_most(shard: Shard) -> None:
    for n in range(16):
        shard.append(*[item(f"g{n:02}", str(k)) for k in range(20)])
    assert taken(shard, ClaimLimits(16, 80, 10**6)) == {f"g{n:02}": 10 for n in range(8)}


@pytest.mark.parametrize("which", [3, 14, 50])
def test_a_paused_group_is_left_out_wherever_it_stands(shard: Shard, which: int) -> None:
    shard.append(*[item(f"g{n:02}", "a") for n in range(60)])
    shard.run(pause(shard.keys, f"g{which:02}", True))
    assert set(shard.claim()) == {f"g{n:02}" for n in range(60)} - {f"g{which:02}"}


# -- leases that expired --------------------------------------------------------------------------------------


def test_a_group_whose_lease_expired_is_claimed_alone(shard: Shard) -> None:
    """What kills a consumer is not blamed on its neighbours."""
    shard.append(item("killer", "a"), item("killer", "b"))
    shard.claim()
    shard.append(item("first", "a"))
    shard.later(5)
    shard.append(item("last", "a"))
    assert list(shard.claim()) == ["first"]
    (lease,) = shard.claim().values()
    assert (lease.key, lease.expired_owner, [one.id for one in lease.messages]) == ("killer", "me", ["a"])
    assert list(shard.claim()) == ["last"]


def test_attempts_end_at_9999_and_leave_the_rest_of_the_record_alone(shard: Shard) -> None:
    shard.append(item("g", "a", body='"body"'))
    shard.nack(shard.claim()["g"], 0.0, attempts=9998)
    for attempt in (9999, 10000, 10000):
        lease = shard.claim()["g"]
        assert ([one.attempt for one in lease.messages], lease.messages[0].body) == ([attempt], "body")
        shard.later(5)


# -- groups that it can't give out ----------------------------------------------------------------------------


def test_a_group_of_another_type_is_parked_without_its_lease(shard: Shard) -> None:
    shard.append(item("g", "a"))
    shard.claim()
    shard.link.command("RENAME", shard.keys.order("g"), shard.keys.order("kept"))
    shard.link.command("SET", shard.keys.order("g"), "foreign")
    shard.later(5)
    assert shard.claim() == {}
    assert shard.visible("g") == math.inf
    shard.link.command("RENAME", shard.keys.order("kept"), shard.keys.order("g"))
    assert check_invariants(shard.link, [shard.keys]) == [], "once fixed, nothing else is wrong with it"


def test_of_a_group_deleted_by_hand_nothing_is_left(shard: Shard) -> None:
    shard.append(item("g", "a"))
    shard.nack(shard.claim()["g"], 1.0)
    shard.link.command("DEL", shard.keys.order("g"), shard.keys.body("g"))
    shard.later(1)
    assert shard.claim() == {}
    assert shard.visible("g") is None
    assert check_invariants(shard.link, [shard.keys]) == []


def test_leases_are_a_hash_table_and_their_owner_is_shown_without_padding(shard: Shard) -> None:
    """In the packed form each look at one group would go through all."""
    shard.append(item("g", "a"))
    lease = shard.claim()["g"]
    assert shard.link.command("OBJECT", "ENCODING", shard.keys.leases) == b"hashtable"
    shard.later(5)
    assert shard.claim()["g"].expired_owner == "me"
    assert lease.token


# -- what a head waits for ------------------------------------------------------------------------------------


def test_a_redriven_message_does_not_wait_for_stragglers_again(shard: Shard) -> None:
    shard.rules(Policy(on_late="dead_letter", reorder_window=10, watermark_window=100))
    shard.append(item("g", "a", "5"))
    shard.later(10)
    shard.handle("g", "5")
    assert shard.append(item("g", "b", "4")) == ["dead_letter"]
    (letter,) = shard.link.command("ZRANGE", shard.keys.dead, 0, -1)
    assert shard.run(redrive(shard.keys, [letter.decode()])) == ["redriven"]
    assert [one.id for one in shard.claim()["g"].messages] == ["b"]


@pytest.mark.parametrize("on_gap", ["park", "skip"])
def test_a_gap_ends_with_its_last_microsecond(shard: Shard, on_gap: str) -> None:
    shard.rules(Policy(sequence=True, gap_timeout=10, on_gap=on_gap))  # type: ignore[arg-type]
    shard.append(item("g", "2", "2"))
    assert shard.claim() == {}
    shard.later(10 - 1e-6)
    shard.link.command("ZADD", shard.keys.schedule, shard.now, "g")
    assert shard.claim() == {}
    assert shard.visible("g") == shard.now + 1
    shard.later(1e-6)
    assert list(shard.claim()) == (["g"] if on_gap == "skip" else [])
    assert shard.visible("g") == (shard.now + 5 * SECOND if on_gap == "skip" else math.inf)


# -- one named group ------------------------------------------------------------------------------------------


def test_one_that_is_not_due_leaves_the_hints_of_others(shard: Shard) -> None:
    shard.append(item("a", "1"), item("b", "1"))
    shard.forget_hints()
    assert shard.claim(only="b")
    assert not shard.claim(only="b")
    assert not shard.claim(only="nothing")
    assert shard.hints() == []
    shard.append(item("d", "1"))
    assert not shard.claimed(only="b").groups
    assert shard.hints() == ["d"]


def hold_the_shard_back(shard: Shard) -> None:
    shard.link.command("HSET", shard.keys.policy, "probe_us", shard.now + 1_000_000)
    shard.link.command("HSET", shard.keys.outage, "opened_us", shard.now)


def test_of_a_shard_that_is_held_back_it_is_the_probe_that_is_due(shard: Shard) -> None:
    """Else one that claims groups by name alone would never see the end of an outage."""
    shard.append(item("a", "1"), item("g", "1"), item("g", "2"))
    hold_the_shard_back(shard)
    shard.later(2)
    (group,) = shard.claimed(only="g").groups
    assert (group.key, len(group.messages), group.is_probe) == ("g", 1, True)
    assert shard.claim() == {}, "one probe at a time"
    shard.run(outage(shard.keys, "close", group.token))


def test_a_lease_of_one_group(make: Callable[..., Sequencer]) -> None:
    """Of a queue of several shards, and with the words of the public class."""
    seq = make(shards=4)
    seq.append_many({"group": [n, 1], "body": n} for n in range(20))
    for number in (7, 3):
        with seq.claim(group=[number, 1], messages=5) as lease:
            assert [message.body for message in lease] == [number]
            with seq.claim(group=(number, "1")) as other:
                assert not other
    assert not seq.claim(group="nobody")
    with pytest.raises(InvalidGroup):
        seq.claim(group=[])


GROUPS = 40


class Watched(Wire):
    """Notes the claims that are sent, as `("claim", ahead)`; `on_claim` may lose the connection."""

    def __init__(self, inner: Any, seen: list[bool], lose: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._seen, self._lose = seen, lose

    def sending(self, commands: list[Any]) -> list[Any]:
        for words in commands:
            if name_of(words) == "claim":
                self._seen.append(words[-7] == "1")
                if words[-7] == "1" and self._lose():
                    raise redis.ConnectionError("lost")
        return commands


def watched(make: Callable[..., Sequencer], seq: Sequencer, lose: Callable[[], bool] = bool) -> Any:
    seen: list[bool] = []
    return make(redis=wired(seq.endpoint, lambda inner: Watched(inner, seen, lose))), seen


def fill(seq: Sequencer, each: int = 5) -> None:
    seq.append_many({"body": n, "group": ["g", n % GROUPS], "id": str(n)} for n in range(GROUPS * each))


def test_quick_handlers_have_the_next_batch_claimed_meanwhile(make: Callable[..., Sequencer], seq: Sequencer) -> None:
    fill(seq)
    client, seen = watched(make, seq)
    handled: dict[Any, list[int]] = {}
    done = client.consume(
        lambda message: handled.setdefault(message.group, []).append(message.body),
        until_empty=True,
        limits=ClaimLimits(4, 10, 10**6),
    )
    assert (done.handled, done.lost) == (GROUPS * 5, 0)
    assert all(bodies == sorted(bodies) for bodies in handled.values())
    assert seen.count(True) > 5
    assert not seen[0]


def test_several_shards_or_a_number_of_messages_are_claimed_when_they_are_needed(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    fill(seq)
    client, seen = watched(make, seq)
    assert client.consume(lambda message: None, max_messages=100).handled == 100
    assert not any(seen)
    assert seq.consume(lambda message: None, until_empty=True).handled == 100


def test_a_consumer_that_stops_gives_back_what_it_claimed_ahead(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, namespace: str
) -> None:
    fill(seq)
    client, seen = watched(make, seq)
    consumers: list[Any] = []

    def handle(message: Message) -> None:
        if any(seen):
            consumers[0].stop()

    done = client.consume(handle, on_start=consumers.append, limits=ClaimLimits(4, 10, 10**6))
    assert done.reason == "stopped"
    assert link.command("HLEN", shard_keys(namespace, "jobs", 0).leases) == 0
    assert seq.consume(lambda message: None, until_empty=True).handled == GROUPS * 5 - done.handled


FAR_S = 0.06


class Far(Wire):
    """A server a round trip of FAR_S away; notes when the acknowledgement of each id was sent first."""

    def __init__(self, inner: Any, acked: dict[str, float]) -> None:
        super().__init__(inner)
        self._acked, self._due = acked, deque[float]()

    def sending(self, commands: list[Any]) -> list[Any]:
        for words in commands:
            self._due.append(time.monotonic() + FAR_S)
            for member in json.loads(words[3 + int(words[2])])[-1] if name_of(words) == "ack" else ():
                self._acked.setdefault(member[16:], time.monotonic())
        return commands

    def read_response(self, *_: Any, **__: Any) -> Any:
        if self._due:
            threading.Event().wait(max(0.0, self._due.popleft() - time.monotonic()))
        return super().read_response()

    def can_read(self, timeout: float = 0) -> bool:
        left = self._due[0] - time.monotonic() if self._due else 0.0
        threading.Event().wait(max(0.0, min(timeout, left)))
        return left <= timeout and super().can_read(timeout)


def test_acknowledgements_do_not_wait_for_the_answer_to_a_claim_ahead(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    """A consumer that is killed meanwhile would have a whole batch handled again."""
    fill(seq)
    acked: dict[str, float] = {}
    ended: dict[str, float] = {}
    client = make(redis=wired(seq.endpoint, lambda inner: Far(inner, acked)))

    def handle(message: Message) -> None:
        ended[message.id] = time.monotonic()

    assert client.consume(handle, until_empty=True, limits=ClaimLimits(4, 10, 10**6)).handled == GROUPS * 5
    waits = sorted(acked[name] - ended[name] for name in ended)
    assert waits[len(waits) // 2] < FAR_S / 2


# -- keys of a wrong type -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dispatch", "stats", "leases", "failures"])
def test_an_ack_or_nack_that_meets_a_key_of_a_wrong_type_changes_nothing(shard: Shard, link: Link, name: str) -> None:
    shard.append(item("g", "1"), item("g", "2"))
    lease, key = shard.claim()["g"], getattr(shard.keys, name)
    link.command("DEL", key)
    link.command("ZADD", key, 1, "foreign")
    before = shard.dump()
    entry = Ack(lease.key, lease.token, lease.members[:1], True)
    with pytest.raises(DataError):
        shard.run(ack(shard.keys, [entry]))
    with pytest.raises(DataError):
        shard.nack(lease, 1.0)
    assert shard.dump() == before
    link.command("DEL", *before)
