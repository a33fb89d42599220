"""How long the ids and watermarks of handled messages stay known: for their window, at most for twice that, up to a
bound; and of a queue without a window nothing is kept.
"""

from __future__ import annotations

import pytest

from sequencer.calls.append import append
from sequencer.calls.operate import revise
from sequencer.calls.settle import Ack, ack
from sequencer.settings.policy import Policy

from ..support.lane import Lane, item


def handle(lane: Lane, *ids: str) -> None:
    """Each by a call of its own."""
    for id in ids:
        assert lane.append(item("g", id)) == ["stored"]
        lane.handle("g")


def known(lane: Lane, ids: str) -> str:
    """Those whose ids are known, asked for as one call, and each alone, without leaving anything."""
    found = lane.append(*[item("g", id) for id in ids], dry_run=True)
    for id, outcome in zip(ids, found, strict=True):
        assert lane.append(item("g", id)) == [outcome]
        lane.run(revise(lane.keys, "g", id, "", "", now_us=lane.now))
    return "".join(id for id, outcome in zip(ids, found, strict=True) if outcome == "duplicate")


def test_ids_are_known_for_their_window_at_most_for_twice_that(lane: Lane) -> None:
    lane.rules(Policy(dedup_window=10))
    handle(lane, "a")
    lane.later(9)
    handle(lane, "b")
    lane.later(6)  # 15 s: a generation ends, and was told of something 6 s ago
    handle(lane, "c")
    assert known(lane, "abcd") == "abc"
    lane.later(4)
    assert known(lane, "abcd") == "abc", "10 s after b"
    lane.later(0.011)  # when it last grew is kept a thousandth of the window ahead
    assert known(lane, "abcd") == "c"
    lane.later(5.999)
    assert known(lane, "abcd") == "c"
    lane.later(0.001)
    assert known(lane, "abcd") == ""


def test_what_is_known_no_more_is_freed(lane: Lane) -> None:
    lane.rules(Policy(dedup_window=10))
    handle(lane, "a")
    lane.later(10.1)
    handle(lane, "b")
    assert list(lane.link.command("SMEMBERS", lane.keys.seen + ":old")) == [b"g\na"]
    lane.later(9)
    handle(lane, "c")
    assert lane.link.command("EXISTS", lane.keys.seen + ":old") == 0
    assert lane.link.command("SCARD", lane.keys.seen) == 2


def test_so_many_ids_as_the_cap_are_known_and_at_most_twice_as_many(lane: Lane) -> None:
    lane.rules(Policy(dedup_window=10, dedup_cap=2))
    handle(lane, "a", "b")
    assert known(lane, "ab") == "ab"
    handle(lane, "c", "d")
    assert known(lane, "abcd") == "abcd"
    handle(lane, "e")
    assert known(lane, "abcde") == "cde"


def test_all_of_many_ids_of_one_acknowledgement_are_known(lane: Lane) -> None:
    lane.rules(Policy(dedup_window=10))
    groups, leases = [f"g{n}" for n in range(5)], []
    for group in groups:
        lane.append(*[item(group, str(n)) for n in range(1000)])
        leases.append(lane.claim()[group])
    lane.run(ack(lane.keys, [Ack(one.key, one.token, one.members, True) for one in leases], now_us=lane.now))
    for group in groups:
        items = [item(group, str(n)) for n in range(1000)]
        marks = lane.run(append(lane.keys, items, dry_run=True, now_us=lane.now))
        assert {mark.outcome for mark in marks} == {"duplicate"}, group


def test_no_id_is_kept_without_a_window(lane: Lane) -> None:
    """Also a window that is set later knows of those only that were handled from then on."""
    lane.rules(Policy(dedup_window=0))
    handle(lane, "a")
    lane.rules(Policy(dedup_window=10))
    assert known(lane, "a") == ""
    handle(lane, "b")
    assert known(lane, "ab") == "b"


def test_the_id_of_a_message_refused_as_late_is_not_known(lane: Lane) -> None:
    """It may come again under a score that is not late."""
    lane.rules(Policy(dedup_window=10, on_late="refuse", watermark_window=10))
    lane.append(item("g", "a", "5"))
    lane.handle("g", "5")
    assert lane.append(item("g", "b", "4"), item("g", "c", "6"), on_conflict="others") == ["refused", "stored"]
    assert lane.append(item("g", "b", "7")) == ["stored"]
    assert lane.ids("g") == ["c", "b"]


@pytest.mark.parametrize(("first", "then"), [("", "5"), ("3", "5"), ("8", "8")])
def test_a_repeated_acknowledgement_sets_the_watermark_and_never_back(lane: Lane, first: str, then: str) -> None:
    """Its message is not there any more: it may be a repeat, that comes late, of one that was carried out."""
    lane.rules(Policy(on_late="drop", watermark_window=10))
    if first:
        lane.append(item("g", "before", first))
        lane.handle("g", first)
    lane.append(item("g", "a", "5" if then == "5" else "9"))
    lease = lane.claim()["g"]
    lane.append(item("g", "a", "9", "2"), on_conflict="replace")
    lane.ack(lease, mark="5")
    assert lane.claim()["g"].mark == then


@pytest.mark.parametrize("ended_by", ["ack", "nack"])
def test_the_number_of_a_group_deleted_by_hand_is_forgotten_in_time(lane: Lane, ended_by: str) -> None:
    """While it has messages its number is kept for ever, and nothing but its end would let it go."""
    lane.rules(Policy(sequence=True, watermark_window=10, dedup_window=0))
    lane.append(item("g", "1", "1"), item("g", "2", "2"))
    lane.ack(lane.claim()["g"], count=1, mark="#1")
    lease = lane.claim()["g"]
    lane.link.command("DEL", lane.keys.order("g"), lane.keys.body("g"))
    if ended_by == "ack":
        lane.ack(lease, count=0)
    else:
        lane.nack(lease, None)
    assert lane.append(item("g", "1", "1")) == ["duplicate"]
    lane.later(10.1)
    assert lane.append(item("g", "1", "1")) == ["stored"]
