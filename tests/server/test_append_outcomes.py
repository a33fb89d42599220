"""What append says of messages that it does not simply store, and that a question changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import DataError
from sequencer.settings.policy import Policy
from sequencer.store.item import Item

from ..support.lane import Lane, item

DELAYED = "+100000000"


@pytest.mark.parametrize("score", ["-1", "1.5", "x", ""])
def test_a_number_of_a_sequence_is_whole_and_not_below_0(lane: Lane, score: str) -> None:
    lane.rules(Policy(sequence=True))
    with pytest.raises(DataError, match="SEQUENCE the score of id b is no whole number from 0"):
        lane.append(item("g", "a", "1"), item("g", "b", score))
    assert lane.ids("g") == []
    assert lane.append(item("g", "a", "0")) == ["stored"]


@pytest.mark.parametrize(
    ("on_late", "said"), [("dead_letter", "dead_letter"), ("drop", "dropped"), ("refuse", "refused")]
)
def test_a_question_changes_nothing(lane: Lane, on_late: Any, said: str) -> None:
    lane.rules(Policy(on_late=on_late, watermark_window=100))
    lane.append(item("g", "a", "5"))
    lane.handle("g", "5")
    lane.append(item("g", "pending", "7"))
    before = {key: data for key, data in lane.dump().items() if key.decode() != lane.keys.clock}
    asked = [item("g", "b", "4"), item("g", "pending", "7"), item("g", "c", "8"), item("new", "a")]
    assert lane.append(*asked, dry_run=True) == [said, "duplicate", "stored", "stored"]
    assert {key: data for key, data in lane.dump().items() if key.decode() != lane.keys.clock} == before


def test_a_batch_that_was_refused_for_two_reasons_is_not_called_late(lane: Lane) -> None:
    lane.rules(Policy(on_late="refuse", watermark_window=100))
    lane.append(item("g", "a", "5"))
    lane.handle("g", "5")
    lane.append(item("g", "pending", "7"))
    late, conflict = item("g", "b", "4"), item("g", "pending", "8")
    for items, said in (([late], "LATE"), ([conflict], "IDCONFLICT"), ([late, conflict], "IDCONFLICT")):
        with pytest.raises(DataError, match=said):
            lane.append(*items, on_conflict="error")
    assert lane.ids("g") == ["pending"]


LONG_WAYS = {
    "one that is due later": [item("g", "b", due="+10")],
    "several": [item("h", "a"), item("g", "b", due="+10")],
}


@pytest.mark.parametrize("items", LONG_WAYS.values(), ids=LONG_WAYS.keys())
@pytest.mark.parametrize("name", ["leases", "failures"])
def test_a_key_of_another_type_is_found_before_anything_is_stored(lane: Lane, items: list[Item], name: str) -> None:
    """It would be met at the end, where a group that sleeps is woken."""
    lane.append(item("g", "a", due=DELAYED))
    key = getattr(lane.keys, name)
    lane.link.command("SET", key, "foreign")
    before = lane.dump()
    with pytest.raises(DataError):
        lane.append(*items)
    assert lane.dump() == before
    lane.link.command("DEL", key)


@pytest.mark.parametrize("items", LONG_WAYS.values(), ids=LONG_WAYS.keys())
def test_a_group_of_another_type_is_told_and_leaves_no_half(lane: Lane, items: list[Item]) -> None:
    lane.link.command("SET", lane.keys.order("g"), "foreign")
    with pytest.raises(DataError):
        lane.append(*items)
    assert lane.link.command("EXISTS", lane.keys.body("g")) == 0
    assert lane.ids("h") == []
    lane.link.command("DEL", lane.keys.order("g"))
    assert lane.append(*items) == ["stored"] * len(items)
