"""Appending over a net that answers from a list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sequencer.queue.append_many
from sequencer.calls.append import ItemOutcome, Outcome
from sequencer.calls.append import append as append_call
from sequencer.calls.net_protocol import Answer
from sequencer.errors import (
    BatchRefused,
    OutcomeUnknown,
    QueueFull,
    SequencerError,
    ServerUnavailable,
)
from sequencer.queue.append_many import Chunk, Chunks, append_chunk, append_many
from sequencer.settings.policy import Policy
from sequencer.store.group import shard_of
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys

from ..support.listed_net import ListedNet, ListedSession, run
from ..support.refused import refused

# -- replies -----------------------------------------------------------------------------------------------------

FIRST = 1_800_000_000_000_000


def read(reply: bytes, count: int, *, with_stamps: bool = True, backlog: bool = False) -> list[ItemOutcome]:
    items = [Item("g", str(i), "", b"[1]") for i in range(count)]
    return append_call(shard_keys("n", "q", 0), items, with_stamps=with_stamps, backlog=backlog).parse(reply)


def test_of_many_that_are_stored_only_the_first_stamp_is_sent() -> None:
    assert read(b"+%d" % FIRST, 3) == [ItemOutcome("stored", FIRST + i) for i in range(3)]
    assert read(b"+%d" % FIRST, 3, with_stamps=False) == [ItemOutcome("stored", 0)] * 3
    assert read(b"+%d=%d" % (FIRST, FIRST), 2) == [ItemOutcome("stored", FIRST), ItemOutcome("duplicate", FIRST)]
    assert read(b"=%d" % FIRST, 1, with_stamps=False) == [ItemOutcome("duplicate", FIRST)]
    assert read(b"+%d12" % FIRST, 1, backlog=True) == [ItemOutcome("stored", FIRST, 12)]


@pytest.mark.parametrize(
    ("count", "reply"),
    [
        *(
            (1, reply)
            for reply in (b"", b"+%d+" % FIRST, b"+%d+%d" % (FIRST, FIRST), b"+1800000000000x00", b"?%d" % FIRST)
        ),
        *((2, reply) for reply in (b"", b"=%d" % FIRST, b"+%d" % FIRST * 3, b"!%d" % FIRST)),
    ],
)
@pytest.mark.parametrize("with_stamps", [True, False])
def test_a_reply_of_another_length_is_not_guessed_at(count: int, reply: bytes, with_stamps: bool) -> None:
    with pytest.raises((ValueError, LookupError)):
        read(reply, count, with_stamps=with_stamps)


WAITING: dict[str, Any] = {"wait_replicas": 2, "wait_timeout": 0.5}


# -- a chunk ----------------------------------------------------------------------------------------------------

ITEMS = [Item(f"g{n}", f"m{n}", "", b"[%d]" % n) for n in range(8)]


def chunk(*answers: Any, items: list[Item] = ITEMS, shards: int = 1, **options: Any) -> tuple[list[str], ListedNet]:
    net = ListedNet(*answers)
    session: Any = ListedSession(net, shards=shards, policy=options.pop("policy", None), **options.pop("given", {}))
    found = run(append_chunk(session, items, **{"on_refused": "stop", "replace": False, **options}))
    assert net.answers == []
    return [mark.outcome for mark in found], net


def by_shard(outcomes: list[Outcome], shards: int, items: list[Item] = ITEMS) -> Answer[list[list[ItemOutcome]]]:
    """The answer of all shards where each message ends so."""
    session: Any = ListedSession(ListedNet(), shards=shards)
    order: dict[Any, list[ItemOutcome]] = {}
    for item, outcome in zip(items, outcomes, strict=True):
        order.setdefault(run(session.keys_of(item.group)), []).append(ItemOutcome(outcome, 0))
    return Answer(list(order.values()))


def test_what_replaces_is_looked_at_first_and_only_the_storing_waits_and_overlaps() -> None:
    said: list[str] = []
    looked, stored = by_shard(["stored"] * 8, 3), Answer(by_shard(["stored"] * 8, 3).value, False, 2)
    given: dict[str, Any] = {"given": WAITING, "meanwhile": lambda: said.append("meanwhile")}
    outcomes, net = chunk(looked, stored, shards=3, replace=True, **given)
    assert outcomes == ["stored"] * 8
    assert (net.waits, said) == ([None, (2, 500)], ["meanwhile"])


@pytest.mark.parametrize("shards", [1, 3])
def test_what_replaces_and_would_be_refused_leaves_all_shards_as_they_are(shards: int) -> None:
    seen: list[Outcome] = ["stored", "duplicate", "conflict", "dropped", *["stored"] * 4]  # type: ignore[list-item]
    outcomes, _ = chunk(by_shard(seen, shards), shards=shards, replace=True)
    assert outcomes == ["undone", "duplicate", "conflict", "undone", *["undone"] * 4]


PARTS = [shard_of(item.group, 3) for item in ITEMS]
OWN = [part == PARTS[0] for part in PARTS]
"""Which of ITEMS have the shard of the first one; others have others."""


def test_a_shard_undoes_its_own_part_and_the_others_are_stored() -> None:
    assert len({*PARTS}) == 3
    outcomes, net = chunk(by_shard(["taken", *["stored"] * 7], 3), shards=3)  # type: ignore[list-item]
    assert outcomes == ["taken", *["undone" if own else "stored" for own in OWN[1:]]]
    assert len(net.waits) == 1


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [(QueueFull("full"), QueueFull, "part_full"), (ServerUnavailable("reset by peer"), OutcomeUnknown, "part_unknown")],
)
def test_where_a_part_failed_it_is_said_how_many_are_stored(
    failure: SequencerError, kind: type[SequencerError], code: str, replace: bool
) -> None:
    first, *others = by_shard(["stored"] * 8, 3).value
    failure.answers = [None, *others]
    with refused(kind, code, stored=8 - len(first), left=len(first), replaces=replace):
        chunk(*([by_shard(["stored"] * 8, 3)] if replace else []), failure, shards=3, replace=replace)


def test_where_no_part_is_stored_the_failure_is_said_as_it_is() -> None:
    full = QueueFull("full")
    full.answers = [None, *[[ItemOutcome("conflict", 0)] * len(part) for part in by_shard(["stored"] * 8, 3).value[1:]]]
    with pytest.raises(QueueFull) as caught:
        chunk(full, shards=3)
    assert caught.value is full
    looked = QueueFull("full")
    looked.answers = [None, *by_shard(["stored"] * 8, 3).value[1:]]
    with pytest.raises(QueueFull) as caught:
        chunk(looked, shards=3, replace=True)
    assert caught.value is looked, "a look stores nothing"


def test_what_only_the_chunk_itself_shows_is_found() -> None:
    """In a sequence a number under two ids, and an id with two numbers."""
    numbers = [Item("a", "x", "1.0", b"[1]"), Item("a", "y", "1.0", b"[1]"), Item("a", "x", "2.0", b"[1]")]
    found, _ = chunk(by_shard(["stored"] * 3, 1, numbers), items=numbers, replace=True, policy=Policy(sequence=True))
    assert found == ["undone", "taken", "taken"]


# -- how items are cut into chunks ---------------------------------------------------------------------------------


BOUND = 100
DRAWN = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2 * BOUND)) | st.none(), max_size=30)
"""Group and size of a body; None is an item that is refused."""


def chunks_of(patch: pytest.MonkeyPatch, items: list[Any], size: int, most_groups: int, shards: int = 1) -> list[Chunk]:
    patch.setattr(sequencer.queue.append_many, "CHUNK", size)
    patch.setattr(sequencer.queue.append_many, "CHUNK_GROUPS", most_groups)
    session: Any = ListedSession(ListedNet(), shards=shards)
    chunks, found = Chunks(session, items, None), list[Chunk]()
    while chunk := run(chunks.take()):
        found.append(chunk)
    return found


def bytes_of(items: list[Item]) -> int:
    return sum(len(item.envelope) + len(item.group) + len(item.id) for item in items)


@given(DRAWN, st.integers(1, 12), st.integers(1, 4))
def test_a_chunk_ends_with_the_message_that_reaches_a_bound(
    drawn: list[tuple[int, int] | None], size: int, most_groups: int
) -> None:
    items = [
        {"group": one[0], "body": "x" * one[1], "id": position} if one else {"body": 1, "group": []}
        for position, one in enumerate(drawn)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer.queue.append_many, "CHUNK_BYTES", BOUND)
        chunks = chunks_of(patch, items, size, most_groups)
    for chunk in chunks:
        assert chunk.items or chunk.errors
        assert bytes_of(chunk.items[:-1]) < BOUND
        assert len(chunk.items) + len(chunk.errors) <= size
        assert len({item.group for item in chunk.items}) <= most_groups
        assert [item.id for item in chunk.items] == [str(index) for index in chunk.indexes]
    sent = [index for chunk in chunks for index in chunk.indexes]
    assert sent == [position for position, one in enumerate(drawn) if one], "all of them, in their order"
    refused = [one.index for chunk in chunks for one in chunk.errors]
    assert refused == [position for position, one in enumerate(drawn) if not one]


@given(DRAWN)
def test_a_chunk_ends_only_where_a_bound_says_so(drawn: list[tuple[int, int] | None]) -> None:
    items = [{"group": one[0], "body": "x" * one[1], "id": 1} for one in drawn if one]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer.queue.append_many, "CHUNK_BYTES", BOUND)
        chunks = chunks_of(patch, items, 12, 12)
    for chunk in chunks[:-1]:
        assert bytes_of(chunk.items) >= BOUND or len(chunk.items) == 12


@pytest.mark.parametrize(("shards", "sizes"), [(1, [200, 200]), (3, [600, 600]), (16, [1000, 1000])])
def test_a_chunk_of_several_shards_is_as_much_larger(
    shards: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"group": n % 100, "body": n} for n in range(2000)]
    chunks = chunks_of(monkeypatch, items, sequencer.queue.append_many.CHUNK, 128, shards)
    assert [len(chunk.items) for chunk in chunks[:2]] == sizes


def test_a_chunk_that_is_sent_again_loses_none_that_was_made_meanwhile() -> None:
    session: Any = ListedSession(ListedNet())
    chunks, found = Chunks(session, [{"group": "g", "body": n, "id": n} for n in range(6)], 2), list[str]()
    while chunk := run(chunks.take()):
        found += [item.id for item in chunk.items]
        chunks.prepare()
        chunks.prepare()
    assert found == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("third", "kind"), [([], BatchRefused), (["g"], QueueFull)], ids=["an item is refused", "the server refuses"]
)
def test_the_error_of_a_chunk_says_what_became_of_the_earlier_ones(
    third: list[str], kind: type[SequencerError]
) -> None:
    session: Any = ListedSession(ListedNet([b"+" + b"1" * 16], [b"=" + b"0" * 16], QueueFull("full")))
    items = [{"group": group, "body": n, "id": n} for n, group in enumerate((["g"], ["g"], third))]
    with pytest.raises(kind) as caught:
        run(append_many(session, items, chunk=1))
    earlier: Any = caught.value.earlier
    assert (earlier.appended, earlier.duplicates) == (1, 1)
