"""What append says of messages that it does not simply store, and that a question changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import DataError
from sequencer.settings.policy import Policy
from sequencer.store.item import Item

from ..support.shard import Shard, item

DELAYED = "+100000000"


@pytest.mark.parametrize("score", ["-1", "1.5", "x", ""])
def test_a_number_of_a_sequence_is_whole_and_not_below_0(shard: Shard, score: str) -> None:
    shard.rules(Policy(sequence=True))
    with pytest.raises(DataError, match="SEQUENCE the score of id b is no whole number from 0"):
        shard.append(item("g", "a", "1"), item("g", "b", score))
    assert shard.ids("g") == []
    assert shard.append(item("g", "a", "0")) == ["stored"]


@pytest.mark.parametrize(
    ("on_late", "said"), [("dead_letter", "dead_letter"), ("drop", "dropped"), ("refuse", "refused")]
)
def test_a_question_changes_nothing(shard: Shard, on_late: Any, said: str) -> None:
    shard.rules(Policy(on_late=on_late, watermark_window=100))
    shard.append(item("g", "a", "5"))
    shard.handle("g", "5")
    shard.append(item("g", "pending", "7"))
    before = {key: data for key, data in shard.dump().items() if key.decode() != shard.keys.clock}
    asked = [item("g", "b", "4"), item("g", "pending", "7"), item("g", "c", "8"), item("new", "a")]
    assert shard.append(*asked, dry_run=True) == [said, "duplicate", "stored", "stored"]
    assert {key: data for key, data in shard.dump().items() if key.decode() != shard.keys.clock} == before


def test_a_batch_that_was_refused_for_two_reasons_is_not_called_late(shard: Shard) -> None:
    shard.rules(Policy(on_late="refuse", watermark_window=100))
    shard.append(item("g", "a", "5"))
    shard.handle("g", "5")
    shard.append(item("g", "pending", "7"))
    late, conflict = item("g", "b", "4"), item("g", "pending", "8")
    for items, said in (([late], "LATE"), ([conflict], "IDCONFLICT"), ([late, conflict], "IDCONFLICT")):
        with pytest.raises(DataError, match=said):
            shard.append(*items, on_conflict="error")
    assert shard.ids("g") == ["pending"]


LONG_WAYS = {
    "one that is due later": [item("g", "b", due="+10")],
    "several": [item("h", "a"), item("g", "b", due="+10")],
}


@pytest.mark.parametrize("items", LONG_WAYS.values(), ids=LONG_WAYS.keys())
@pytest.mark.parametrize("name", ["leases", "failures"])
def test_a_key_of_another_type_is_found_before_anything_is_stored(shard: Shard, items: list[Item], name: str) -> None:
    """It would be met at the end, where a group that sleeps is woken."""
    shard.append(item("g", "a", due=DELAYED))
    key = getattr(shard.keys, name)
    shard.link.command("SET", key, "foreign")
    before = shard.dump()
    with pytest.raises(DataError):
        shard.append(*items)
    assert shard.dump() == before
    shard.link.command("DEL", key)


@pytest.mark.parametrize("items", LONG_WAYS.values(), ids=LONG_WAYS.keys())
def test_a_group_of_another_type_is_told_and_leaves_no_half(shard: Shard, items: list[Item]) -> None:
    shard.link.command("SET", shard.keys.order("g"), "foreign")
    with pytest.raises(DataError):
        shard.append(*items)
    assert shard.link.command("EXISTS", shard.keys.body("g")) == 0
    assert shard.ids("h") == []
    shard.link.command("DEL", shard.keys.order("g"))
    assert shard.append(*items) == ["stored"] * len(items)
