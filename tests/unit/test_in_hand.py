"""What a supervisor reads of the message that its consumer began last, and the command that leads to its group."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.consume.forks import remember_current
from sequencer.processes.worker.in_progress import InProgress, mapped
from sequencer.store.group import MAX_GROUP_BYTES
from sequencer.values.message import Message

PARTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8)


def begun(group: tuple[str, ...], id: str = "m1") -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Before, while and after a message of this group is in progress."""
    hand = InProgress()
    memory = mapped(os.dup(hand.fd))
    try:
        before = hand.begun
        remember_current(memory, Message(id, group, 1.0, None, {}, 1, 5, 0.0, "jobs", 9))
        during = hand.begun
        remember_current(memory, None)
        return before, during, hand.begun
    finally:
        assert memory is not None
        memory.close()
        hand.close()


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_it_is_the_very_group_whatever_its_parts_hold(parts: list[str]) -> None:
    before, during, after = begun(tuple(parts))
    assert during == {"group": parts, "id": "m1"}
    assert (before, after) == ({}, {}), "between batches there is none"


@pytest.mark.parametrize(("size", "is_named"), [(MAX_GROUP_BYTES, True), (1000, False)])
def test_a_group_that_was_cut_is_not_named(size: int, is_named: bool) -> None:
    """Longer ones are not of our clients."""
    assert ("group" in begun(("g" * size,))[1]) == is_named
