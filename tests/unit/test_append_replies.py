"""What an append's reply says of each message, read."""

from __future__ import annotations

import pytest

from sequencer.calls.append import ItemOutcome, append
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys

FIRST = 1_800_000_000_000_000


def read(reply: bytes, count: int, *, with_stamps: bool = True) -> list[ItemOutcome]:
    items = [Item("g", str(i), "", b"[1]") for i in range(count)]
    return append(shard_keys("n", "q", 0), items, with_stamps=with_stamps).parse(reply)


def test_of_many_that_are_stored_only_the_first_is_said() -> None:
    assert read(b"+%d" % FIRST, 3) == [ItemOutcome("stored", FIRST + i) for i in range(3)]
    assert read(b"+%d" % FIRST, 3, with_stamps=False) == [ItemOutcome("stored", 0)] * 3
    assert read(b"+%d" % FIRST, 1) == [ItemOutcome("stored", FIRST)]


@pytest.mark.parametrize("with_stamps", [True, False])
def test_else_each_is_said(with_stamps: bool) -> None:
    stamp = FIRST if with_stamps else 0
    marks = read(b"+%d=%d" % (FIRST, FIRST), 2, with_stamps=with_stamps)
    assert marks == [ItemOutcome("stored", stamp), ItemOutcome("duplicate", stamp)]


@pytest.mark.parametrize("with_stamps", [True, False])
def test_of_one_its_stamp_is_said(with_stamps: bool) -> None:
    assert read(b"=%d" % FIRST, 1, with_stamps=with_stamps) == [ItemOutcome("duplicate", FIRST)]
    for reply in (b"", b"+", b"+%d+" % FIRST, b"+%d+%d" % (FIRST, FIRST)):
        with pytest.raises(ValueError, match="bytes say what became of one message"):
            read(reply, 1, with_stamps=with_stamps)
    for reply in (b"+1800000000000x00", b"?%d" % FIRST):
        with pytest.raises((ValueError, LookupError)):
            read(reply, 1, with_stamps=with_stamps)


@pytest.mark.parametrize("reply", [b"", b"+", b"=%d" % FIRST, b"+%d" % FIRST * 3, b"!%d" % FIRST])
@pytest.mark.parametrize("with_stamps", [True, False])
def test_a_reply_of_another_length_is_not_guessed_at(reply: bytes, with_stamps: bool) -> None:
    with pytest.raises(ValueError, match="bytes say what became of messages: 2"):
        read(reply, 2, with_stamps=with_stamps)


def test_the_backlog_stands_behind_what_became_of_the_only_one() -> None:
    call = append(shard_keys("n", "q", 0), [Item("g", "i", "", b"[1]")], backlog=True)
    assert call.parse(b"+%d12" % FIRST) == [ItemOutcome("stored", FIRST, 12)]
    for broken in (b"+%d" % FIRST, b"+12", b"+%dx" % FIRST):
        with pytest.raises(ValueError, match=r"bytes|invalid literal"):
            call.parse(broken)
