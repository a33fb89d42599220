"""A claim on its way while a batch is handled: what it takes is handled in order, or released at once."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer, calls
from sequencer.calls.claim import Claimed
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, name_of, wired

from ..support.background import Background

GROUPS = 40


class Watched(Wire):
    """Notes the claims that are sent, as `("claim", ahead)`; `on_claim` may lose the connection."""

    def __init__(self, inner: Any, seen: list[bool], lose: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._seen, self._lose = seen, lose

    def sending(self, commands: list[Any]) -> list[Any]:
        for words in commands:
            if name_of(words) == "claim":
                self._seen.append(words[-5] == "1")
                if words[-5] == "1" and self._lose():
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


def test_what_was_claimed_ahead_of_a_slow_handler_is_given_back(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, namespace: str
) -> None:
    """The lease is 15 s: the other consumer gets the groups long before."""
    fill(seq)
    client, seen = watched(make, seq)
    stuck, go_on = threading.Event(), threading.Event()
    handled: list[int] = []

    def handle(message: Message) -> None:
        handled.append(message.body)
        if len(handled) == 60:
            assert any(seen)
            stuck.set()
            go_on.wait(20)

    with Background(client, handle, limits=ClaimLimits(4, 10, 10**6)):
        assert stuck.wait(20)
        keys = shard_keys(namespace, "jobs", 0)
        wait_until(lambda: link.command("HLEN", keys.leases) == 1, what="only the group in progress is leased")
        began = time.monotonic()
        others = seq.consume(lambda message: handled.append(message.body), max_messages=GROUPS * 5 - 70)
        assert others.handled == GROUPS * 5 - 70
        assert time.monotonic() - began < 10
        go_on.set()
        wait_until(lambda: len(handled) == GROUPS * 5, what="the rest is handled")
    assert sorted(handled) == list(range(GROUPS * 5))


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


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_connection_lost_with_a_claim_ahead_loses_nothing(
    make: Callable[..., Sequencer], seq: Sequencer, every: int
) -> None:
    """Nothing is handled twice either: what was acknowledged is told again on the next connection."""
    fill(seq)
    count = [0]

    def lose() -> bool:
        count[0] += 1
        return count[0] % (every + 1) == 0 and count[0] < 12

    client, seen = watched(make, seq, lose)
    handled: list[int] = []
    done = client.consume(
        lambda message: handled.append(message.body), until_empty=True, lease=1, limits=ClaimLimits(4, 10, 10**6)
    )
    assert sorted(handled) == list(range(GROUPS * 5))
    assert done.handled == GROUPS * 5
    assert seen.count(True) > 3


def test_a_group_whose_lease_expired_is_claimed_when_it_is_needed_and_alone(
    seq: Sequencer, link: Link, namespace: str
) -> None:
    """It may have killed its consumer: nothing else is to be held beside it when it is retried."""
    fill(seq, each=1)
    keys = shard_keys(namespace, "jobs", 0)
    link.command("HSET", keys.leases, "g:3", f"{1:016d}1gone")

    def claimed(*, ahead: bool) -> Claimed:
        return link.run_one(calls.claim(keys, "jobs", "me", 60, ClaimLimits(GROUPS, GROUPS, 10**6), ahead=ahead))

    first = claimed(ahead=True)
    assert "g:3" not in [group.key for group in first.groups]
    assert first.has_more
    assert [lease[16:17] for lease in link.command("HVALS", keys.leases)].count(b"1") == 1
    assert not claimed(ahead=True).groups
    (expired,) = claimed(ahead=False).groups
    assert (expired.key, expired.expired_owner, expired.messages[0].attempt) == ("g:3", "gone", 2)
    link.command("DEL", keys.leases)


def test_a_group_claimed_ahead_is_never_marked_as_held_alone(seq: Sequencer, link: Link, namespace: str) -> None:
    """Another one is in progress then: if that kills the consumer, this one is not to blame."""
    seq.append(1, group="g")
    keys = shard_keys(namespace, "jobs", 0)
    assert link.run_one(calls.claim(keys, "jobs", "me", 60, ClaimLimits(), ahead=True)).groups
    assert link.command("HGET", keys.leases, "g")[16:].rstrip() == b"0me"
    link.command("DEL", keys.leases)


FAR_S = 0.06


class Far(Wire):
    """A server a round trip of FAR_S away; notes when the acknowledgement of each id was sent first."""

    def __init__(self, inner: Any, acked: dict[str, float]) -> None:
        super().__init__(inner)
        self._acked, self._due = acked, deque[float]()

    def sending(self, commands: list[Any]) -> list[Any]:
        for words in commands:
            self._due.append(time.monotonic() + FAR_S)
            for entry in json.loads(words[3 + int(words[2])]) if name_of(words) == "ack" else ():
                for member in entry[5:]:
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
