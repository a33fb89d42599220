"""What a claim takes of what is due, within its limits, and what it does with groups that it can't give out."""

from __future__ import annotations

import math

import pytest

from sequencer.calls.operate import pause, redrive, revise
from sequencer.doctor.invariants import check_invariants
from sequencer.settings.options import SIZE_BESIDE, ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.record import RECORD_HEAD

from ..support.lane import SECOND, Lane, item


def taken(lane: Lane, limits: ClaimLimits, *, alone: int | None = None) -> dict[str, int]:
    """Group -> how many of its messages."""
    return {group: len(lease.messages) for group, lease in lane.claim(limits, alone=alone).items()}


# -- limits ---------------------------------------------------------------------------------------------------


def test_bytes_are_those_of_records_and_40_for_each(lane: Lane) -> None:
    lane.append(*[item("g", str(n), body="1" * 58) for n in range(9)])
    size = RECORD_HEAD + 60 + SIZE_BESIDE
    for bytes, count in ((4 * size, 4), (4 * size - 1, 3), (1, 1)):
        claimed = lane.claimed(ClaimLimits(1, 100, bytes))
        (lease,) = claimed.groups
        assert (len(lease.messages), claimed.size) == (count, size)
        lane.ack(lease, count=0)


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_large_bodies_are_given_out_up_to_the_limit(lane: Lane, size: int) -> None:
    """They are read in steps."""
    for n in range(40):
        lane.append(item("g", str(n), body=f'"{"x" * (size - 4)}"'))
    limit = 30 * (RECORD_HEAD + size + SIZE_BESIDE)
    assert taken(lane, ClaimLimits(1, 100, limit)) == {"g": 30}


def test_one_message_always_fits_but_one_a_claim(lane: Lane) -> None:
    for group in "abc":
        lane.append(item(group, "x", body="1" * (1 if group == "c" else 100)))
        lane.later(1)
    limits = ClaimLimits(9, 9, 230)
    first = lane.claimed(limits)
    assert [lease.key for lease in first.groups] == ["a"], "c would fit, but comes behind b"
    assert first.has_more
    assert list(lane.claim(limits)) == ["b", "c"]


def test_of_many_due_groups_each_gets_an_eighth_at_most(lane: Lane) -> None:
    for n in range(16):
        lane.append(*[item(f"g{n:02}", str(k)) for k in range(20)])
    assert taken(lane, ClaimLimits(16, 80, 10**6)) == {f"g{n:02}": 10 for n in range(8)}


@pytest.mark.parametrize("which", [3, 14, 50])
def test_a_paused_group_is_left_out_wherever_it_stands(lane: Lane, which: int) -> None:
    lane.append(*[item(f"g{n:02}", "a") for n in range(60)])
    lane.run(pause(lane.keys, f"g{which:02}", True, now_us=lane.now))
    assert set(lane.claim()) == {f"g{n:02}" for n in range(60)} - {f"g{which:02}"}


# -- leases that expired --------------------------------------------------------------------------------------


def test_a_group_whose_lease_expired_is_claimed_alone(lane: Lane) -> None:
    """What kills a consumer is not blamed on its neighbours."""
    lane.append(item("killer", "a"), item("killer", "b"))
    lane.claim()
    lane.append(item("first", "a"))
    lane.later(5)
    lane.append(item("last", "a"))
    assert list(lane.claim()) == ["first"]
    (lease,) = lane.claim().values()
    assert (lease.key, lease.expired_owner, [one.id for one in lease.messages]) == ("killer", "me", ["a"])
    assert list(lane.claim()) == ["last"]


def test_attempts_end_at_9999_and_leave_the_rest_of_the_record_alone(lane: Lane) -> None:
    lane.append(item("g", "a", body='"body"'))
    lane.nack(lane.claim()["g"], 0.0, attempts=9998)
    for attempt in (9999, 10000, 10000):
        lease = lane.claim()["g"]
        assert ([one.attempt for one in lease.messages], lease.messages[0].body) == ([attempt], "body")
        lane.later(5)


# -- groups that it can't give out ----------------------------------------------------------------------------


def test_a_group_that_is_put_off_can_be_woken_again(lane: Lane) -> None:
    """Its failure was about a message that is not its head any more."""
    lane.append(item("g", "failed", "5"))
    lane.nack(lane.claim()["g"], 1.0)
    lane.append(item("g", "timer", "4", due="+100000000"))
    lane.later(1)
    assert lane.claim() == {}
    assert lane.visible("g") == lane.now + 99 * SECOND
    lane.append(item("g", "now", "3"))
    assert [one.id for one in lane.claim()["g"].messages] == ["now"]


def test_a_group_of_another_type_is_parked_without_its_lease(lane: Lane) -> None:
    lane.append(item("g", "a"))
    lane.claim()
    lane.link.command("RENAME", lane.keys.order("g"), lane.keys.order("kept"))
    lane.link.command("SET", lane.keys.order("g"), "foreign")
    lane.later(5)
    assert lane.claim() == {}
    assert lane.visible("g") == math.inf
    lane.link.command("RENAME", lane.keys.order("kept"), lane.keys.order("g"))
    assert check_invariants(lane.link, [lane.keys]) == [], "once mended, nothing else is wrong with it"


def test_of_a_group_deleted_by_hand_nothing_is_left(lane: Lane) -> None:
    lane.append(item("g", "a"))
    lane.nack(lane.claim()["g"], 1.0)
    lane.link.command("DEL", lane.keys.order("g"), lane.keys.body("g"))
    lane.later(1)
    assert lane.claim() == {}
    assert lane.visible("g") is None
    assert check_invariants(lane.link, [lane.keys]) == []


# -- what a head waits for ------------------------------------------------------------------------------------


def test_a_redriven_message_does_not_wait_for_stragglers_again(lane: Lane) -> None:
    lane.rules(Policy(on_late="dead_letter", reorder_window=10, watermark_window=100))
    lane.append(item("g", "a", "5"))
    lane.later(10)
    lane.handle("g", "5")
    assert lane.append(item("g", "b", "4")) == ["dead_letter"]
    (letter,) = lane.link.command("ZRANGE", lane.keys.dead, 0, -1)
    assert lane.run(redrive(lane.keys, [letter.decode()], now_us=lane.now)) == ["redriven"]
    assert [one.id for one in lane.claim()["g"].messages] == ["b"]


@pytest.mark.parametrize("on_gap", ["park", "skip"])
def test_a_gap_ends_with_its_last_microsecond(lane: Lane, on_gap: str) -> None:
    lane.rules(Policy(sequence=True, gap_timeout=10, on_gap=on_gap))  # type: ignore[arg-type]
    lane.append(item("g", "2", "2"))
    assert lane.claim() == {}
    lane.later(10 - 1e-6)
    lane.link.command("ZADD", lane.keys.schedule, lane.now, "g")
    assert lane.claim() == {}
    assert lane.visible("g") == lane.now + 1
    lane.later(1e-6)
    assert list(lane.claim()) == (["g"] if on_gap == "skip" else [])
    assert lane.visible("g") == (lane.now + 5 * SECOND if on_gap == "skip" else math.inf)


def test_the_failure_of_another_message_outlives_a_cancelled_one(lane: Lane) -> None:
    lane.append(item("g", "failed"), item("g", "other"))
    lane.nack(lane.claim()["g"], 60.0)
    assert lane.run(revise(lane.keys, "g", "other", "", "", now_us=lane.now)) == "done"
    assert lane.visible("g") == lane.now + 60 * SECOND
    assert lane.run(revise(lane.keys, "g", "failed", "", "", now_us=lane.now)) == "done"
    assert lane.visible("g") is None
