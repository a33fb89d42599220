"""Scores of claimed messages: those that the order holds, whether the claim read them or made them of the stamps."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer import Retry, Sequencer, calls
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys, shard_keys

from ..support.examples import examples
from ..support.handling import consumed
from ..support.invariants import check_invariants

KINDS: dict[str, dict[str, Any]] = {
    "arrival": {},
    "own": {"score": 4e9},
    "earlier": {"score": -1.5},
    "due": {"delay": 0},
    "due, own": {"delay": 0, "score": 3e9},
}
GROUPS = ["a", "b", "c"]
PLACED = st.lists(st.tuples(st.sampled_from(GROUPS), st.sampled_from([*KINDS, *["arrival"] * 10])), max_size=80)


def order(link: Link, keys: ShardKeys, group: str) -> list[tuple[str, float]]:
    """The group as the server holds it: ids and scores."""
    words = link.command("ZRANGE", keys.order(group), 0, -1, "WITHSCORES")
    return [(member.decode()[16:], float(score)) for member, score in zip(words[::2], words[1::2], strict=True)]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(placed=PLACED, messages=st.integers(1, 100), size=st.sampled_from([150, 700, 10**6]), one_by_one=st.booleans())
def test_a_claim_tells_each_score_as_the_order_holds_it(
    make: Callable[..., Sequencer],
    link: Link,
    namespace: str,
    placed: list[tuple[str, str]],
    messages: int,
    size: int,
    one_by_one: bool,
) -> None:
    """Whatever stands beside a message with a score of its own, before it and behind, and wherever the claim ends."""
    queue = f"q{uuid.uuid4().hex[:8]}"
    seq, keys = make(queue), shard_keys(namespace, queue, 0)
    items = [{"group": group, "body": n, "id": n, **KINDS[kind]} for n, (group, kind) in enumerate(placed)]
    for batch in [[item] for item in items] if one_by_one else [items]:
        seq.append_many(batch)
    wanted = {group: order(link, keys, group) for group in GROUPS}
    claimed = link.run_one(calls.claim(keys, queue, "me", 60.0, ClaimLimits(10, messages, size)))
    assert bool(claimed.groups) == bool(placed)
    for group in claimed.groups:
        got = [(message.id, message.score) for message in group.messages]
        assert got == wanted[group.key][: len(got)]
        assert [float(score) for score in group.scores] == [score for _, score in got]


def test_scores_that_are_stamps_are_not_sent(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    seq.append_many({"group": "g", "body": n, "id": n} for n in range(50))
    seq.append("alone", "h", id="x")
    call = calls.claim(keys, "jobs", "me", 60.0, ClaimLimits())
    reply: Any = link.command(*call.eval_command())
    assert [stride for *_, stride in orjson.loads(reply[2])] == ["1", "1"]
    groups = call.parse(reply).groups
    assert [len(group.messages) for group in groups] == [50, 1]
    assert [m.score for group in groups for m in group.messages] == [
        m.stamp / 1e6 for group in groups for m in group.messages
    ]


def test_what_was_tried_before_and_replaced_keeps_its_score(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    """The head is retried, and so no plain message any more; the others are replaced, by either kind of score."""
    for n in range(3):
        seq.append(n, "g", id=n)
    seen: list[tuple[Any, int, float]] = []

    def handle(message: Any) -> None:
        seen.append((message.body, message.attempt, message.score))
        if len(seen) == 1:
            seq.append("one", "g", id=1, replace=True)
            seq.append("two", "g", id=2, score=4e9, replace=True)
            wanted.extend(order(link, keys, "g"))
            raise Retry(after=0)

    wanted: list[tuple[str, float]] = []
    seq.consume(handle, until_empty=True)
    assert [(body, attempt) for body, attempt, _ in seen] == [(0, 1), (0, 2), ("one", 1), ("two", 1)]
    assert [score for _, _, score in seen[1:]] == [score for _, score in wanted]


@pytest.mark.parametrize("score", ["1e3", "inf"])
def test_a_score_that_others_changed_comes_as_it_was_and_is_found(
    seq: Sequencer, link: Link, keys: ShardKeys, score: str
) -> None:
    sent = seq.append("x", "g", id="x")
    member = link.command("ZRANGE", keys.order("g"), 0, -1)[0]
    link.command("ZADD", keys.order("g"), score, member)
    assert any("its score is its stamp, but the stamp is" in text for text in check_invariants(link, [keys]))
    seen = [message.score for message in consumed(seq)]
    assert sent.stamp is not None
    assert seen == [sent.stamp / 1e6]
