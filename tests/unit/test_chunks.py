"""How `append_many` cuts its items into chunks: by number, groups and bytes; nothing is lost, and the order is kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sequencer.queue.append_many
from sequencer.errors import BatchRefused, QueueFull
from sequencer.queue.append_many import CHUNK_BYTES, Chunk, Chunks, append_many

from ..support.listed_net import ListedNet, ListedSession, run

BOUND = 100
ITEMS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2 * BOUND)) | st.none(), max_size=30)
"""Group and size of a body; None is an item that is refused."""


def chunks_of(items: list[Any], size: int, most_groups: int) -> list[Chunk]:
    session: Any = ListedSession(ListedNet())
    chunks, found = Chunks(session, items, None), list[Chunk]()
    chunks.size, chunks._most_groups = size, most_groups
    while chunk := chunks.take():
        found.append(chunk)
    return found


def bytes_of(chunk: Chunk) -> int:
    return sum(len(item.envelope) + len(item.group) + len(item.id) for item in chunk.items)


@given(ITEMS, st.integers(1, 12), st.integers(1, 4))
def test_no_chunk_is_larger_than_its_bounds_unless_it_is_one_message(
    drawn: list[tuple[int, int] | None], size: int, most_groups: int
) -> None:
    items = [
        {"group": one[0], "body": "x" * one[1], "id": position} if one else {"body": 1, "group": []}
        for position, one in enumerate(drawn)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer.queue.append_many, "CHUNK_BYTES", BOUND)
        chunks = chunks_of(items, size, most_groups)
    for chunk in chunks:
        assert chunk.items or chunk.errors
        assert bytes_of(chunk) <= BOUND or len(chunk.items) == 1
        assert len(chunk.items) + len(chunk.errors) <= size
        assert len({item.group for item in chunk.items}) <= most_groups
        assert [item.id for item in chunk.items] == [str(index) for index in chunk.indexes]
    sent = [index for chunk in chunks for index in chunk.indexes]
    assert sent == [position for position, one in enumerate(drawn) if one], "all of them, in their order"
    refused = [one.index for chunk in chunks for one in chunk.errors]
    assert refused == [position for position, one in enumerate(drawn) if not one]


@given(ITEMS)
def test_a_chunk_ends_only_where_a_bound_says_so(drawn: list[tuple[int, int] | None]) -> None:
    items = [{"group": one[0], "body": "x" * one[1], "id": 1} for one in drawn if one]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer.queue.append_many, "CHUNK_BYTES", BOUND)
        chunks = chunks_of(items, 12, 12)
    for chunk, following in pairwise(chunks):
        first = following.items[0]
        more = len(first.envelope) + len(first.group) + len(first.id)
        assert bytes_of(chunk) + more > BOUND or len(chunk.items) == 12


def test_from_an_iterator_one_message_more_is_taken_at_most() -> None:
    large = "x" * (CHUNK_BYTES // 3)
    items = iter([{"group": "g", "body": large, "id": n} for n in range(6)])
    session: Any = ListedSession(ListedNet(), max_body_bytes=CHUNK_BYTES)
    first = Chunks(session, items, 1000).take()
    assert first
    assert [item.id for item in first.items] == ["0", "1"]
    assert [next(items)["id"], next(items)["id"]] == [3, 4]


def test_the_error_of_a_chunk_says_what_became_of_the_earlier_ones() -> None:
    net = ListedNet([b"+" + b"1" * 16], [b"=" + b"0" * 16])
    session: Any = ListedSession(net)
    bad = [*({"group": "g", "body": n, "id": n} for n in range(2)), {"body": 1, "group": []}]
    with pytest.raises(BatchRefused) as caught:
        run(append_many(session, bad, chunk=1))
    earlier = caught.value.earlier
    assert (caught.value.stored, earlier.appended, earlier.duplicates) == (1, 1, 1)


def test_any_error_of_many_says_what_became_of_the_earlier_chunks() -> None:
    session: Any = ListedSession(ListedNet([b"+" + b"1" * 16], [b"=" + b"0" * 16], QueueFull("full")))
    with pytest.raises(QueueFull) as caught:
        run(append_many(session, [{"group": "g", "body": n, "id": n} for n in range(4)], chunk=1))
    assert (caught.value.earlier.appended, caught.value.earlier.duplicates) == (1, 1)
    assert QueueFull("full").earlier is None
