"""What a consumer has yet to tell the server: sent twice, refused, released, renewed."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import claim
from sequencer.drain.held import Held
from sequencer.drain.pending_acks import Sending
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys
from tests.support.model.shard import ModelShard

KEYS = shard_keys("n", "q", 0)


def run(shard: ModelShard, sending: Sending) -> list[Any]:
    return [shard.run(call) for call in sending.calls]


def holding(*ids: str, policy: Policy | None = None) -> tuple[ModelShard, Held]:
    """All that is in group "a" is in progress."""
    shard = ModelShard(policy)
    shard.run(append(KEYS, [Item("a", i, f"{n}.0", b"[1]") for n, i in enumerate(ids or "xy", 1)]))
    held = Held([KEYS], 60.0)
    held.take(0, shard.run(claim(KEYS, "q", "me", 60.0, ClaimLimits())).groups, 0.0, 0.0)
    return shard, held


def finish(held: Held, count: int = 1) -> None:
    for _ in range(count):
        held.finish(held.groups[0], 0.0, 0.0)


def outgoing(held: Held, **when: Any) -> Sending:
    sending = held.outgoing(**when)
    assert sending
    return sending


@pytest.mark.parametrize("is_put_back", [False, True])
def test_of_what_was_sent_twice_a_refusal_is_no_lost_lease(is_put_back: bool) -> None:
    """Its first attempt was carried out, and ended the lease."""
    shard, held = holding()
    finish(held, 2)
    held.settle()
    sending = outgoing(held)
    run(shard, sending)
    if is_put_back:
        sending.source.posted()
        sending.source.put_back(sending)
    sending = outgoing(held)
    held.answered(sending, run(shard, sending), 0.0)
    assert not shard.orders
    assert held.lost == 0
    assert held.outgoing() is None


def test_a_group_that_is_only_given_back_is_not_lost() -> None:
    """Nothing of it was handled: that others have it by then changes nothing."""
    shard, held = holding()
    shard.now_us += 61_000_000
    shard.run(claim(KEYS, "q", "other", 60.0, ClaimLimits()))
    held.settle(everything=True)
    sending = outgoing(held)
    held.answered(sending, run(shard, sending), 61.0)
    assert held.lost == 0


def test_a_lease_is_renewed_at_each_third_of_its_time_counted_from_before_it_was_asked_for() -> None:
    """Two renewals may fail before it ends."""
    shard, held = holding()
    asked = []
    for now_s in range(100):
        if sending := held.outgoing(now=float(now_s)):
            asked.append(now_s)
            held.answered(sending, run(shard, sending), float(now_s))
    assert asked == [20, 40, 60, 80]
    assert held.lost == 0


def test_the_lease_of_a_stuck_handler_is_renewed_once_more_and_its_end_is_an_attempt_of_its_message() -> None:
    """Nothing else of its consumer is blamed: what it holds beside that is released."""
    shard, held = holding()
    shard.run(append(KEYS, [Item("b", "i", "1.0", b"[1]")]))
    other = shard.run(claim(KEYS, "q", "me", 60.0, ClaimLimits())).groups
    held.take(0, [*[group.leased for group in held.groups], *other], 0.0, 0.0)
    shard.leases = {group: lease[:16] + "0" + lease[17:] for group, lease in shard.leases.items()}
    assert [group.leased.key for group in held.groups] == ["b", "a"]
    held.begin(1)
    held.running_since = 0.0
    finish(held)  # of group b, before
    held.groups[0].leased.members.append("and one that it was not to begin")
    asked = []
    for now_s in range(100):
        if now_s == 40:
            held.stuck_since = held.running_since
            held.settle(unbegun=True)
        if sending := held.outgoing(now=float(now_s)):
            asked.append((now_s, len(sending.renewals)))
            held.answered(sending, run(shard, sending), float(now_s))
    assert asked == [(20, 2), (40, 1)]
    assert {group: lease[16] for group, lease in shard.leases.items()} == {"a": "1"}
    held.running_since = 70.0
    assert held.outgoing(now=101.0), "the next handler is none that hangs"


def test_an_acknowledgement_of_several_numbers_passes_each() -> None:
    """One that is appended again is a duplicate, not a number that was skipped."""
    shard, held = holding("x", "y", "z", policy=Policy(sequence=True, dedup_window=0))
    finish(held, 3)
    held.settle()
    sending = outgoing(held)
    held.answered(sending, run(shard, sending), 0.0)
    marks = shard.run(append(KEYS, [Item("a", f"again{n}", f"{n}.0", b"[1]") for n in (1, 2, 3)]))
    assert [mark.outcome for mark in marks] == ["duplicate"] * 3
