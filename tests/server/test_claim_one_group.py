"""A claim of one named group: exactly that one, if it is due; and what it leaves to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Sequencer
from sequencer.calls.operate import pause
from sequencer.calls.outage import outage
from sequencer.errors import InvalidGroup
from sequencer.settings.policy import Policy

from ..support.lane import Lane, item


def test_it_takes_this_group_and_no_other(lane: Lane) -> None:
    lane.append(item("a", "1"), item("b", "1"), item("b", "2"), item("c", "1"))
    lane.later(1)
    hints = lane.hints()
    claimed = lane.claimed(only="b")
    assert [(group.key, len(group.messages)) for group in claimed.groups] == [("b", 2)]
    assert not claimed.has_more
    assert lane.hints() == hints, "they are of others too"
    assert sorted(lane.claim()) == ["a", "c"]


def test_one_that_is_not_due_leaves_the_hints_of_others(lane: Lane) -> None:
    lane.append(item("a", "1"), item("b", "1"))
    lane.forget_hints()
    assert lane.claim(only="b")
    assert not lane.claim(only="b")
    assert not lane.claim(only="nothing")
    assert lane.hints() == []
    lane.append(item("d", "1"))
    assert not lane.claimed(only="b").groups
    assert lane.hints() == ["d"]


def lease_it(lane: Lane) -> None:
    assert lane.claim(only="g")


def delay_it(lane: Lane) -> None:
    lane.ack(lane.claim(only="g")["g"])
    lane.append(item("g", "later", due="+5000000"))


def park_it(lane: Lane) -> None:
    assert lane.nack(lane.claim(only="g")["g"], None)


def put_it_off(lane: Lane) -> None:
    assert lane.nack(lane.claim(only="g")["g"], 5.0)


def pause_it(lane: Lane) -> None:
    lane.run(pause(lane.keys, "g", True, now_us=lane.now))


def pause_the_queue(lane: Lane) -> None:
    lane.run(pause(lane.keys, "", True, now_us=lane.now))


def skip_a_number(lane: Lane) -> None:
    lane.rules(Policy(sequence=True))
    lane.ack(lane.claim(only="g")["g"], mark="#1")
    lane.append(item("g", "3", "3"))


def hold_the_lane_back(lane: Lane) -> None:
    lane.link.command("HSET", lane.keys.policy, "probe_us", lane.now + 1_000_000)
    lane.link.command("HSET", lane.keys.outage, "opened_us", lane.now)


@pytest.mark.parametrize(
    "hinder",
    [lease_it, delay_it, park_it, put_it_off, pause_it, pause_the_queue, skip_a_number, hold_the_lane_back],
    ids=lambda one: one.__name__,
)
def test_it_is_not_given_where_a_plain_claim_would_not_give_it(lane: Lane, hinder: Callable[[Lane], None]) -> None:
    lane.append(item("g", "1", "1"))
    hinder(lane)
    assert lane.claim(only="g") == {}
    assert lane.claim() == {}


def test_of_a_lane_that_is_held_back_it_is_the_probe_that_is_due(lane: Lane) -> None:
    """Else one that claims groups by name alone would never see the end of an outage."""
    lane.append(item("a", "1"), item("g", "1"), item("g", "2"))
    hold_the_lane_back(lane)
    lane.later(2)
    (group,) = lane.claimed(only="g").groups
    assert (group.key, len(group.messages), group.is_probe) == ("g", 1, True)
    assert lane.claim() == {}, "one probe at a time"
    lane.run(outage(lane.keys, "close", group.token, now_us=lane.now))


def test_an_expired_lease_counts_an_attempt(lane: Lane) -> None:
    lane.append(item("a", "1"), item("g", "1"), item("g", "2"))
    assert [message.attempt for message in lane.claim(only="g")["g"].messages] == [1, 1]
    lane.later(6)
    again = lane.claim(only="g")["g"]
    assert (again.expired_owner, [message.attempt for message in again.messages]) == ("me", [2])


def test_a_lease_of_one_group(make: Callable[..., Sequencer]) -> None:
    """Of a queue of several lanes, and with the words of the public class."""
    seq = make(lanes=4)
    seq.append_many({"group": [n, 1], "body": n} for n in range(20))
    for number in (7, 3):
        with seq.claim(group=[number, 1], messages=5) as lease:
            assert [message.body for message in lease] == [number]
            with seq.claim(group=(number, "1")) as other:
                assert not other
    assert not seq.claim(group="nobody")
    with pytest.raises(InvalidGroup):
        seq.claim(group=[])
