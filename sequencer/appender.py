"""Sends checked messages: one, many in chunks, or one on a caller's pipeline; says what became of each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from . import calls
from .errors import (
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
from .items import ItemMaker
from .keys import LaneKeys, decode_group
from .message import BatchReceipt, Receipt, Refused
from .options import QueueOptions
from .place import Place
from .scripts import Link, eval_command

CHUNK = 500
"""Messages a round trip in `append_many`: about 3 ms of the server's time."""


class Appender:
    """The appending half of a Sequencer; what it raises is said there."""

    def __init__(self, place: Place, items: ItemMaker, options: QueueOptions) -> None:
        self._place, self._items = place, items
        replicas = options.wait_replicas
        self._wait = (replicas, round(options.wait_timeout_s * 1000)) if replicas else None

    def append(self, item: calls.Item, *, replace: bool = False) -> Receipt:
        call = calls.append(self._place.keys_of(item.group), [item], on_conflict="replace" if replace else "none")
        with self._place.link() as link:
            mark = _known(item.id, lambda: link.run((call,), wait=self._wait)[0], replaces=replace)[0]
            if error := _refusal(item, mark):
                raise error
            self._check_replicas(link, item.id, [mark], replaces=replace)
        return Receipt(item.id, mark.stamp or None, mark.outcome == "duplicate", mark.outcome)

    def append_to(self, pipeline: Any, item: calls.Item, *, replace: bool = False) -> Receipt:
        call = calls.append(
            self._place.keys_of(item.group), [item], on_conflict="error_replace" if replace else "error"
        )
        pipeline.execute_command(*eval_command(call))
        return Receipt(item.id, None, None)

    def append_many(self, items: Iterable[Any], on_refused: str, chunk: int, *, replace: bool = False) -> BatchReceipt:
        if on_refused not in ("stop", "skip"):
            raise ConfigurationError(f"on_refused={shown(on_refused)} must be 'stop' or 'skip'")
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= calls.MAX_APPEND:
            raise ConfigurationError(f"chunk={shown(chunk)} must be a whole number from 1 to {calls.MAX_APPEND}")
        counts: Counter[str] = Counter()
        refused: list[Refused] = []
        numbered = enumerate(items)
        while some := list(itertools.islice(numbered, chunk)):
            marks, errors = self._append_chunk(some, "replace" if replace else on_refused, on_refused == "stop")
            counts.update(mark.outcome for mark in marks)
            if errors and on_refused == "stop":
                raise BatchRefused(errors, counts["stored"])
            refused += errors
        return BatchReceipt(counts["stored"], counts["duplicate"], refused, counts["dropped"], counts["dead_letter"])

    def _append_chunk(
        self, some: list[tuple[int, Any]], mode: str, stops: bool
    ) -> tuple[list[calls.Mark], list[Refused]]:
        errors: list[Refused] = []
        ready: list[tuple[int, calls.Item]] = []
        for index, value in some:
            try:
                ready.append((index, self._items.make_of(value)))
            except InvalidMessage as error:
                errors.append(Refused(index, error))
        marks: list[calls.Mark] = []
        if ready and not (errors and stops):
            marks = self._send_chunk([item for _, item in ready], mode, stops)
            for (index, item), mark in zip(ready, marks, strict=True):
                if refusal := _refusal(item, mark):
                    errors.append(Refused(index, refusal))
        return marks, sorted(errors, key=lambda refused: refused.index)

    def _send_chunk(self, items: list[calls.Item], mode: str, stops: bool) -> list[calls.Mark]:
        by_lane: dict[LaneKeys, list[int]] = {}
        for position, item in enumerate(items):
            by_lane.setdefault(self._place.keys_of(item.group), []).append(position)
        if mode == "skip":
            return self._send(items, by_lane, "others")
        if mode == "replace":
            # A script can't undo what it replaced: what would be refused is looked for first.
            marks = self._send(items, by_lane, "check_replace") if stops else []
            _mark_numbers_within(items, marks if self._place.is_sequence() else [])
            if any(mark.outcome in calls.REFUSALS for mark in marks):
                return [_undone(mark) for mark in marks]
            return self._send(items, by_lane, "replace")
        if len(by_lane) > 1:
            # A script undoes its own lane only: what would be a conflict is looked for in all of them first.
            marks = self._send(items, by_lane, "check")
            _mark_conflicts_within(items, marks)
            _mark_numbers_within(items, marks if self._place.is_sequence() else [])
            if any(mark.outcome in calls.REFUSALS for mark in marks):
                return [_undone(mark) for mark in marks]
        return self._send(items, by_lane, "none")

    def _send(
        self,
        items: list[calls.Item],
        by_lane: dict[LaneKeys, list[int]],
        mode: calls.OnConflict,
    ) -> list[calls.Mark]:
        todo = [calls.append(keys, [items[p] for p in places], on_conflict=mode) for keys, places in by_lane.items()]
        with self._place.link() as link:
            results = _known(
                f"{items[0].id} to {items[-1].id}",
                lambda: link.run(todo, is_atomic=True, wait=None if mode.startswith("check") else self._wait),
                replaces=mode == "replace",
            )
            marks = _in_order(by_lane, results, mode)
            if not mode.startswith("check"):
                self._check_replicas(link, f"{items[0].id} to {items[-1].id}", marks, replaces=mode == "replace")
        return marks

    def _check_replicas(self, link: Link, what: str, marks: list[calls.Mark], *, replaces: bool) -> None:
        """Of what is stored now. A batch that was refused is said by its caller: nothing of it waits for replicas."""
        is_stored = any(mark.outcome in ("stored", "duplicate", "dead_letter") for mark in marks)
        if self._wait and is_stored and link.confirmed < self._wait[0]:
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


def _in_order(by_lane: dict[LaneKeys, list[int]], results: list[Any], mode: calls.OnConflict) -> list[calls.Mark]:
    """The marks of all lanes, by the position of their message; "undone" where a refusal undid its lane."""
    marks: dict[int, calls.Mark] = {}
    for places, result in zip(by_lane.values(), results, strict=True):
        is_undone = mode == "none" and any(mark.outcome in calls.REFUSALS for mark in result)
        for position, mark in zip(places, result, strict=True):
            marks[position] = _undone(mark) if is_undone else mark
    return [marks[position] for position in range(len(marks))]


def _undone(mark: calls.Mark) -> calls.Mark:
    """What a mark means where nothing was stored in the end."""
    return mark._replace(outcome="undone") if mark.outcome in ("stored", "dropped", "dead_letter") else mark


def _refusal(item: calls.Item, mark: calls.Mark) -> SequencerError | None:
    """The error of a message that was not stored because of itself."""
    if mark.outcome == "conflict":
        return IdConflict(item.id, decode_group(item.group))
    if mark.outcome == "taken":
        return NumberTaken(item.id, decode_group(item.group), item.score)
    if mark.outcome == "refused":
        return LateMessage(item.id, decode_group(item.group), item.score)
    return None


def _mark_conflicts_within(items: list[calls.Item], marks: list[calls.Mark]) -> None:
    """An id that stands twice in one chunk with other content is a conflict that no look at the server shows."""
    known: dict[tuple[str, str], calls.Item] = {}
    for position, item in enumerate(items):
        first = known.setdefault((item.group, item.id), item)
        if first.envelope != item.envelope or (item.score and item.score != first.score):
            marks[position] = marks[position]._replace(outcome="conflict")


def _mark_numbers_within(items: list[calls.Item], marks: list[calls.Mark]) -> None:
    """So is, in a sequence, a number under two ids, or an id with two numbers. Without marks there is nothing to do."""
    ids: dict[tuple[str, str], str] = {}
    numbers: dict[tuple[str, str], str] = {}
    for position, item in enumerate(items if marks else ()):
        is_taken = ids.setdefault((item.group, item.score), item.id) != item.id
        if is_taken or numbers.setdefault((item.group, item.id), item.score) != item.score:
            marks[position] = marks[position]._replace(outcome="taken")


def _known(what: str, run: Callable[[], Any], *, replaces: bool = False) -> Any:
    """Run an append; a connection lost after sending means that nobody knows, another error than "not sent"."""
    try:
        return run()
    except ServerUnavailable as error:
        if not error.maybe_sent:
            raise
        advice = (
            "see get() before you repeat it"
            if replaces
            else "append it again with the same id: that adds nothing if it was"
        )
        raise OutcomeUnknown(f"it is unknown whether message {what!r} was stored ({error}); {advice}", what) from error
