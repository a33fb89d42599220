"""What a consumer claimed ahead when the connection is lost at the worst moment."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import claim
from sequencer.consume.courier import Courier
from sequencer.drain.effects import Ahead, Exchange
from sequencer.drain.held import Holdings
from sequencer.errors import DataError, ServerUnavailable
from sequencer.settings.options import ClaimLimits, ConsumerOptions, QueueOptions
from sequencer.settings.pace import AHEAD_BYTES, ANSWER_S, OVERDUE_S
from sequencer.store.item import Item
from tests.support.lane_link import KEYS, ONE, Link
from tests.support.model.lane import ModelLane


@pytest.fixture
def lane() -> ModelLane:
    lane = ModelLane()
    lane.run(append(KEYS, [Item(name, "i", "1.0", b"[1]") for name in "ab"]))
    return lane


@pytest.fixture
def link(lane: ModelLane) -> Any:
    return Link(lane)


@pytest.fixture
def courier(lane: ModelLane, link: Any) -> Courier:
    """Has handled "a", and a claim is on its way."""
    holdings = Holdings([KEYS], 60.0)
    courier = Courier(link, holdings, [KEYS], QueueOptions(queue="q"), ConsumerOptions(), "me")
    first = courier.exchange(Exchange(0, ONE))
    assert first is not None
    assert [group.key for group in first.groups] == ["a"]
    courier.ahead(Ahead(0, ONE))
    holdings.begin(0)
    holdings.finish(holdings.groups[0], 0.0, 0.0)
    return courier


def test_an_acknowledgement_whose_answer_is_lost_is_told_again(lane: ModelLane, link: Any, courier: Courier) -> None:
    """It was not waited for: what was claimed ahead is worked on meanwhile."""
    link.left = 1
    claimed = courier.exchange(Exchange(0, ONE))
    assert claimed is not None
    assert [group.key for group in claimed.groups] == ["b"]
    with pytest.raises(ServerUnavailable):
        courier.exchange(Exchange(None))
    assert lane.leases.keys() == {"b"}
    courier.exchange(Exchange(None))
    assert list(lane.orders) == ["b"]
    assert not lane.leases


@pytest.mark.parametrize("has_landed", [True, False])
def test_what_was_claimed_before_the_connection_was_lost_is_given_back(
    lane: ModelLane, link: Any, courier: Courier, has_landed: bool
) -> None:
    """The server may be another one by now, without the lease; and if it is not, nobody is to wait for its end."""
    if has_landed:
        courier.land()
    link.is_lost = True
    with pytest.raises(ServerUnavailable):
        courier.exchange(Exchange(0, ONE))
    assert courier.ahead_since is None
    assert lane.leases.keys() == {"a", "b"}
    link.is_lost = False
    courier.exchange(Exchange(None))
    assert list(lane.orders) == ["b"]
    assert not lane.leases


@pytest.fixture
def pair(lane: ModelLane, link: Any) -> Courier:
    """Has handled the first of two messages of "a", and a claim is on its way."""
    lane.run(append(KEYS, [Item("a", "j", "2.0", b"[1]")]))
    courier = Courier(link, Holdings([KEYS], 60.0), [KEYS], QueueOptions(queue="q"), ConsumerOptions(), "me")
    courier.exchange(Exchange(0, ClaimLimits(1, 4, 1000)))
    courier.ahead(Ahead(0, ONE))
    handle_next(courier)
    return courier


def handle_next(courier: Courier) -> None:
    holdings: Holdings = courier._holdings
    holdings.begin(0)
    holdings.finish(holdings.groups[0], 0.0, 0.0)
    holdings.settle()


@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_of_two_acknowledgements_of_a_group_the_second_is_not_carried_out_alone(
    lane: ModelLane, link: Any, pair: Courier, is_slow: bool, is_flushed: bool
) -> None:
    """Else the group would be given back with its first message in it, and that be handled after the second."""
    link.lacks_script, link.is_slow = True, is_slow
    pair.flush(0.0)
    link.lacks_script = False
    handle_next(pair)
    if is_flushed:
        pair.flush(0.0)
    pair.exchange(Exchange(0, ONE, ahead=True))
    pair.land()
    assert list(lane.orders) == ["b"]
    assert pair._holdings.lost == 0


def test_the_answer_to_an_acknowledgement_is_not_waited_for_before_the_next(link: Any, pair: Courier) -> None:
    link.is_slow = True
    pair.flush(0.0)
    assert len(link.posted) == 2, "the claim and the acknowledgement"
    pair.flush(0.0)
    assert len(link.posted) == 2, "there was nothing to send"
    handle_next(pair)
    pair.flush(0.0)
    assert len(link.posted) == 1, "what tells of the same groups waited for those before"


@pytest.mark.parametrize("length", [3, 300, 400])
def test_the_next_claim_goes_behind_a_short_answer_and_not_behind_a_long_one(
    length: int,
) -> None:
    """Messages of up to 400 bytes, 21 of head and 40 beside it, are claimed ahead in what a server sends at once."""
    envelope = b"[" + b"1" * (length - 2) + b"]"
    lane = ModelLane()
    lane.run(append(KEYS, [Item(name, "i", "2.0", envelope) for name in "cdefghij"]))
    link: Any = Link(lane)
    courier = Courier(link, Holdings([KEYS], 60.0), [KEYS], QueueOptions(queue="q"), ConsumerOptions(), "me")
    limits = ClaimLimits(2, 500, 1_000_000)
    for _ in range(2):  # what is small is known from the claim before
        courier.exchange(Exchange(0, limits))
    courier.ahead(Ahead(0, limits))
    link.is_slow = True
    claimed = courier.exchange(Exchange(0, limits, ahead=True))
    assert claimed
    assert link.waited == [ANSWER_S if length == 400 else 0.0]
    assert link.sizes == ["1000000" if length == 400 else str(AHEAD_BYTES)] * 2
    assert len(link.posted) == 1, "the next claim was posted before this one was answered"


def test_a_claim_that_sets_out_takes_nothing_past_an_unanswered_acknowledgement(
    lane: ModelLane, link: Any, pair: Courier
) -> None:
    """A failure ends the lease that an acknowledgement before it, if it is to be told again, still needs."""
    pair.bring_back()
    pair.exchange(Exchange(None))
    lane.run(append(KEYS, [Item("a", "k", "3.0", b"[1]"), Item("a", "l", "4.0", b"[1]")]))
    pair.exchange(Exchange(0, ClaimLimits(1, 4, 1000)))
    holdings: Holdings = pair._holdings
    held = next(held for held in holdings.groups if held.leased.key == "a")
    holdings.begin(0)
    holdings.finish(held, 0.0, 0.0)
    holdings.settle()
    link.lacks_script = True
    pair.flush(0.0)
    link.lacks_script = False
    holdings.fail(held, 1, 1.0, b"{}", "park", False)
    pair.ahead(Ahead(0, ONE))
    pair.exchange(Exchange(None))
    pair.exchange(Exchange(None))
    assert [member[16:] for member in lane.members("a")] == ["k", "l"], "the one before them was handled"


def test_of_two_claims_on_their_way_both_are_given_back(lane: ModelLane, link: Any, courier: Courier) -> None:
    lane.run(append(KEYS, [Item("c", "i", "9.0", b"[1]")]))
    courier._dispatch(None, [], Ahead(0, ONE))
    assert len(lane.leases) == 3
    courier.land()
    courier._give_back()
    courier.exchange(Exchange(None))
    assert not lane.leases


def test_an_answer_that_never_comes_is_found_out_beside_a_long_handler(link: Any, pair: Courier) -> None:
    pair.bring_back()
    link.is_slow, link.left = True, 0
    pair.flush(0.0)
    sent_at = time.monotonic()
    pair.look(sent_at + OVERDUE_S / 2)
    with pytest.raises(ServerUnavailable):
        pair.look(sent_at + 2 * OVERDUE_S)
    link.left = -1
    pair.flush(0.0)
    assert len(link.posted) == 1, "it is told again"


def test_a_refusal_does_not_take_what_was_claimed_behind_it(lane: ModelLane, link: Any, courier: Courier) -> None:
    """Nobody could have its groups before their leases end."""
    courier.bring_back()
    courier.exchange(Exchange(None))
    lane.run(append(KEYS, [Item(name, "k", "3.0", b"[1]") for name in "ac"]))
    courier.exchange(Exchange(0, ONE))
    handle_next(courier)
    courier.ahead(Ahead(0, ONE))
    link.refuses = DataError("odd")
    assert courier.exchange(Exchange(0, ONE, ahead=True)) is not None
    link.refuses = None
    assert len(lane.leases) == 3
    with pytest.raises(DataError, match="odd"):
        courier.exchange(Exchange(0, ONE, ahead=True))
    assert courier.ahead_since is None
    courier.exchange(Exchange(None))
    assert not lane.leases
    assert sum(map(len, lane.orders.values())) == 2, "the acknowledgement was told again"


def test_groups_with_few_messages_come_before_those_with_many() -> None:
    """Else they would wait for a group that never ends."""
    lane = ModelLane()
    items = [Item("long", str(n), "1.0", b"[1]") for n in range(4)]
    lane.run(append(KEYS, [*items, Item("short", "i", "1.0", b"[1]"), Item("brief", "i", "1.0", b"[1]")]))
    holdings = Holdings([KEYS], 60.0)
    claimed = lane.run(claim(KEYS, "q", "me", 60.0, ClaimLimits(9, 9, 1000)))
    assert [group.key for group in claimed.groups] == ["brief", "long", "short"]
    holdings.take(0, claimed.groups, 0.0, 0.0)
    assert [held.leased.key for held in holdings.groups] == ["brief", "short", "long"]
