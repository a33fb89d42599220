"""Sends checked messages: one, many in chunks, or one on a caller's pipeline; says what became of each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .. import calls
from ..errors import (
    BatchRefused,
    ConfigurationError,
    IdConflict,
    InvalidMessage,
    LateMessage,
    NotReplicated,
    NumberTaken,
    OutcomeUnknown,
    SequencerError,
    ServerUnavailable,
    shown,
)
from ..net.blocking import finish
from ..net.link import Link
from ..net.scripts import eval_command
from ..net.transport import in_utf8
from ..settings.options import QueueOptions
from ..store.group import decode_group
from ..store.item import Item, ItemMaker
from ..store.keys import LaneKeys
from ..values.message import BatchReceipt, Receipt, Refused
from .session import Session

CHUNK, CHUNK_GROUPS = 200, 128
"""Messages, or groups, a round trip in `append_many`: 1 to 2 ms of the server's time, in which it does nothing else.
Larger chunks gain nothing; a message of another group costs three times as much (benchmark `growth`: longest calls).
"""


class Appender:
    """The appending half of a Sequencer; what it raises is said there."""

    def __init__(self, session: Session, items: ItemMaker, options: QueueOptions) -> None:
        self._session, self.items = session, items
        replicas = options.wait_replicas
        self._wait = (replicas, round(options.wait_timeout_s * 1000)) if replicas else None

    def append(self, item: Item, *, replace: bool = False) -> Receipt:
        call = calls.append(self._session.keys_of_now(item.group), [item], on_conflict="replace" if replace else "none")
        with self._session.link() as link:
            try:
                [[mark]] = link.run((call,), wait=self._wait)
            except ServerUnavailable as error:
                _refuse_unknown(item.id, error, replaces=replace)
                raise
            if mark.outcome in calls.REFUSALS:
                raise _refusal(item, mark)
            self._check_replicas(link, item.id, [mark], replaces=replace)
        return Receipt(item.id, mark.stamp or None, mark.outcome == "duplicate", mark.outcome)

    def append_to(self, pipeline: Any, item: Item, *, replace: bool = False) -> Receipt:
        self._session._links.reconnect_if_closed()
        call = calls.append(
            self._session.keys_of_now(item.group), [item], on_conflict="error_replace" if replace else "error"
        )
        # The caller's client may have another encoding.
        pipeline.execute_command(*map(in_utf8, eval_command(call)))
        return Receipt(item.id, None, None)

    def append_many(
        self, items: Iterable[Any], on_refused: str, chunk: int | None, *, replace: bool = False
    ) -> BatchReceipt:
        if on_refused not in ("stop", "skip"):
            raise ConfigurationError(f"on_refused={shown(on_refused)} must be 'stop' or 'skip'")
        most = (CHUNK, CHUNK_GROUPS) if chunk is None else (chunk, chunk)
        if isinstance(chunk, bool) or not isinstance(most[0], int) or not 1 <= most[0] <= calls.MAX_APPEND:
            raise ConfigurationError(f"chunk={shown(chunk)} must be a whole number from 1 to {calls.MAX_APPEND}")
        counts: Counter[str] = Counter()
        refused: list[Refused] = []
        mode = "replace" if replace else on_refused
        ahead = _Ahead(self._chunks(items, *most), is_eager=isinstance(items, list | tuple))
        while (batch := ahead.take()) is not None:
            errors, marks = batch.errors, list[calls.Mark]()
            if batch.items and not (errors and on_refused == "stop"):
                marks = self._send_chunk(batch.items, mode, on_refused == "stop", ahead.look)
                if marks.count(marks[0]) == len(marks):
                    counts[marks[0].outcome] += len(marks)
                else:
                    counts.update(mark.outcome for mark in marks)
                if any(counts[outcome] for outcome in calls.REFUSALS):
                    errors += _refusals(batch, marks)
                    errors.sort(key=lambda one: one.index)
            if errors and on_refused == "stop":
                raise BatchRefused(errors, counts["stored"])
            refused += errors
        return BatchReceipt(counts["stored"], counts["duplicate"], refused, counts["dropped"], counts["dead_letter"])

    def _chunks(self, items: Iterable[Any], size: int, most_groups: int) -> Iterator[_Batch]:
        numbered, is_over = enumerate(items), False
        while not is_over:
            batch, groups, is_over = _Batch([], [], []), set[str](), True
            is_sequence = self._session.known_sequence()
            for index, value in itertools.islice(numbered, size):
                try:
                    if is_sequence is None:
                        self.items.make_of(value, is_sequence=False)  # what breaks a rule is said without a server
                        is_sequence = finish(self._session.is_sequence())
                    item = self.items.make_of(value, is_sequence=is_sequence)
                except InvalidMessage as error:
                    batch.errors.append(Refused(index, error))
                else:
                    batch.indexes.append(index)
                    batch.items.append(item)
                    groups.add(item.group)
                is_over = False
                if len(groups) == most_groups:
                    break
            if not is_over:
                yield batch

    def _send_chunk(self, items: list[Item], mode: str, stops: bool, meanwhile: Callable[[], None]) -> list[calls.Mark]:
        by_lane: dict[LaneKeys, list[int]] = {}
        if len(finish(self._session.lanes_to_append())) == 1:
            by_lane[self._session.keys_of_now(items[0].group)] = list(range(len(items)))
        else:
            for position, item in enumerate(items):
                by_lane.setdefault(self._session.keys_of_now(item.group), []).append(position)
        if mode == "skip":
            return self._send(items, by_lane, "others", meanwhile)
        if mode == "replace":
            # A script can't undo what it replaced: what would be refused is looked for first.
            marks = self._send(items, by_lane, "replace", dry_run=True) if stops else []
            _mark_numbers_within(items, marks if finish(self._session.is_sequence()) else [])
            if any(mark.outcome in calls.REFUSALS for mark in marks):
                return [_undone(mark) for mark in marks]
            return self._send(items, by_lane, "replace", meanwhile)
        if len(by_lane) > 1:
            # A script undoes its own lane only: what would be a conflict is looked for in all of them first.
            marks = self._send(items, by_lane, "none", dry_run=True)
            _mark_conflicts_within(items, marks)
            _mark_numbers_within(items, marks if finish(self._session.is_sequence()) else [])
            if any(mark.outcome in calls.REFUSALS for mark in marks):
                return [_undone(mark) for mark in marks]
        return self._send(items, by_lane, "none", meanwhile)

    def _send(
        self,
        items: list[Item],
        by_lane: dict[LaneKeys, list[int]],
        mode: calls.OnConflict,
        meanwhile: Callable[[], None] | None = None,
        *,
        dry_run: bool = False,
    ) -> list[calls.Mark]:
        parts = [items] if len(by_lane) == 1 else [[items[p] for p in places] for places in by_lane.values()]
        todo = [
            calls.append(keys, part, on_conflict=mode, dry_run=dry_run, with_stamps=False)
            for keys, part in zip(by_lane, parts, strict=True)
        ]
        what = f"{items[0].id} to {items[-1].id}"
        with self._session.link() as link:
            try:
                wait = None if dry_run else self._wait
                results = link.run(todo, is_atomic=True, wait=wait, meanwhile=meanwhile)
            except ServerUnavailable as error:
                _refuse_unknown(what, error, replaces=mode == "replace")
                raise
            marks = _in_order(by_lane, results, undoes=mode == "none" and not dry_run)
            if not dry_run:
                self._check_replicas(link, what, marks, replaces=mode == "replace")
        return marks

    def _check_replicas(self, link: Link, what: str, marks: list[calls.Mark], *, replaces: bool) -> None:
        """Of what is stored now. A batch that was refused is said by its caller: nothing of it waits for replicas."""
        if not self._wait or link.confirmed >= self._wait[0]:
            return
        if any(mark.outcome in ("stored", "duplicate", "dead_letter") for mark in marks):
            wanted, within = self._wait
            advice = (
                "see get() before you repeat it: once it was handled, that adds it again"
                if replaces
                else "append it again with the same id: that adds nothing, and waits again"
            )
            raise NotReplicated(
                f"message {what!r} is stored, but {link.confirmed} of {wanted} replicas confirmed it in {within} ms; "
                f"{advice}",
                what,
            )


class _Batch(NamedTuple):
    """The messages of one chunk and their positions among all, and what could not become one."""

    items: list[Item]
    indexes: list[int]
    errors: list[Refused]


class _Ahead:
    """Chunks one by one; the next one is made while the server works on the one before, if `is_eager`.

    Only for what can be read again: from an iterator nothing is taken that may then not be sent.
    """

    def __init__(self, chunks: Iterator[_Batch], *, is_eager: bool) -> None:
        self._chunks, self._is_eager = chunks, is_eager
        self._found: list[_Batch | None] = []
        self._error: Exception | None = None

    def look(self) -> None:
        """Make the next chunk; an error of it is raised when it is taken."""
        if self._is_eager and not self._found:
            try:
                self._found.append(next(self._chunks, None))
            except Exception as error:
                self._error = error

    def take(self) -> _Batch | None:
        if self._error:
            raise self._error
        return self._found.pop() if self._found else next(self._chunks, None)


def _refusals(batch: _Batch, marks: list[calls.Mark]) -> list[Refused]:
    found = zip(batch.indexes, batch.items, marks, strict=True)
    return [Refused(index, _refusal(item, mark)) for index, item, mark in found if mark.outcome in calls.REFUSALS]


def _in_order(by_lane: dict[LaneKeys, list[int]], results: list[Any], *, undoes: bool) -> list[calls.Mark]:
    """The marks of all lanes, by the position of their message; "undone" where a refusal undid its lane."""
    if len(results) == 1 and not any(mark.outcome in calls.REFUSALS for mark in set(results[0])):
        only: list[calls.Mark] = results[0]
        return only
    marks: dict[int, calls.Mark] = {}
    for places, result in zip(by_lane.values(), results, strict=True):
        is_undone = undoes and any(mark.outcome in calls.REFUSALS for mark in result)
        for position, mark in zip(places, result, strict=True):
            marks[position] = _undone(mark) if is_undone else mark
    return [marks[position] for position in range(len(marks))]


def _undone(mark: calls.Mark) -> calls.Mark:
    """What a mark means where nothing was stored in the end."""
    return mark._replace(outcome="undone") if mark.outcome in ("stored", "dropped", "dead_letter") else mark


def _refusal(item: Item, mark: calls.Mark) -> SequencerError:
    """The error of a message that was not stored because of itself: its mark is one of REFUSALS."""
    if mark.outcome == "conflict":
        return IdConflict(item.id, decode_group(item.group))
    if mark.outcome == "taken":
        return NumberTaken(item.id, decode_group(item.group), item.score)
    return LateMessage(item.id, decode_group(item.group), item.score)


def _mark_conflicts_within(items: list[Item], marks: list[calls.Mark]) -> None:
    """An id that stands twice in one chunk with other content is a conflict that no look at the server shows."""
    known: dict[tuple[str, str], Item] = {}
    for position, item in enumerate(items):
        first = known.setdefault((item.group, item.id), item)
        if first.envelope != item.envelope or (item.score and item.score != first.score):
            marks[position] = marks[position]._replace(outcome="conflict")


def _mark_numbers_within(items: list[Item], marks: list[calls.Mark]) -> None:
    """So is, in a sequence, a number under two ids, or an id with two numbers. Without marks there is nothing to do."""
    ids: dict[tuple[str, str], str] = {}
    numbers: dict[tuple[str, str], str] = {}
    for position, item in enumerate(items if marks else ()):
        is_taken = ids.setdefault((item.group, item.score), item.id) != item.id
        if is_taken or numbers.setdefault((item.group, item.id), item.score) != item.score:
            marks[position] = marks[position]._replace(outcome="taken")


def _refuse_unknown(what: str, error: ServerUnavailable, *, replaces: bool) -> None:
    """Raises OutcomeUnknown: a connection lost after sending means that nobody knows, another error than "not sent"."""
    if error.maybe_sent:
        advice = (
            "see get() before you repeat it"
            if replaces
            else "append it again with the same id: that adds nothing if it was"
        )
        raise OutcomeUnknown(f"it is unknown whether message {what!r} was stored ({error}); {advice}", what) from error
