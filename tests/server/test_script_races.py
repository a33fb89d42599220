"""Calls that come when something has changed: another message in its place, another token, a message in progress, a
pause.
Each changes what its caller saw, or nothing.
"""

from __future__ import annotations

import pytest

from sequencer.calls.examine import repair
from sequencer.calls.operate import resume, skip_gap, update
from sequencer.calls.settle import renew
from sequencer.settings.policy import Policy

from ..support.shard import SECOND, Shard, item

NUMBERS = Policy(sequence=True, gap_timeout=10)


def cancel(shard: Shard, id: str) -> str:
    return shard.run(update(shard.keys, "g", id, "", ""))


def test_a_timer_claimed_at_its_very_time_is_in_hand(shard: Shard) -> None:
    shard.append(item("g", "a", due="+1000000"))
    shard.later(1)
    (message,) = shard.claim()["g"].messages
    assert message.token == shard.now, "the time, to the microsecond"
    assert cancel(shard, "a") == "leased"
    assert shard.ids("g") == ["a"]


@pytest.mark.parametrize(("is_earlier", "is_told"), [(True, True), (False, False), (None, True)])
def test_an_acknowledgement_tells_that_another_message_comes_next_by_now(
    shard: Shard, is_earlier: bool | None, is_told: bool
) -> None:
    shard.append(item("g", "a", "1.0"), item("g", "b", "3.0"), item("g", "c", "4.0"))
    lease = shard.claim()["g"]
    if is_earlier is None:
        shard.append(item("g", "b", "2.0"), on_conflict="replace")
    else:
        shard.append(item("g", "x", "2.0" if is_earlier else "3.5"))
    assert shard.ack(lease, count=1, release=False, follows=lease.members[1]) == ([], is_told)
    assert shard.ids("g")[0] == ("x" if is_earlier else "b")
    assert shard.ack(lease, count=1, release=False) == ([], False), "it was not said what comes next"


def test_only_the_holder_renews(shard: Shard) -> None:
    shard.append(item("g", "a"))
    lost = shard.claim()["g"]
    shard.later(5)
    held = shard.claim()["g"]
    shard.later(1)
    leases = [("g", lost.token), ("g", held.token), ("other", held.token)]
    assert shard.run(renew(shard.keys, leases[:1], 60.0)) == leases[:1]
    assert shard.visible("g") == shard.now + 4 * SECOND
    assert shard.run(renew(shard.keys, leases, 60.0)) == [leases[0], leases[2]]
    assert shard.visible("g") == shard.now + 60 * SECOND


@pytest.mark.parametrize("alone", [True, False])
def test_the_end_of_a_lease_is_an_attempt_where_its_renewal_says_so(shard: Shard, alone: bool) -> None:
    """It was claimed with another group, so that nobody could tell which of them its consumer died of."""
    shard.append(item("g", "a"), item("h", "b"))
    held = shard.claim()
    shard.run(renew(shard.keys, [("g", held["g"].token)], 60.0, alone=alone))
    shard.later(61)
    attempts = {key: one.messages[0].attempt for _ in "gh" for key, one in shard.claim().items()}
    assert attempts == {"g": 2 if alone else 1, "h": 1}


def test_a_renewal_makes_no_group_live(shard: Shard) -> None:
    """A group is in the schedule exactly when it has messages."""
    shard.append(item("g", "a"))
    held = shard.claim()["g"]
    shard.link.command("DEL", shard.keys.schedule, shard.keys.order("g"), shard.keys.body("g"))
    assert shard.run(renew(shard.keys, [("g", held.token)], 60.0)) == []
    assert shard.visible("g") is None
    shard.link.command("DEL", shard.keys.leases)


@pytest.mark.parametrize("skip", [False, True])
def test_a_message_that_took_the_place_of_a_failed_one_is_not_skipped(shard: Shard, skip: bool) -> None:
    """A failure that says of no message is about the head, which is another by then."""
    shard.append(item("g", "a", body="1"))
    lease = shard.claim()["g"]
    shard.nack(lease, None, failure=b"{}")
    shard.append(item("g", "a", body="2"), on_conflict="replace")
    done = shard.run(resume(shard.keys, "g", b"{}", lease.members[0], ending="drop" if skip else ""))
    assert (done.status, done.record) == ("resumed", b"")
    assert [one.body for one in shard.claim()["g"].messages] == [2]


def test_a_gap_is_skipped_only_where_it_was_seen(shard: Shard) -> None:
    shard.rules(NUMBERS)
    shard.append(item("g", "1", "1"), item("g", "4", "4"))
    lease = shard.claim()["g"]
    one, four = [m.decode() for m in shard.link.command("ZRANGE", shard.keys.order("g"), 0, -1)]
    seen = (one, ""), (four, ""), (four, "#0"), (one, "#1")
    for member, mark in seen:
        assert shard.run(skip_gap(shard.keys, "g", member, mark, "#3 2-3")) == "leased"
    shard.ack(lease, mark="#1")
    for member, mark in seen:
        assert shard.run(skip_gap(shard.keys, "g", member, mark, "#3 2-3")) == "changed"
    assert shard.claim() == {}
    assert shard.run(skip_gap(shard.keys, "g", four, "#1", "#3 2-3")) == "skipped"
    assert [(one.id, lease.mark) for lease in shard.claim().values() for one in lease.messages] == [("4", "#3 2-3")]


def test_a_stamp_that_no_clock_could_reach_does_not_set_it(shard: Shard) -> None:
    """A clock of that would be refused by every script from then on."""
    shard.append(item("g", "a"))
    clock = shard.link.command("GET", shard.keys.clock)
    member = "9500000000000000x"
    shard.link.command("ZADD", shard.keys.order("g"), "1e12", member)
    shard.link.command("HSET", shard.keys.body("g"), "x", b"950000000000000000000[1]")
    checked = shard.run(repair(shard.keys, "g", members=[member], dry_run=False))
    assert [(one.what, one.repaired) for one in checked.found] == [("stamp ahead of clock", False)]
    assert shard.link.command("GET", shard.keys.clock) == clock
    assert shard.append(item("g", "b")) == ["stored"]
    shard.link.command("ZREM", shard.keys.order("g"), member)
    shard.link.command("HDEL", shard.keys.body("g"), "x")


@pytest.mark.parametrize("kind", ["members", "ids"])
def test_a_look_at_large_records_ends_early_and_says_where(shard: Shard, kind: str) -> None:
    body = f'"{"x" * 800_000}"'
    for id in "abcde":
        shard.append(item("g", id, body=body))
    members = [member.decode() for member in shard.link.command("ZRANGE", shard.keys.order("g"), 0, -1)]
    asked = {"members": members} if kind == "members" else {"ids": list("abcde")}
    assert shard.run(repair(shard.keys, "g", **asked)).looked_at == 3
