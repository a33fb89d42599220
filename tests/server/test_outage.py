"""An outage on a real server: what scripts answer, what consumers do, and what people are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.calls.claim import LeasedGroup
from sequencer.calls.outage import Ended, Waits, outage
from sequencer.calls.settle import Nack, Nacked, nack
from sequencer.doctor.invariants import InvariantCheck, check_invariants
from sequencer.settings.options import ClaimLimits

from ..support.lane import MUCH, SECOND, Lane, item

ONE = ClaimLimits(1, 1)
GROUPS = ("a", "b", "c", "d", "e", "f")


def fail(lane: Lane, lease: LeasedGroup, verdict: str = "outage", after_s: float | None = None) -> Nacked:
    told = b'{"member":"%s","type":"ConnectionError","message":"refused"}' % lease.members[0].encode()
    entry = Nack(
        lease.key,
        lease.token,
        lease.members[0],
        lease.messages[0].attempt,
        0.5,
        told,
        outage=Waits(0.5, 60.0, after_s) if verdict == "outage" else None,
        is_timeout=verdict == "timeout",
    )
    return lane.run(nack(lane.keys, entry, now_us=lane.now))


def end(lane: Lane, action: Any, token: str = "") -> Ended:
    return lane.run(outage(lane.keys, action, token, now_us=lane.now))


def held_lane(lane: Lane) -> dict[str, LeasedGroup]:
    """A lane that an outage of five groups holds back; the sixth is still in hand."""
    lane.append(*[item(group, "1") for group in GROUPS])
    leases = lane.claim()
    lane.later(0.1)
    for group in GROUPS[:5]:
        fail(lane, leases[group])
    return leases


def probe_us(lane: Lane) -> int | None:
    found = lane.link.command("HGET", lane.keys.policy, "probe_us")
    return None if found is None else int(found)


def probe(lane: Lane) -> LeasedGroup:
    (lease,) = lane.claimed().groups
    assert lease.is_probe
    assert len(lease.messages) == 1
    return lease


# -- what the scripts answer -----------------------------------------------------------------------------------------


def test_the_fifth_failure_of_three_groups_holds_the_lane_back(lane: Lane) -> None:
    lane.append(*[item(group, "1") for group in GROUPS])
    leases = lane.claim()
    for number, group in enumerate(GROUPS[:5], 1):
        lane.later(0.1)
        done = fail(lane, leases[group])
        assert (done.is_valid, done.is_uncounted, done.wait_s) == (True, True, 0.5)
        assert (done.held is not None) == (number == 5)
    assert done.held
    assert done.held.is_new
    assert done.held.probe_s == 1.0
    assert done.held.since_us == lane.now - 4 * SECOND // 10
    assert lane.total("outages") == 1
    assert not lane.claimed().groups
    assert lane.claimed().next_due_s == 1.0
    assert not lane.claimed().is_empty


@pytest.mark.parametrize(("handled", "apart_s"), [(5, 0.1), (0, 3.0)])
def test_beside_as_many_handled_or_over_a_longer_time_they_do_not(lane: Lane, handled: int, apart_s: float) -> None:
    lane.append(*[item(group, "1") for group in GROUPS])
    leases = lane.claim()
    for number, group in enumerate(GROUPS[:5]):
        assert fail(lane, leases[group]).held is None
        lane.link.command("HINCRBY", lane.keys.stats, "handled", handled if number == 0 else 0)
        lane.later(apart_s)
    assert probe_us(lane) is None


def test_those_of_two_groups_do_not(lane: Lane) -> None:
    lane.append(item("a", "1"), item("b", "1"))
    for number in range(4):
        for lease in lane.claim().values():
            assert fail(lane, lease).held is None
        lane.later(0.5 * 2**number)


def test_an_attempt_is_not_counted_and_the_wait_doubles(lane: Lane) -> None:
    lane.append(item("a", "1"))
    for number in range(9):
        lease = lane.claim()["a"]
        assert lease.messages[0].attempt == 1
        assert fail(lane, lease).wait_s == min(60.0, 0.5 * 2**number)
        lane.later(61.0)
    assert not check_invariants(lane.link, [lane.keys])


def test_where_nothing_else_is_handled_it_is_no_private_outage(lane: Lane) -> None:
    """However long: a queue whose only groups fail waits for what they need."""
    lane.append(item("a", "1"), item("b", "1"))
    for _ in range(20):
        for lease in lane.claim().values():
            assert fail(lane, lease).is_uncounted
        lane.later(61.0)


def test_a_probe_is_one_message_of_a_group_without_a_failure(lane: Lane) -> None:
    leases = held_lane(lane)
    lane.append(item("g", "1"), item("g", "2"))
    lane.later(1.0)
    assert not lane.claimed(ahead=True).groups, "not to one who works on others"
    lease = probe(lane)
    assert lease.key == "g"
    assert probe_us(lane) == lane.now + 5 * SECOND, "its lease"
    assert not lane.claimed().groups
    assert lane.hints() == []
    assert fail(lane, leases["f"]).held, "one that was in hand says nothing of the probe"
    assert probe_us(lane) == lane.now + 5 * SECOND


@pytest.mark.parametrize("verdict", ["outage", "timeout"])
def test_a_probe_that_fails_so_is_followed_by_another_after_1_2_4_5_5_s(lane: Lane, verdict: str) -> None:
    held_lane(lane)
    lane.later(1.0)
    tried = []
    for wait_s in (1.0, 2.0, 4.0, 5.0, 5.0):
        lease = probe(lane)
        tried.append(lease.key)
        done = fail(lane, lease, verdict)
        assert done.held
        assert done.held.probe_s == wait_s
        assert done.is_uncounted == (verdict == "outage")
        lane.later(wait_s)
    assert len(set(tried)) == 5, "each makes room for the next"


def test_the_handler_may_say_when_it_is_tried_again(lane: Lane) -> None:
    held_lane(lane)
    lane.later(1.0)
    fail(lane, probe(lane), after_s=30.0)
    assert probe_us(lane) == lane.now + 30 * SECOND


def test_a_probe_that_fails_otherwise_frees_the_next_and_its_consumer_ends_the_outage(lane: Lane) -> None:
    held_lane(lane)
    lane.later(1.0)
    lease = probe(lane)
    done = fail(lane, lease, "")
    assert done.held
    assert done.held.probe_s == 0.0
    assert end(lane, "close", lease.token).status == "closed"
    assert lane.hints(), "another consumer looks at once"
    assert len(lane.claim(MUCH)) >= 4


def test_an_outage_is_ended_once_and_by_one_of_its_probes(lane: Lane) -> None:
    leases = held_lane(lane)
    assert end(lane, "close", leases["f"].token).status == "other"
    lane.later(1.0)
    slow = probe(lane)
    lane.later(6.0)
    assert probe(lane).token != slow.token, "its lease is over"
    ended = end(lane, "close", slow.token)
    assert (ended.status, ended.lasted_s, ended.probes) == ("closed", 7.0, 0)
    assert end(lane, "close", slow.token).status == "none"
    assert lane.link.command("EXISTS", lane.keys.outage) == 0


def test_a_probe_that_was_not_tried_is_given_back(lane: Lane) -> None:
    held_lane(lane)
    lane.later(1.0)
    lease = probe(lane)
    assert end(lane, "probe", "0" * 16).status == "other"
    assert end(lane, "probe", lease.token).status == "probing"
    assert probe_us(lane) == lane.now


def test_a_person_has_it_probed_at_once(lane: Lane) -> None:
    assert end(lane, "probe").status == "none"
    held_lane(lane)
    lane.later(0.6)
    assert not lane.claimed().groups
    assert end(lane, "probe").status == "probing"
    assert lane.hints() == [""]
    probe(lane)


# -- what is told --------------------------------------------------------------------------------------------------


def test_a_group_a_queue_and_the_doctor_say_what_holds_them(make: Callable[..., Sequencer], lane: Lane) -> None:
    seq = make("q")
    seq.connect()
    lane.now = time.time_ns() // 1000
    held_lane(lane)
    told = seq.explain("a")
    assert told.reason == "outage"
    assert "handlers fail with ConnectionError: refused; next probe at " in told.text
    assert told.moves_in_s is not None
    assert told.moves_in_s <= 1.2
    found = seq.info().outage
    assert found is not None
    assert (found.error, found.probes, found.lanes) == ("ConnectionError: refused", 0, 1)
    warnings = [one for one in seq.doctor() if one.check == "outage"]
    assert [one.level for one in warnings] == ["warning"]
    assert "sequencer resume q --outage" in warnings[0].text
    assert seq.pause()
    assert seq.explain("a").reason == "queue paused", "a pause comes first"
    seq.unpause()
    assert seq.probe_outage()
    lane.later(0.9)
    assert end(lane, "close", probe(lane).token).status == "closed"
    assert not seq.probe_outage()
    assert seq.info().outage is None


@pytest.mark.parametrize("half", ["probe_us", "outage", "unreadable"])
def test_half_of_an_outage_is_found_and_mended(lane: Lane, half: str) -> None:
    held_lane(lane)
    if half == "probe_us":
        lane.link.command("DEL", lane.keys.outage)
    elif half == "outage":
        lane.link.command("HDEL", lane.keys.policy, "probe_us")
    else:
        lane.link.command("HSET", lane.keys.policy, "probe_us", "soon")
    assert len(check_invariants(lane.link, [lane.keys])) == 1
    found = list(InvariantCheck(lane.link, [lane.keys], repair=True).run())
    assert [(one.check, one.repaired) for one in found] == [("outage", True)]
    assert not check_invariants(lane.link, [lane.keys])
    lane.later(1.0)
    assert not any(one.is_probe for one in lane.claimed().groups)
