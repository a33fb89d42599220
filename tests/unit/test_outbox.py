"""What a consumer has yet to tell the server: sent twice, refused, given back, renewed."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import claim
from sequencer.drain.held import Holdings, Sending
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import lane_keys
from tests.support.model.lane import ModelLane

KEYS = lane_keys("n", "q", 0)


def run(lane: ModelLane, sending: Sending) -> list[Any]:
    return [lane.run(call) for call in sending.calls]


def holding(*ids: str, policy: Policy | None = None) -> tuple[ModelLane, Holdings]:
    """All that is in group "a" is in hand."""
    lane = ModelLane(policy)
    lane.run(append(KEYS, [Item("a", i, f"{n}.0", b"[1]") for n, i in enumerate(ids or "xy", 1)]))
    holdings = Holdings([KEYS], 60.0)
    holdings.take(0, lane.run(claim(KEYS, "q", "me", 60.0, ClaimLimits())).groups, 0.0, 0.0)
    return lane, holdings


def finish(holdings: Holdings, count: int = 1) -> None:
    for _ in range(count):
        holdings.finish(holdings.groups[0], 0.0, 0.0)


def outgoing(holdings: Holdings, **when: Any) -> Sending:
    sending = holdings.outgoing(**when)
    assert sending
    return sending


@pytest.mark.parametrize("how", ["told again", "came back", "sent twice by the network"])
def test_of_what_was_sent_twice_a_refusal_is_no_lost_lease(how: str) -> None:
    """Its first try was carried out, and ended the lease."""
    lane, holdings = holding()
    finish(holdings, 2)
    holdings.settle()
    sending, is_repeat = outgoing(holdings), how == "sent twice by the network"
    run(lane, sending)
    if how == "came back":
        holdings.depart(sending)
        holdings.came_back(sending)
    if not is_repeat:
        sending = outgoing(holdings)
    holdings.sent(sending, run(lane, sending), 0.0, is_repeat=is_repeat)
    assert not lane.orders
    assert holdings.lost == 0
    assert holdings.outgoing() is None


def test_a_group_that_is_only_given_back_is_not_lost() -> None:
    """Nothing of it was handled: that others have it by then changes nothing."""
    lane, holdings = holding()
    lane.now_us += 61_000_000
    lane.run(claim(KEYS, "q", "other", 60.0, ClaimLimits()))
    holdings.settle(everything=True)
    sending = outgoing(holdings)
    holdings.sent(sending, run(lane, sending), 61.0)
    assert holdings.lost == 0


def test_of_a_group_that_was_lost_meanwhile_a_failure_is_not_told() -> None:
    lane, holdings = holding()
    lane.leases.clear()
    renewal = outgoing(holdings, now=20.0)
    holdings.sent(renewal, run(lane, renewal), 20.0)
    assert holdings.lost == 1
    holdings.fail(holdings.groups[0], 1, 1.0, b"{}", "park", False)
    assert holdings.outgoing() is None


def test_a_lease_is_renewed_at_each_third_of_its_time_counted_from_before_it_was_asked_for() -> None:
    """Two renewals may fail before it ends."""
    lane, holdings = holding()
    asked = []
    for now_s in range(100):
        if sending := holdings.outgoing(now=float(now_s)):
            asked.append(now_s)
            holdings.sent(sending, run(lane, sending), float(now_s))
    assert asked == [20, 40, 60, 80]
    assert holdings.lost == 0


def test_a_group_that_was_given_back_is_not_renewed() -> None:
    lane, holdings = holding()
    lane.run(append(KEYS, [Item("b", "i", "1.0", b"[1]")]))
    other = lane.run(claim(KEYS, "q", "me", 60.0, ClaimLimits())).groups
    holdings.take(0, [*[held.leased for held in holdings.groups], *other], 0.0, 0.0)
    finish(holdings)
    holdings.settle()
    sending = outgoing(holdings, now=20.0)
    holdings.sent(sending, run(lane, sending), 20.0)
    assert list(lane.orders) == ["a"]
    assert holdings.lost == 0


def test_an_acknowledgement_of_several_numbers_passes_each() -> None:
    """One that is appended again is a duplicate, not a number that was skipped."""
    lane, holdings = holding("x", "y", "z", policy=Policy(sequence=True, dedup_window=0))
    finish(holdings, 3)
    holdings.settle()
    sending = outgoing(holdings)
    holdings.sent(sending, run(lane, sending), 0.0)
    marks = lane.run(append(KEYS, [Item("a", f"again{n}", f"{n}.0", b"[1]") for n in (1, 2, 3)]))
    assert [mark.outcome for mark in marks] == ["duplicate"] * 3
