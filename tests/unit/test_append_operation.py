"""Appending as operations: over a net that answers from a list; and that the flat path of one message is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from sequencer.calls.append import ItemOutcome, Outcome
from sequencer.calls.net_protocol import Answer
from sequencer.errors import (
    BatchRefused,
    DataError,
    IdConflict,
    NotReplicated,
    NumberTaken,
    OutcomeUnknown,
    QueueFull,
    ServerUnavailable,
)
from sequencer.net.appender import Appender
from sequencer.queue.append import append
from sequencer.queue.append_many import Chunk, Tally, append_chunk, append_many
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.values.message import Receipt, Refused

from ..support.listed_net import ListedNet, ListedSession, run

STAMP = b"1700000000000042"
ITEM = Item("g", "x", "1.0", b"[1]")


def lost(*, maybe_sent: bool) -> ServerUnavailable:
    error = ServerUnavailable("reset by peer")
    error.maybe_sent = maybe_sent
    return error


def marks(*outcomes: Any) -> list[ItemOutcome]:
    return [ItemOutcome(outcome, 0) for outcome in outcomes]


# -- one message, by both ways ----------------------------------------------------------------------------------


class Links:
    """A blocking net of which the flat path asks one link; it answers from the same list."""

    def __init__(self, net: ListedNet) -> None:
        self._net = net
        self.confirmed = 0

    @contextmanager
    def link(self) -> Iterator[Links]:
        yield self

    def run(self, calls: Any, *, wait: Any = None) -> list[Any]:
        (call,) = calls
        answer = run(self._net.ask(call, wait=wait))
        self.confirmed = answer.confirmed
        return [answer.value]


def outcome_of(way: Callable[[], Any]) -> Any:
    """The receipt, or all that an error says."""
    try:
        return way()
    except Exception as error:
        return type(error), str(error), vars(error), type(error.__cause__)


def _by_operation(session: Any, replace: bool) -> Receipt:
    return run(append(session, ITEM, replace=replace))


def by_both_ways(answer: Any, *, shards: int, replace: bool, **options: Any) -> tuple[Any, Any]:
    found = []
    for way in ("flat", "operation"):
        net = ListedNet(answer)
        session: Any = ListedSession(net, shards=shards, **options)
        links: Any = Links(net)
        flat = Appender(session, links)
        ways: dict[str, Callable[[], Any]] = {
            "flat": partial(flat.append, ITEM, replace=replace),
            "operation": partial(_by_operation, session, replace),
        }
        found.append((outcome_of(ways[way]), net.asked, net.waits))
    return found[0], found[1]


WAITING: dict[str, Any] = {"wait_replicas": 2, "wait_timeout": 0.5}
EVERY: list[tuple[str, Any]] = [
    *((f"mark {sign}", f"{sign}".encode() + STAMP) for sign in "+=!#<~x"),
    ("handled", b"=" + b"0" * 16),
    ("unsent", lost(maybe_sent=False)),
    ("maybe sent", lost(maybe_sent=True)),
    ("full", QueueFull("full")),
    ("foreign", DataError("wrong type")),
    *(
        (f"{count} replicas, {outcome}", Answer(marks(outcome), False, count))
        for count in (0, 1, 2)
        for outcome in ("stored", "duplicate", "dropped", "dead_letter", "conflict")
    ),
]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("options", [{}, WAITING], ids=["", "waiting"])
@pytest.mark.parametrize(("what", "answer"), EVERY, ids=[name for name, _ in EVERY])
def test_the_flat_path_of_one_message_is_the_same_as_the_operation(
    what: str, answer: Any, options: Any, shards: int, replace: bool
) -> None:
    flat, operation = by_both_ways(answer, shards=shards, replace=replace, **options)
    assert flat == operation
    assert flat[2] == ([(2, 500)] if options else [None])


def one(answer: Any, *, replace: bool = False, **options: Any) -> Receipt:
    session: Any = ListedSession(ListedNet(answer), **options)
    return run(append(session, ITEM, replace=replace))


def test_what_became_of_one_message() -> None:
    assert one(b"+" + STAMP) == Receipt("x", int(STAMP), False, "stored")
    assert one(b"=" + b"0" * 16) == Receipt("x", None, True, "duplicate")
    assert one(b"~" + STAMP).outcome == "dropped"
    for sign, error in ((b"!", IdConflict), (b"#", NumberTaken)):
        with pytest.raises(error):
            one(sign + STAMP)
    with pytest.raises(ServerUnavailable, match="reset by peer"):
        one(lost(maybe_sent=False))
    with pytest.raises(OutcomeUnknown, match="append it again with the same id"):
        one(lost(maybe_sent=True))
    with pytest.raises(OutcomeUnknown, match="see get"):
        one(lost(maybe_sent=True), replace=True)
    with pytest.raises(NotReplicated, match="1 of 2 replicas confirmed it in 500 ms"):
        one(Answer(marks("stored"), False, 1), **WAITING)


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


def test_a_chunk_of_one_shard_is_one_round_trip_and_the_next_is_made_meanwhile() -> None:
    said: list[str] = []
    outcomes, net = chunk(by_shard(["stored"] * 8, 1), meanwhile=lambda: said.append("meanwhile"))
    assert (outcomes, len(net.asked), said) == (["stored"] * 8, 1, ["meanwhile"])


def test_several_shards_are_looked_at_first_and_only_the_storing_waits_and_overlaps() -> None:
    said: list[str] = []
    stored = Answer(by_shard(["stored"] * 8, 3).value, False, 2)
    outcomes, net = chunk(
        by_shard(["stored"] * 8, 3), stored, shards=3, meanwhile=lambda: said.append("meanwhile"), given=WAITING
    )
    assert outcomes == ["stored"] * 8
    assert (net.waits, said, net.atomic) == ([None, (2, 500)], ["meanwhile"], [True, True])


@pytest.mark.parametrize(("shards", "replace"), [(3, False), (1, True), (3, True)])
def test_a_message_that_would_be_refused_leaves_all_shards_as_they_are(shards: int, replace: bool) -> None:
    seen: list[Outcome] = ["stored", "duplicate", "conflict", "dropped", *["stored"] * 4]  # type: ignore[list-item]
    outcomes, _ = chunk(by_shard(seen, shards), shards=shards, replace=replace)
    assert outcomes == ["undone", "duplicate", "conflict", "undone", *["undone"] * 4]


def test_one_shard_undoes_itself() -> None:
    assert chunk(by_shard(["stored", "taken"], 1, ITEMS[:2]), items=ITEMS[:2])[0] == ["undone", "taken"]


@pytest.mark.parametrize("replace", [False, True])
def test_with_skip_the_others_are_stored_at_once(replace: bool) -> None:
    seen: list[Outcome] = ["stored", "conflict", *["stored"] * 6]  # type: ignore[list-item]
    outcomes, net = chunk(by_shard(seen, 3), shards=3, on_refused="skip", replace=replace)
    assert outcomes == seen
    assert {words[1] for words in net.asked} == {"replace" if replace else "others"}


def test_what_only_the_chunk_itself_shows_is_found() -> None:
    """An id with two contents; in a sequence a number under two ids, and an id with two numbers."""
    twice = [Item("a", "x", "1.0", b"[1]"), Item("b", "y", "1.0", b"[1]"), Item("a", "x", "1.0", b"[2]")]
    assert chunk(by_shard(["stored"] * 3, 3, twice), items=twice, shards=3)[0][2] == "conflict"
    numbers = [Item("a", "x", "1.0", b"[1]"), Item("a", "y", "1.0", b"[1]"), Item("a", "x", "2.0", b"[1]")]
    found, _ = chunk(by_shard(["stored"] * 3, 1, numbers), items=numbers, replace=True, policy=Policy(sequence=True))
    assert found == ["undone", "taken", "taken"]


def test_a_chunk_that_is_not_answered_is_told_by_its_first_and_last_id() -> None:
    with pytest.raises(OutcomeUnknown, match="'m0 to m7'"):
        chunk(lost(maybe_sent=True))
    with pytest.raises(NotReplicated, match="0 of 2 replicas"):
        chunk(Answer([marks(*["stored"] * 8)], False, 0), given=WAITING)
    assert chunk(Answer([marks("conflict", *["stored"] * 7)], False, 0), given=WAITING)[0][0] == "conflict"


def test_the_tally_stops_at_what_was_refused_or_lists_it() -> None:
    refused = Refused(1, IdConflict("no"))

    def two(errors: list[Refused]) -> Chunk:
        return Chunk(ITEMS[:2], [0, 2], errors)

    skips = Tally("skip")
    assert skips.sends(two([refused]))
    assert not skips.sends(Chunk([], [], [refused]))
    skips.add(two([refused]), marks("stored", "conflict"))
    skips.add(two([]), marks("dropped", "dead_letter"))
    receipt = skips.receipt()
    assert (receipt.appended, receipt.dropped, receipt.dead, [one.index for one in receipt.refused]) == (
        1,
        1,
        1,
        [1, 2],
    )
    stops = Tally("stop")
    stops.add(two([]), marks("stored", "duplicate"))
    assert not stops.sends(two([refused]))
    with pytest.raises(BatchRefused) as stopped:
        stops.add(two([refused]), [])
    assert stopped.value.stored == 1


def test_an_empty_list_asks_nothing() -> None:
    net = ListedNet()
    session: Any = ListedSession(net)
    assert run(append_many(session, [])).appended == 0
    assert net.asked == []
