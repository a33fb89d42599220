"""Calls that come when something has changed: another message in its place, another token, a message in hand, a pause.
Each changes what its caller saw, or nothing.
"""

from __future__ import annotations

import math

import pytest

from sequencer.calls.examine import repair
from sequencer.calls.operate import pause, redrive, resume, revise, skip_gap
from sequencer.calls.settle import renew
from sequencer.settings.policy import Policy
from sequencer.store.keys import PAUSED

from ..support.lane import SECOND, Lane, item

NUMBERS = Policy(sequence=True, gap_timeout=10)


def cancel(lane: Lane, id: str) -> str:
    return lane.run(revise(lane.keys, "g", id, "", "", now_us=lane.now))


# -- messages in hand -----------------------------------------------------------------------------------------


def test_a_timer_claimed_at_its_very_time_is_in_hand(lane: Lane) -> None:
    lane.append(item("g", "a", due="+1000000"))
    lane.later(1)
    (message,) = lane.claim()["g"].messages
    assert message.token == lane.now, "the time, to the microsecond"
    assert cancel(lane, "a") == "leased"
    assert lane.ids("g") == ["a"]


@pytest.mark.parametrize(("is_earlier", "is_told"), [(True, True), (False, False), (None, True)])
def test_an_acknowledgement_tells_that_another_message_comes_next_by_now(
    lane: Lane, is_earlier: bool | None, is_told: bool
) -> None:
    """One with an earlier score came, or the next one is another message since; not of one that came behind it."""
    lane.append(item("g", "a", "1.0"), item("g", "b", "3.0"), item("g", "c", "4.0"))
    lease = lane.claim()["g"]
    if is_earlier is None:
        lane.append(item("g", "b", "2.0"), on_conflict="replace")
    else:
        lane.append(item("g", "x", "2.0" if is_earlier else "3.5"))
    assert lane.ack(lease, count=1, release=False, follows=lease.members[1]) == ([], is_told)
    assert lane.ids("g")[0] == ("x" if is_earlier else "b")
    assert lane.ack(lease, count=1, release=False) == ([], False), "it was not said what comes next"


def test_a_timer_of_a_later_time_is_in_nobodys_hand(lane: Lane) -> None:
    lane.append(item("g", "a"), item("g", "timer", due="+1000000"))
    assert [one.id for one in lane.claim()["g"].messages] == ["a"]
    assert cancel(lane, "a") == "leased"
    assert cancel(lane, "timer") == "done"
    assert lane.ids("g") == ["a"]


def test_a_failure_does_not_count_for_the_message_that_took_its_place(lane: Lane) -> None:
    lane.append(item("g", "a", body="1"))
    lease = lane.claim()["g"]
    lane.append(item("g", "a", body="2"), on_conflict="replace")
    assert lane.nack(lease, 60.0, attempts=4)
    assert [(one.body, one.attempt) for one in lane.claim()["g"].messages] == [(2, 1)]
    assert lane.total("overtaken") == 1


def test_a_failure_without_its_message_goes_with_the_last_message(lane: Lane) -> None:
    lane.append(item("g", "a"))
    lane.nack(lane.claim()["g"], 60.0, failure=b"{}")
    assert cancel(lane, "a") == "done"
    assert lane.link.command("HGETALL", lane.keys.failures) == []
    lane.append(item("g", "a"))
    assert list(lane.claim()) == ["g"]


# -- leases ---------------------------------------------------------------------------------------------------


def test_only_the_holder_renews(lane: Lane) -> None:
    lane.append(item("g", "a"))
    lost = lane.claim()["g"]
    lane.later(5)
    held = lane.claim()["g"]
    lane.later(1)
    leases = [("g", lost.token), ("g", held.token), ("other", held.token)]
    assert lane.run(renew(lane.keys, leases[:1], 60.0, now_us=lane.now)) == leases[:1]
    assert lane.visible("g") == lane.now + 4 * SECOND
    assert lane.run(renew(lane.keys, leases, 60.0, now_us=lane.now)) == [leases[0], leases[2]]
    assert lane.visible("g") == lane.now + 60 * SECOND


@pytest.mark.parametrize("alone", [True, False])
def test_the_end_of_a_lease_is_an_attempt_where_its_renewal_says_so(lane: Lane, alone: bool) -> None:
    """It was claimed with another group, so that nobody could tell which of them its consumer died of."""
    lane.append(item("g", "a"), item("h", "b"))
    held = lane.claim()
    lane.run(renew(lane.keys, [("g", held["g"].token)], 60.0, alone=alone, now_us=lane.now))
    lane.later(61)
    attempts = {key: one.messages[0].attempt for _ in "gh" for key, one in lane.claim().items()}
    assert attempts == {"g": 2 if alone else 1, "h": 1}


def test_a_renewal_makes_no_group_live(lane: Lane) -> None:
    """A group is in the schedule exactly when it has messages."""
    lane.append(item("g", "a"))
    held = lane.claim()["g"]
    lane.link.command("DEL", lane.keys.schedule, lane.keys.order("g"), lane.keys.body("g"))
    assert lane.run(renew(lane.keys, [("g", held.token)], 60.0, now_us=lane.now)) == []
    assert lane.visible("g") is None
    lane.link.command("DEL", lane.keys.leases)


# -- resume ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [False, True])
def test_a_message_that_took_the_place_of_a_failed_one_is_not_skipped(lane: Lane, skip: bool) -> None:
    """A failure that says of no message is about the head, which is another by then."""
    lane.append(item("g", "a", body="1"))
    lease = lane.claim()["g"]
    lane.nack(lease, None, failure=b"{}")
    lane.append(item("g", "a", body="2"), on_conflict="replace")
    done = lane.run(resume(lane.keys, "g", b"{}", lease.members[0], ending="drop" if skip else "", now_us=lane.now))
    assert (done.status, done.record) == ("resumed", b"")
    assert [one.body for one in lane.claim()["g"].messages] == [2]


def test_there_is_nothing_to_skip_where_none_has_failed(lane: Lane) -> None:
    lane.rules(NUMBERS)
    lane.append(item("g", "2", "2"))
    lane.later(10)
    assert lane.claim() == {}
    for status in ("unfailed", "unfailed"):
        assert lane.run(resume(lane.keys, "g", b"", "", ending="drop", now_us=lane.now)).status == status
        assert lane.visible("g") == math.inf


# -- skip_gap ---------------------------------------------------------------------------------------------------


def test_a_gap_is_skipped_only_where_it_was_seen(lane: Lane) -> None:
    lane.rules(NUMBERS)
    lane.append(item("g", "1", "1"), item("g", "4", "4"))
    lease = lane.claim()["g"]
    one, four = [m.decode() for m in lane.link.command("ZRANGE", lane.keys.order("g"), 0, -1)]
    seen = (one, ""), (four, ""), (four, "#0"), (one, "#1")
    for member, mark in seen:
        assert lane.run(skip_gap(lane.keys, "g", member, mark, "#3 2-3", now_us=lane.now)) == "leased"
    lane.ack(lease, mark="#1")
    for member, mark in seen:
        assert lane.run(skip_gap(lane.keys, "g", member, mark, "#3 2-3", now_us=lane.now)) == "changed"
    assert lane.claim() == {}
    assert lane.run(skip_gap(lane.keys, "g", four, "#1", "#3 2-3", now_us=lane.now)) == "skipped"
    assert [(one.id, lease.mark) for lease in lane.claim().values() for one in lease.messages] == [("4", "#3 2-3")]


def test_a_skipped_gap_leaves_a_paused_group_where_it_is(lane: Lane) -> None:
    lane.rules(NUMBERS)
    lane.append(item("g", "2", "2"))
    lane.run(pause(lane.keys, "g", True, now_us=lane.now))
    assert lane.claim() == {}
    (member,) = [m.decode() for m in lane.link.command("ZRANGE", lane.keys.order("g"), 0, -1)]
    assert lane.run(skip_gap(lane.keys, "g", member, "", "#1 1-1", now_us=lane.now)) == "skipped"
    assert (lane.visible("g"), lane.hints()) == (PAUSED, [])
    lane.run(pause(lane.keys, "g", False, now_us=lane.now))
    assert list(lane.claim()) == ["g"]


# -- dead letters, and what comes again -----------------------------------------------------------------------


@pytest.mark.parametrize("score", ["", "7"], ids=["its time is its score", "a score of its own"])
def test_a_timer_comes_back_from_the_dead_letters_with_its_body(lane: Lane, score: str) -> None:
    timer = item("g", "a", score, '"body"', due=str(lane.now + SECOND))
    lane.append(timer)
    lane.later(1)
    lease = lane.claim()["g"]
    lane.nack(lease, None, ending="dead")
    (letter,) = lane.link.command("ZRANGE", lane.keys.dead, 0, -1)
    assert lane.run(redrive(lane.keys, [letter.decode()], now_us=lane.now)) == ["redriven"]
    assert lane.append(timer) == ["duplicate"], "its time is past, and no part of it any more"
    (message,) = lane.claim()["g"].messages
    assert (message.body, message.score, message.redriven) == ("body", lease.messages[0].score, True)


# -- repair ---------------------------------------------------------------------------------------------------


def test_a_stamp_that_no_clock_could_reach_does_not_set_it(lane: Lane) -> None:
    """A clock of that would be refused by every script from then on."""
    lane.append(item("g", "a"))
    clock = lane.link.command("GET", lane.keys.clock)
    member = "9500000000000000x"
    lane.link.command("ZADD", lane.keys.order("g"), "1e12", member)
    lane.link.command("HSET", lane.keys.body("g"), "x", b"950000000000000000000[1]")
    checked = lane.run(repair(lane.keys, "g", members=[member], dry_run=False, now_us=lane.now))
    assert [(one.what, one.repaired) for one in checked.found] == [("ahead", False)]
    assert lane.link.command("GET", lane.keys.clock) == clock
    assert lane.append(item("g", "b")) == ["stored"]
    lane.link.command("ZREM", lane.keys.order("g"), member)
    lane.link.command("HDEL", lane.keys.body("g"), "x")


@pytest.mark.parametrize("kind", ["members", "ids"])
def test_a_look_at_large_records_ends_early_and_says_where(lane: Lane, kind: str) -> None:
    body = f'"{"x" * 800_000}"'
    for id in "abcde":
        lane.append(item("g", id, body=body))
    members = [member.decode() for member in lane.link.command("ZRANGE", lane.keys.order("g"), 0, -1)]
    asked = {"members": members} if kind == "members" else {"ids": list("abcde")}
    assert lane.run(repair(lane.keys, "g", **asked, now_us=lane.now)).looked_at == 3
