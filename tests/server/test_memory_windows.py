"""How long the ids and watermarks of handled messages stay known: for their window, at most for twice that, up to a
bound; and of a queue without a window nothing is kept.
"""

from __future__ import annotations

import pytest

from sequencer.calls.append import append
from sequencer.calls.operate import update
from sequencer.calls.settle import Ack, ack
from sequencer.settings.policy import Policy

from ..support.shard import Shard, item


def handle(shard: Shard, *ids: str) -> None:
    for id in ids:
        assert shard.append(item("g", id)) == ["stored"]
        shard.handle("g")


def known(shard: Shard, ids: str) -> str:
    """Those whose ids are known, asked for as one call, and each alone, without leaving anything."""
    found = shard.append(*[item("g", id) for id in ids], dry_run=True)
    for id, outcome in zip(ids, found, strict=True):
        assert shard.append(item("g", id)) == [outcome]
        shard.run(update(shard.keys, "g", id, "", ""))
    return "".join(id for id, outcome in zip(ids, found, strict=True) if outcome == "duplicate")


def test_ids_are_known_for_their_window_at_most_for_twice_that(shard: Shard) -> None:
    shard.rules(Policy(dedup_window=10))
    handle(shard, "a")
    shard.later(9)
    handle(shard, "b")
    shard.later(6)  # 15 s: a generation ends, and was told of something 6 s ago
    handle(shard, "c")
    assert known(shard, "abcd") == "abc"
    shard.later(4)
    assert known(shard, "abcd") == "abc", "10 s after b"
    shard.later(0.011)  # when it last grew is kept a thousandth of the window ahead
    assert known(shard, "abcd") == "c"
    shard.later(5.999)
    assert known(shard, "abcd") == "c"
    shard.later(0.001)
    assert known(shard, "abcd") == ""


def test_what_is_known_no_more_is_freed(shard: Shard) -> None:
    shard.rules(Policy(dedup_window=10))
    handle(shard, "a")
    shard.later(10.1)
    handle(shard, "b")
    assert list(shard.link.command("SMEMBERS", shard.keys.dedup + ":old")) == [b"g\na"]
    shard.later(9)
    handle(shard, "c")
    assert shard.link.command("EXISTS", shard.keys.dedup + ":old") == 0
    assert shard.link.command("SCARD", shard.keys.dedup) == 2


def test_so_many_ids_as_the_cap_are_known_and_at_most_twice_as_many(shard: Shard) -> None:
    shard.rules(Policy(dedup_window=10, dedup_cap=2))
    handle(shard, "a", "b")
    assert known(shard, "ab") == "ab"
    handle(shard, "c", "d")
    assert known(shard, "abcd") == "abcd"
    handle(shard, "e")
    assert known(shard, "abcde") == "cde"


def test_all_of_many_ids_of_one_acknowledgement_are_known(shard: Shard) -> None:
    shard.rules(Policy(dedup_window=10))
    groups, leases = [f"g{n}" for n in range(5)], []
    for group in groups:
        shard.append(*[item(group, str(n)) for n in range(1000)])
        leases.append(shard.claim()[group])
    shard.run(ack(shard.keys, [Ack(one.key, one.token, one.members, True) for one in leases]))
    for group in groups:
        items = [item(group, str(n)) for n in range(1000)]
        marks = shard.run(append(shard.keys, items, dry_run=True))
        assert {mark.outcome for mark in marks} == {"duplicate"}, group


def test_no_id_is_kept_without_a_window(shard: Shard) -> None:
    """Also a window that is set later knows of those only that were handled from then on."""
    shard.rules(Policy(dedup_window=0))
    handle(shard, "a")
    shard.rules(Policy(dedup_window=10))
    assert known(shard, "a") == ""
    handle(shard, "b")
    assert known(shard, "ab") == "b"


def test_the_id_of_a_message_refused_as_late_is_not_known(shard: Shard) -> None:
    """It may come again under a score that is not late."""
    shard.rules(Policy(dedup_window=10, on_late="refuse", watermark_window=10))
    shard.append(item("g", "a", "5"))
    shard.handle("g", "5")
    assert shard.append(item("g", "b", "4"), item("g", "c", "6"), on_conflict="others") == ["refused", "stored"]
    assert shard.append(item("g", "b", "7")) == ["stored"]
    assert shard.ids("g") == ["c", "b"]


@pytest.mark.parametrize(("first", "then"), [("", "5"), ("3", "5"), ("8", "8")])
def test_a_repeated_acknowledgement_sets_the_watermark_and_never_back(shard: Shard, first: str, then: str) -> None:
    """Its message is not there any more: it may be a repeat, that comes late, of one that was carried out."""
    shard.rules(Policy(on_late="drop", watermark_window=10))
    if first:
        shard.append(item("g", "before", first))
        shard.handle("g", first)
    shard.append(item("g", "a", "5" if then == "5" else "9"))
    lease = shard.claim()["g"]
    shard.append(item("g", "a", "9", "2"), on_conflict="replace")
    shard.ack(lease, mark="5")
    assert shard.claim()["g"].mark == then


@pytest.mark.parametrize("ended_by", ["ack", "nack"])
def test_the_number_of_a_group_deleted_by_hand_is_forgotten_in_time(shard: Shard, ended_by: str) -> None:
    """While it has messages its number is kept for ever, and nothing but its end would let it go."""
    shard.rules(Policy(sequence=True, watermark_window=10, dedup_window=0))
    shard.append(item("g", "1", "1"), item("g", "2", "2"))
    shard.ack(shard.claim()["g"], count=1, mark="#1")
    lease = shard.claim()["g"]
    shard.link.command("DEL", shard.keys.order("g"), shard.keys.body("g"))
    if ended_by == "ack":
        shard.ack(lease, count=0)
    else:
        shard.nack(lease, None)
    assert shard.append(item("g", "1", "1")) == ["duplicate"]
    shard.later(10.1)
    assert shard.append(item("g", "1", "1")) == ["stored"]
