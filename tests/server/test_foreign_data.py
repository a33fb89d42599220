"""What others wrote into our keys, and answers that are none: errors of ours, parked messages, never a crash.

Found by `tests/faults/test_input.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Park, Sequencer, SequencerError
from sequencer.errors import ServerError, ServerUnavailable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.testing.wire import Wire, wired

from ..support.invariants import check_invariants
from ..support.refused import refused


class Liar(Wire):
    """Puts something else in the place of the so-manieth reply, counted over all connections."""

    def __init__(self, inner: Any, at: dict[int, Callable[[Any], Any]], seen: list[int]) -> None:
        super().__init__(inner)
        self._at, self._seen = at, seen

    def received(self, reply: Any) -> Any:
        self._seen[0] += 1
        return self._at.get(self._seen[0], lambda same: same)(reply)


def lose(_: Any) -> Any:
    raise redis.ConnectionError("lost")


def test_a_connection_lost_while_connecting_makes_no_empty_queue(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    seq.append(1, ["g"])
    refused = 0
    for position in range(1, 12):
        seen = [0]
        at = {position: lose, position + 1: lose}
        client = make(redis=wired(seq.endpoint, lambda inner, at=at, seen=seen: Liar(inner, at, seen)))  # type: ignore[misc]
        try:
            client.info()
        except SequencerError:
            refused += 1
        assert client.info().backlog == 1, f"reply {position} lost"
    assert refused > 3


@pytest.mark.parametrize("score", ["inf", "-inf"])
@pytest.mark.parametrize("options", [{"sequence": True}, {}])
def test_an_infinite_score_is_undecodable(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, score: str, options: dict[str, Any]
) -> None:
    seq = make(backoff=0.0, gap_timeout=0.1, on_gap="skip", **options)
    seq.append(1, ["g"], id="1", score=1)
    (member,) = link.command("ZRANGE", keys.order("g"), 0, 0)
    link.command("ZADD", keys.order("g"), score, member)
    seq.consume(lambda message: None, until_empty=True)
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert (parked.failure.type, score in parked.failure.message) == ("Undecodable", True)
    assert seq.explain("g").reason == "parked"
    seq.skip("g")
    assert seq.info().backlog == 0


@pytest.mark.parametrize("clock", ["99999999999999999999", "9999999999999999", "1e300", "nan", "x", "-5", "1.5"])
def test_an_unreadable_clock_changes_nothing_and_is_repaired(
    seq: Sequencer, link: Link, keys: ShardKeys, clock: str
) -> None:
    seq.append(1, ["g"], id="a")
    link.command("SET", keys.clock, clock)
    before = link.command("ZRANGE", keys.order("g"), 0, -1), link.command("HGETALL", keys.body("g"))
    with refused(ServerError, "shard_clock_foreign"):
        seq.append(2, ["g"], id="b")
    with refused(ServerError, "shard_clock_foreign"):
        seq.consume(lambda message: None, until_empty=True)
    assert (link.command("ZRANGE", keys.order("g"), 0, -1), link.command("HGETALL", keys.body("g"))) == before
    found = [one.fields["detail"] for one in seq.doctor() if one.code == "shard clock unreadable"]
    assert set(found) == {clock}
    seq.doctor(repair=True)
    seq.append(2, ["g"], id="b")
    assert seq.consume(lambda message: None, until_empty=True).handled == 2


TOTALS = ("appended", "handled", "failed", "parked", "dead", "late", "skipped", "redriven", "cancelled", "purged")


@pytest.mark.parametrize("total", ["rubbish", str(2**63 - 1), "\udcff"])
def test_a_total_that_can_not_be_counted_stops_nothing(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, total: str
) -> None:
    """A script that ended where it counts would have written one half of what it does."""
    seq = make(on_failure="dead_letter", max_attempts=2, backoff=0.0, on_late="drop")
    seq.connect()
    value = total.encode("utf-8", "surrogateescape")
    link.command("HSET", keys.stats, *[word for name in (*TOTALS, "dropped", "expired") for word in (name, value)])

    def fail(message: Message) -> None:
        if message.id == "b":
            raise ValueError("no")
        if message.id == "c":
            raise Park("look at it")

    assert seq.append_many({"body": n, "group": "g", "id": id, "score": n} for n, id in enumerate("abcd")).appended == 4
    assert seq.consume(fail, until_empty=True).handled == 1
    assert check_invariants(link, [keys]) == []
    assert [(letter.message.id, letter.error.type) for letter in seq.dead()] == [("b", "ValueError")]
    skipped = seq.skip("g")
    assert isinstance(skipped, Message)
    assert skipped.id == "c"
    assert seq.append(0, "g", id="e", score=-1).outcome == "dropped"
    seq.cancel("g", "d")
    assert seq.redrive(everything=True).redriven == 1
    seq.consume(fail, until_empty=True)
    assert seq.purge(everything=True) == 1
    assert check_invariants(link, [keys]) == []
    assert link.command("KEYS", keys.order("*")) == []
    if total != str(2**63 - 1):
        assert keys.stats in [one.fields["key"] for one in seq.doctor() if one.code == "unreadable"]
    link.command("DEL", keys.stats)


@pytest.mark.parametrize("name", ["began", "last", "old"])
def test_a_time_that_others_wrote_ends_no_acknowledgement_half_way(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, name: str
) -> None:
    seq = make(on_late="drop", dedup_window=60.0, on_failure="drop", max_attempts=1)
    seq.append_many({"body": n, "group": "g", "id": id, "score": n} for n, id in enumerate("abcde"))
    seen: list[str] = []

    def handle(message: Message) -> None:
        seen.append(message.id)
        if message.id == "b":
            link.command("HSET", keys.memory, f"dedup:{name}", "rubbish")
        if message.id == "c":
            raise ValueError("no")

    with seq.claim(messages=1) as lease:
        for message in lease:
            lease.ack(message)
    assert seq.consume(handle, until_empty=True).handled == 3
    assert seen == ["b", "c", "d", "e"]
    assert seq.info().totals["handled"] == 4
    assert check_invariants(link, [keys]) == []
    looked = ["dedup:last"] if name == "began" else ["dedup:began", "dedup:last"]  # that is read when "last" is over
    assert all(at.isdigit() for at in link.command("HMGET", keys.memory, *looked))
    link.command("HDEL", keys.memory, "dedup:old")
    assert seq.append(4, "g", id="e", score=4).duplicate
    assert seq.append(9, "g", id="z", score=-1).outcome == "dropped"


def test_bytes_that_are_no_protocol_are_a_lost_connection(make: Callable[..., Sequencer], seq: Sequencer) -> None:
    def garble(_: Any) -> Any:
        raise redis.InvalidResponse("Protocol Error: b'x'")

    seq.connect()
    everywhere: dict[int, Callable[[Any], Any]] = dict.fromkeys(range(1, 100), garble)
    client = make(redis=wired(seq.endpoint, lambda inner: Liar(inner, everywhere, [0])))
    with refused(ServerUnavailable, "protocol_unknown"):
        client.connect()
    assert isinstance(client.endpoint, Endpoint)
