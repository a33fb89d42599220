"""What a consumer claimed ahead when the connection is lost at the worst moment."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sequencer.calls import Item, append
from sequencer.courier import Courier
from sequencer.drain import Ahead, Exchange
from sequencer.errors import ServerUnavailable
from sequencer.holdings import Holdings
from sequencer.keys import lane_keys
from sequencer.link import UNDONE
from sequencer.options import ClaimLimits, ConsumerOptions, QueueOptions

from .model import ModelLane

KEYS = lane_keys("n", "q", 0)
ONE = ClaimLimits(1, 1, 1000)


class Link:
    """Answers at once from the model; the answer to the so-manieth batch is lost."""

    is_repeat = False

    def __init__(self, lane: ModelLane) -> None:
        self.lane, self.left, self.posted = lane, -1, list[Any]()
        self.is_lost = self.lacks_script = False

    def run(self, calls: Any, *, in_order: bool = False) -> list[Any]:
        return [self.lane.run(call) for call in calls]

    def post(self, calls: Any, *, in_order: bool = False) -> None:
        if self.is_lost:
            raise ServerUnavailable("lost")
        self.posted.append([UNDONE for _ in calls] if self.lacks_script else self.run(calls))

    def is_answered(self, within_s: float) -> bool:
        return True

    def collect(self, calls: Any) -> list[Any]:
        self.left -= 1
        if self.left == -1:
            raise ServerUnavailable("lost")
        found: list[Any] = self.posted.pop(0)
        return found

    def parsed(self, calls: Any, replies: list[Any]) -> list[Any]:
        return replies


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


def test_of_two_acknowledgements_of_a_group_the_second_is_not_carried_out_alone(lane: ModelLane, link: Any) -> None:
    """Else the group would be given back with its first message in it, and that be handled after the second."""
    lane.run(append(KEYS, [Item("a", "j", "2.0", b"[1]")]))
    holdings = Holdings([KEYS], 60.0)
    courier = Courier(link, holdings, [KEYS], QueueOptions(queue="q"), ConsumerOptions(), "me")
    courier.exchange(Exchange(0, ClaimLimits(1, 4, 1000)))
    courier.ahead(Ahead(0, ONE))
    holdings.begin(0)
    holdings.finish(holdings.groups[0], 0.0, 0.0)
    link.lacks_script = True
    holdings.settle()
    courier.flush(0.0)
    link.lacks_script = False
    holdings.finish(holdings.groups[0], 0.0, 0.0)
    courier.exchange(Exchange(0, ONE, ahead=True))
    courier.land()
    assert list(lane.orders) == ["b"]
    assert holdings.lost == 0


def test_groups_with_few_messages_come_before_those_with_many() -> None:
    """Else they would wait for a group that never ends."""
    lane = ModelLane()
    items = [Item("long", str(n), "1.0", b"[1]") for n in range(4)]
    lane.run(append(KEYS, [*items, Item("short", "i", "1.0", b"[1]"), Item("brief", "i", "1.0", b"[1]")]))
    holdings, link = Holdings([KEYS], 60.0), cast(Any, Link(lane))
    courier = Courier(link, holdings, [KEYS], QueueOptions(queue="q"), ConsumerOptions(), "me")
    claimed = lane.run(courier.claim(0, ClaimLimits(9, 9, 1000)))
    assert [group.key for group in claimed.groups] == ["brief", "long", "short"]
    holdings.take(0, claimed.groups, 0.0, 0.0)
    assert [held.leased.key for held in holdings.groups] == ["brief", "short", "long"]
