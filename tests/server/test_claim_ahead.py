"""A claim on its way while a batch is handled: what it takes is handled in order, or released at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from sequencer import Message, Sequencer, calls
from sequencer.calls.claim import Claimed
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import shard_keys
from sequencer.testing.wire import Wire, name_of, wired

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
