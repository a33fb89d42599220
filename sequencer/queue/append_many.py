"""Many messages more, in chunks: one round trip for each, in which each shard stores its part as a whole."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn

from .. import calls
from ..errors import BatchRefused, InvalidMessage, OutcomeUnknown, QueueFull, SequencerError, ServerUnavailable
from ..store.group import shard_of
from ..store.item import Item
from ..store.keys import ShardKeys
from ..values.checks import check_choice, check_integer
from ..values.message import BatchReceipt, Refused
from .append import check_replicas, refusal, refuse_unknown
from .session import Session

CHUNK, CHUNK_GROUPS = 200, 128
"""Messages, or groups, of one shard a round trip in `append_many`: 1 to 2 ms of the server's time, in which it does
nothing else. Larger parts gain nothing; a message of another group costs three times as much (benchmark `growth`:
longest calls). A queue of several shards has chunks of as many for each, at most 1,000 in all.
"""
STORED = ("stored", "duplicate", "dropped", "dead_letter")
"""Outcomes of a message that need not be appended again."""
CHUNK_BYTES = 1024 * 1024
"""Bodies, headers, groups and ids that end a chunk; 115 MB in one script kept the server busy for 570 ms."""


async def append_many(
    session: Session,
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    on_refused: Literal["stop", "skip"] = "stop",
    chunk: int | None = None,
    replace: bool = False,
) -> BatchReceipt:
    """Add any number of messages, streamed: one round trip for each `chunk`, of which each shard stores its part as a
    whole.

    A chunk is this many messages, 1 to 1,000; without a number 200 a shard, or fewer where they are of more than 128
    groups a shard. With a number or without, it ends with the message with which it has 1 MiB of groups, ids, bodies
    and headers.

    An item is a mapping with the arguments of `append`: `body`, `group`, and as needed `id`, `score`, `headers`,
    `delay`, `at`, `done`; any other item is a body, when the queue has `group_by`. With
    on_refused="stop", a chunk ends with an item that can't be stored: its shard stores nothing of the chunk, and
    BatchRefused says which and why, and how many messages were stored. An item that breaks a rule is found before
    anything of its chunk is sent. With "skip" the others are stored and the receipt lists the refused. Of a list or
    tuple the next chunk is checked while the server stores one; from an iterator no more is taken than is sent. Only
    AsyncSequencer takes an async iterable.

    Raises BatchRefused, OutcomeUnknown, QueueFull, ServerUnavailable; repeating is harmless where items have ids.
    `earlier` of any of them is the receipt of the chunks before the one that failed. Where some shards stored their
    part and others did not, OutcomeUnknown and QueueFull have `stored` and `left` in their fields.
    """
    check_choice("on_refused", on_refused, ("stop", "skip"))
    if chunk is not None:
        check_integer("chunk", chunk, 1, calls.MAX_APPEND)
    stops, counts, refused = on_refused == "stop", Counter[str](), list[Refused]()
    chunks = Chunks(session, items, chunk)

    def receipt() -> BatchReceipt:
        return BatchReceipt(counts["stored"], counts["duplicate"], refused, counts["dropped"], counts["dead_letter"])

    try:
        while True:
            if session.known_sequence() is None:
                await _first_use(session, chunks)
            if (one := await chunks.take()) is None:
                return receipt()
            outcomes = list[calls.ItemOutcome]()
            if one.items and not (one.errors and stops):
                outcomes = await append_chunk(session, one.items, on_refused, replace=replace, meanwhile=chunks.prepare)
            errors = one.errors + _refusals(one, outcomes)
            errors.sort(key=lambda error: error.index)
            if errors and stops:
                by_other_shards = sum(done.outcome == "stored" for done in outcomes)
                raise BatchRefused(refused=errors, stored=counts["stored"] + by_other_shards)
            counts.update(one.outcome for one in outcomes)
            refused += errors
    except SequencerError as error:
        error.earlier = error.earlier or receipt()
        raise


def _refusals(chunk: Chunk, outcomes: list[calls.ItemOutcome]) -> list[Refused]:
    found = zip(chunk.indexes, chunk.items, outcomes, strict=False)  # a chunk that was not sent has no outcomes
    return [Refused(index, refusal(item, one)) for index, item, one in found if one.outcome in calls.REFUSALS]


async def _first_use(session: Session, chunks: Chunks) -> None:
    while len(chunks.refused) < chunks.size and (taken := await chunks.next()):
        try:
            await session.check_first(session.items.check_of, session.items.make_of, taken[1])
        except InvalidMessage as error:
            chunks.refused.append(Refused(taken[0], error))
        else:
            await session.shards("append")
            chunks.taken = taken
            return


# -- chunks -----------------------------------------------------------------------------------------------------


class Chunk:
    """The messages of one chunk and their positions among all, and what could not become one."""

    def __init__(self, session: Session, refused: list[Refused], size: int, most_groups: int) -> None:
        self.items, self.indexes, self.errors = list[Item](), list[int](), refused
        self.left = size - len(refused)
        """How many items it still takes."""
        self._make_of, self._is_sequence = session.items.make_of, session.known_sequence()
        self._groups, self._most_groups, self._bytes = set[str](), most_groups, 0

    def add(self, index: int, value: Any) -> None:
        self.left -= 1
        try:
            item = self._make_of(value, is_sequence=self._is_sequence)
        except InvalidMessage as error:
            self.errors.append(Refused(index, error))
            return
        group, message_id, _, envelope, _, ledger = item
        self.indexes.append(index)
        self.items.append(item)
        self._groups.add(group)
        self._bytes += len(envelope) + len(ledger) + len(group) + len(message_id)
        if len(self._groups) == self._most_groups or self._bytes >= CHUNK_BYTES:
            self.left = 0


class Chunks:
    """Chunks one by one; of a list or tuple, of which nothing is lost by that, the next one may be made ahead."""

    def __init__(self, session: Session, items: Iterable[Any] | AsyncIterable[Any], chunk: int | None) -> None:
        self._session, self._is_eager = session, isinstance(items, list | tuple)
        self._chunk = chunk
        numbers = itertools.count()
        self._values: Iterator[tuple[int, Any]] | AsyncIterator[tuple[int, Any]] = (
            enumerate(items) if isinstance(items, Iterable) else ((next(numbers), item) async for item in items)
        )
        self.refused: list[Refused] = []
        self.taken: tuple[int, Any] | None = None
        """Both before the queue was used for the first time."""
        self._ahead: Chunk | None = None
        self._error: Exception | None = None

    @property
    def size(self) -> int:
        """How many items a chunk takes."""
        return self._most(CHUNK)

    def _most(self, of_shard: int) -> int:
        return self._chunk or min(calls.MAX_APPEND, of_shard * len(self._session.known_shards() or "1"))

    async def take(self) -> Chunk | None:
        if self._error:
            raise self._error
        one, self._ahead = self._ahead, None
        if one is None and isinstance(self._values, Iterator):
            one = self._make(self._values)
        elif one is None:
            one = self._new()
            while one.left and (taken := await self.next()):
                one.add(*taken)
        return one if one.items or one.errors else None

    async def next(self) -> tuple[int, Any] | None:
        """The next item, and its position."""
        return next(self._values, None) if isinstance(self._values, Iterator) else await anext(self._values, None)

    def prepare(self) -> None:
        """Make the next chunk; an error of it is raised when it is taken."""
        if self._is_eager and self._ahead is None and isinstance(self._values, Iterator):
            try:
                self._ahead = self._make(self._values)
            except Exception as error:
                self._error = error

    def _new(self) -> Chunk:
        one = Chunk(self._session, self.refused, self.size, self._most(CHUNK_GROUPS))
        self.refused = []
        if self.taken:
            one.add(*self.taken)
            self.taken = None
        return one

    def _make(self, values: Iterator[tuple[int, Any]]) -> Chunk:
        one = self._new()
        while one.left and (taken := next(values, None)):
            one.add(*taken)
        return one


# -- what a chunk stores ----------------------------------------------------------------------------------------


async def append_chunk(
    session: Session, items: list[Item], on_refused: str, *, replace: bool, meanwhile: Callable[[], None] | None = None
) -> list[calls.ItemOutcome]:
    """Add up to 1,000 checked messages; with "stop" all of a shard or none. `meanwhile` is called once sent."""
    shards, by_shard = await session.shards("append"), dict[ShardKeys, list[int]]()
    for position, item in enumerate(items):
        by_shard.setdefault(shards[shard_of(item.group, len(shards))], []).append(position)
    mode: calls.OnConflict = "replace" if replace else "none" if on_refused == "stop" else "others"
    # A script can't undo what it replaced: what would be refused is looked for first.
    if on_refused == "stop" and replace:
        outcomes = await _send(session, items, by_shard, mode, dry_run=True)
        if (await session.policy()).sequence:
            _mark_taken(items, outcomes)
        if any(one.outcome in calls.REFUSALS for one in outcomes):
            return [_undone(one) for one in outcomes]
    return await _send(session, items, by_shard, mode, meanwhile)


async def _send(
    session: Session,
    items: list[Item],
    by_shard: dict[ShardKeys, list[int]],
    mode: calls.OnConflict,
    meanwhile: Callable[[], None] | None = None,
    *,
    dry_run: bool = False,
) -> list[calls.ItemOutcome]:
    todo = [
        calls.append(keys, [items[at] for at in places], on_conflict=mode, dry_run=dry_run, with_stamps=False)
        for keys, places in by_shard.items()
    ]
    what, wait = f"{items[0].id} to {items[-1].id}", None if dry_run else session.options.wait
    parts: Sequence[list[calls.ItemOutcome] | None]
    confirmed, failure = 0, None
    try:
        parts, _, confirmed = await session.net.ask_all(todo, wait=wait, meanwhile=meanwhile)
    except SequencerError as error:
        parts, failure = error.answers, error
    by_position = dict[int, calls.ItemOutcome]()
    for places, found in zip(by_shard.values(), parts, strict=False):
        if found is not None:
            is_undone = mode == "none" and any(one.outcome in calls.REFUSALS for one in set(found))
            by_position.update(zip(places, map(_undone, found) if is_undone else found, strict=True))
    if failure:
        stored = 0 if dry_run else sum(one.outcome in STORED for one in by_position.values())
        _refuse_part(what, failure, stored, len(items) - len(by_position), replaces=mode == "replace")
    outcomes = [by_position[position] for position in range(len(items))]
    check_replicas(what, outcomes, confirmed, wait, replaces=mode == "replace")
    return outcomes


def _refuse_part(what: str, failure: SequencerError, stored: int, left: int, *, replaces: bool) -> NoReturn:
    """Raises what says of a chunk that some shards, or none, stored their part, and others did not."""
    about = {"stored": stored, "left": left, "error": str(failure), "replaces": replaces}
    if stored and left and isinstance(failure, QueueFull):
        raise QueueFull("part_full", **about) from failure
    if stored and left:
        raise OutcomeUnknown("part_unknown", **about) from failure
    if isinstance(failure, ServerUnavailable):
        refuse_unknown(what, failure, replaces=replaces)
    raise failure


def _undone(one: calls.ItemOutcome) -> calls.ItemOutcome:
    """What an outcome means where nothing was stored in the end."""
    return one._replace(outcome="undone") if one.outcome in ("stored", "dropped", "dead_letter") else one


def _mark_taken(items: list[Item], outcomes: list[calls.ItemOutcome]) -> None:
    """In a sequence, a number under two ids, or an id with two numbers: no look at the server shows that."""
    ids, numbers = dict[tuple[str, str], str](), dict[tuple[str, str], str]()
    for position, item in enumerate(items):
        is_taken = ids.setdefault((item.group, item.score), item.id) != item.id
        if is_taken or numbers.setdefault((item.group, item.id), item.score) != item.score:
            outcomes[position] = outcomes[position]._replace(outcome="taken")
