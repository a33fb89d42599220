"""The dispatch list: which groups it names, so that a consumer that waits looks at once, and when it names none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer.calls.operate import pause, redrive, resume, update, wake
from sequencer.calls.settle import Ack, ack
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import PAUSED

from ..support.shard import SECOND, Shard, item


@pytest.mark.parametrize(("count", "named"), [(3, 3), (150, 100)])
def test_new_groups_are_named_up_to_a_hundred(shard: Shard, count: int, named: int) -> None:
    shard.append(*[item(f"g{n}", "a") for n in range(count)])
    assert shard.hints() == [f"g{n}" for n in range(named)]


def test_a_group_is_named_only_if_it_is_due_soon(shard: Shard) -> None:
    """An idle consumer looks again within five seconds by itself."""
    shard.append(item("soon", "a", due="+5000000"), item("far", "a", due="+5300000"), item("now", "a"))
    assert shard.hints() == ["now", "soon"]


def test_a_sleeping_group_is_named_only_if_it_wakes_soon(shard: Shard) -> None:
    shard.append(item("g", "a", due="+100000000"))
    shard.append(item("g", "b", due="+50000000"))
    assert (shard.visible("g"), shard.hints()) == (shard.now + 50 * SECOND, [])
    shard.append(item("g", "c", due="+500000"))
    assert (shard.visible("g"), shard.hints()) == (shard.now + SECOND / 2, ["g"])


def test_a_thousand_hints_are_enough(shard: Shard) -> None:
    """Nobody takes them while all consumers are busy."""
    shard.append(*[item("g", id, due="+100000000") for id in "abc"])
    shard.link.command("RPUSH", shard.keys.dispatch, *["other"] * 999)
    for id in "ab":
        assert shard.run(update(shard.keys, "g", id, "", "")) == "done"
        assert shard.visible("g") == shard.now
        shard.link.command("ZADD", shard.keys.schedule, shard.now + 9 * SECOND, "g")
    assert shard.hints() == ["other"] * 999 + ["g"]


def test_a_group_that_is_due_already_is_not_named_again(shard: Shard) -> None:
    shard.append(item("g", "a"), item("g", "b"))
    shard.forget_hints()
    assert shard.run(update(shard.keys, "g", "b", "", "")) == "done"
    assert (shard.visible("g"), shard.hints()) == (shard.now, [])


def test_a_group_given_back_is_named_unless_the_caller_claims_next_itself(shard: Shard) -> None:
    shard.append(item("g", "a"), item("g", "b"), item("g", "c"))
    for is_hint, hints in ((False, []), (True, ["g"])):
        lease = shard.claim()["g"]
        entry = Ack("g", lease.token, lease.members[:1], True)
        shard.run(ack(shard.keys, [entry], hint=is_hint))
        assert shard.hints() == hints
    shard.ack(shard.claim()["g"])
    assert shard.hints() == [], "an empty group is none to look at"


@pytest.mark.parametrize(("ending", "hints"), [("dead", ["g"]), ("drop", ["g"]), ("park", [])])
def test_a_group_that_goes_on_behind_a_failed_message_is_named(shard: Shard, ending: str, hints: list[str]) -> None:
    shard.append(item("g", "a"), item("g", "b"))
    assert shard.nack(shard.claim()["g"], None, ending=ending)
    assert shard.hints() == hints


def test_what_waited_for_the_end_of_a_pause_is_named(shard: Shard) -> None:
    shard.append(item("g", "a"))
    for group, hints in (("g", ["g"]), ("", [""])):
        shard.run(pause(shard.keys, group, True))
        assert shard.claim() == {}
        assert shard.hints() == []
        assert shard.run(pause(shard.keys, group, False))
        assert shard.hints() == hints
    shard.ack(shard.claim()["g"])
    shard.run(pause(shard.keys, "", True))
    shard.run(pause(shard.keys, "", False))
    assert shard.hints() == [], "there is nothing to look at"


def test_a_claim_that_finds_nothing_takes_the_hints_away(shard: Shard) -> None:
    """They are stale, and whoever waits on the list would wake for each of them."""
    shard.append(item("g", "a", due="+100000000"))
    shard.link.command("RPUSH", shard.keys.dispatch, "gone", "g")
    assert shard.claim() == {}
    assert shard.hints() == []


def test_a_claim_that_leaves_a_due_group_says_so_and_names_one(shard: Shard) -> None:
    shard.append(item("g", "a"), item("h", "a"))
    shard.forget_hints()
    assert shard.claimed(ClaimLimits(1, 10, 1000)).has_more
    assert shard.hints() == ["h"]
    assert not shard.claimed(ClaimLimits(1, 10, 1000)).has_more
    assert shard.hints() == []


def put_back(shard: Shard) -> None:
    (letter,) = shard.link.command("ZRANGE", shard.keys.dead, 0, -1)
    assert shard.run(redrive(shard.keys, [letter.decode()])) == ["redriven"]


FAILURE = b'{"member":""}'
WAYS: dict[str, Callable[[Shard], object]] = {
    "one": lambda shard: shard.append(item("g", "c")),
    "several": lambda shard: shard.append(item("g", "c"), item("g", "d")),
    "later": lambda shard: shard.append(item("g", "c", due="+10")),
    "redrive": put_back,
    "resume": lambda shard: shard.run(resume(shard.keys, "g", FAILURE, "")),
    "wake": lambda shard: shard.run(wake(shard.keys, "g")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_paused_group_is_neither_woken_nor_named(shard: Shard, way: str) -> None:
    """A claim would only put it aside again."""
    shard.append(item("g", "a"))
    shard.nack(shard.claim()["g"], None, ending="dead")
    shard.append(item("g", "b"))
    if way == "resume":
        shard.nack(shard.claim()["g"], 0.0, failure=FAILURE)
    shard.run(pause(shard.keys, "g", True))
    assert shard.claim() == {}
    assert shard.visible("g") == PAUSED
    WAYS[way](shard)
    assert (shard.visible("g"), shard.hints()) == (PAUSED, [])
