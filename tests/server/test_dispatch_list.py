"""The dispatch list: which groups it names, so that a consumer that waits looks at once, and when it names none."""

from __future__ import annotations

import pytest

from sequencer.calls.operate import pause, redrive, resume, revise, wake
from sequencer.calls.settle import Ack, ack
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import PAUSED

from ..support.lane import SECOND, Lane, item


@pytest.mark.parametrize(("count", "named"), [(3, 3), (150, 100)])
def test_new_groups_are_named_up_to_a_hundred(lane: Lane, count: int, named: int) -> None:
    lane.append(*[item(f"g{n}", "a") for n in range(count)])
    assert lane.hints() == [f"g{n}" for n in range(named)]


def test_a_group_is_named_only_if_it_is_due_soon(lane: Lane) -> None:
    """An idle consumer looks again within five seconds by itself."""
    lane.append(item("soon", "a", due="+5000000"), item("far", "a", due="+5300000"), item("now", "a"))
    assert lane.hints() == ["now", "soon"]


def test_a_sleeping_group_is_named_only_if_it_wakes_soon(lane: Lane) -> None:
    lane.append(item("g", "a", due="+100000000"))
    lane.append(item("g", "b", due="+50000000"))
    assert (lane.visible("g"), lane.hints()) == (lane.now + 50 * SECOND, [])
    lane.append(item("g", "c", due="+500000"))
    assert (lane.visible("g"), lane.hints()) == (lane.now + SECOND / 2, ["g"])


def test_a_thousand_hints_are_enough(lane: Lane) -> None:
    """Nobody takes them while all consumers are busy."""
    lane.append(*[item("g", id, due="+100000000") for id in "abc"])
    lane.link.command("RPUSH", lane.keys.dispatch, *["other"] * 999)
    for id in "ab":
        assert lane.run(revise(lane.keys, "g", id, "", "", now_us=lane.now)) == "done"
        assert lane.visible("g") == lane.now
        lane.link.command("ZADD", lane.keys.schedule, lane.now + 9 * SECOND, "g")
    assert lane.hints() == ["other"] * 999 + ["g"]


def test_a_group_that_is_due_already_is_not_named_again(lane: Lane) -> None:
    lane.append(item("g", "a"), item("g", "b"))
    lane.forget_hints()
    assert lane.run(revise(lane.keys, "g", "b", "", "", now_us=lane.now)) == "done"
    assert (lane.visible("g"), lane.hints()) == (lane.now, [])


def test_a_group_given_back_is_named_unless_the_caller_claims_next_itself(lane: Lane) -> None:
    lane.append(item("g", "a"), item("g", "b"), item("g", "c"))
    for is_hint, hints in ((False, []), (True, ["g"])):
        lease = lane.claim()["g"]
        entry = Ack("g", lease.token, lease.members[:1], True)
        lane.run(ack(lane.keys, [entry], hint=is_hint, now_us=lane.now))
        assert lane.hints() == hints
    lane.ack(lane.claim()["g"])
    assert lane.hints() == [], "an empty group is none to look at"


@pytest.mark.parametrize(("ending", "hints"), [("dead", ["g"]), ("drop", ["g"]), ("park", [])])
def test_a_group_that_goes_on_behind_a_failed_message_is_named(lane: Lane, ending: str, hints: list[str]) -> None:
    lane.append(item("g", "a"), item("g", "b"))
    assert lane.nack(lane.claim()["g"], None, ending=ending)
    assert lane.hints() == hints


def test_what_waited_for_the_end_of_a_pause_is_named(lane: Lane) -> None:
    lane.append(item("g", "a"))
    for group, hints in (("g", ["g"]), ("", [""])):
        lane.run(pause(lane.keys, group, True, now_us=lane.now))
        assert lane.claim() == {}
        assert lane.hints() == []
        assert lane.run(pause(lane.keys, group, False, now_us=lane.now))
        assert lane.hints() == hints
    lane.ack(lane.claim()["g"])
    lane.run(pause(lane.keys, "", True, now_us=lane.now))
    lane.run(pause(lane.keys, "", False, now_us=lane.now))
    assert lane.hints() == [], "there is nothing to look at"


def test_a_claim_that_finds_nothing_takes_the_hints_away(lane: Lane) -> None:
    """They are stale, and whoever waits on the list would wake for each of them."""
    lane.append(item("g", "a", due="+100000000"))
    lane.link.command("RPUSH", lane.keys.dispatch, "gone", "g")
    assert lane.claim() == {}
    assert lane.hints() == []


def test_a_claim_that_leaves_a_due_group_says_so_and_names_one(lane: Lane) -> None:
    lane.append(item("g", "a"), item("h", "a"))
    lane.forget_hints()
    assert lane.claimed(ClaimLimits(1, 10, 1000)).has_more
    assert lane.hints() == ["h"]
    assert not lane.claimed(ClaimLimits(1, 10, 1000)).has_more
    assert lane.hints() == []


@pytest.mark.parametrize("way", ["one", "several", "later", "redrive", "resume", "wake"])
def test_a_paused_group_is_neither_woken_nor_named(lane: Lane, way: str) -> None:
    """A claim would only put it aside again."""
    lane.append(item("g", "a"))
    lane.nack(lane.claim()["g"], None, ending="dead")
    lane.append(item("g", "b"))
    failure = b'{"member":""}'
    if way == "resume":
        lane.nack(lane.claim()["g"], 0.0, failure=failure)
    lane.run(pause(lane.keys, "g", True, now_us=lane.now))
    assert lane.claim() == {}
    assert lane.visible("g") == PAUSED
    if way == "one":
        lane.append(item("g", "c"))
    elif way == "several":
        lane.append(item("g", "c"), item("g", "d"))
    elif way == "later":
        lane.append(item("g", "c", due="+10"))
    elif way == "redrive":
        (letter,) = lane.link.command("ZRANGE", lane.keys.dead, 0, -1)
        assert lane.run(redrive(lane.keys, [letter.decode()], now_us=lane.now)) == ["redriven"]
    elif way == "resume":
        assert lane.run(resume(lane.keys, "g", failure, "", now_us=lane.now)).status == "resumed"
    else:
        assert lane.run(wake(lane.keys, "g", now_us=lane.now)) == "paused"
    assert (lane.visible("g"), lane.hints()) == (PAUSED, [])
