"""What an append sends, and what became of it: one message, or a chunk of many over all shards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from .. import calls
from ..calls.call import Call
from ..errors import (
    BatchRefused,
    EffectsSaved,
    IdConflict,
    LateMessage,
    NotReplicated,
    NumberTaken,
    OutcomeUnknown,
    SequencerError,
    ServerUnavailable,
)
from ..settings.options import Replicas
from ..store.group import decode_group
from ..store.item import Item
from ..store.keys import ShardKeys, shard_of
from ..store.replies import text
from ..texts.commands import command
from ..texts.words import many, named
from ..values.message import BatchReceipt, Receipt, Refused
from .session import Session

CHUNK, CHUNK_GROUPS = 200, 128
"""Messages, or groups, a round trip in `append_many`: 1 to 2 ms of the server's time, in which it does nothing else.
Larger chunks gain nothing; a message of another group costs three times as much (benchmark `growth`: longest calls).
"""
CHUNK_BYTES = 1024 * 1024
"""Bodies, headers, groups and ids of a chunk, whatever its number of messages, unless it is one message. 115 MB in one
script kept the server busy for 570 ms.
"""


# -- one message ------------------------------------------------------------------------------------------------


async def append(session: Session, item: Item, *, replace: bool = False, backlog: bool = False) -> Receipt:
    """Add one checked message.

    Raises IdConflict, NumberTaken, LateMessage, OutcomeUnknown, NotReplicated, ServerError.
    """
    shards, wait = await session.shards_to_append(), session.options.wait
    try:
        answer = await session.net.ask(call_for(shards, item, replace=replace, backlog=backlog), wait=wait)
    except ServerUnavailable as error:
        refuse_unknown(item.id, error, replaces=replace)
        raise
    outcomes = await with_marks(session, [item], answer.value)
    return receipt_of(item, outcomes, answer.confirmed, wait, replace=replace)


def call_for(shards: list[ShardKeys], item: Item, *, replace: bool, backlog: bool) -> Call[list[calls.ItemOutcome]]:
    """What an append of one message sends."""
    keys = shards[shard_of(item.group, len(shards))]
    return calls.append(keys, [item], on_conflict="replace" if replace else "none", backlog=backlog)


def receipt_of(
    item: Item, outcomes: list[calls.ItemOutcome], confirmed: int, wait: Replicas, *, replace: bool
) -> Receipt:
    """What became of one message, of which this was answered. Raises as `append` does."""
    (one,) = outcomes
    if one.outcome in calls.REFUSALS:
        raise _refusal(item, one)
    if wait and confirmed < wait[0]:
        _check_replicas(item.id, outcomes, confirmed, wait, replaces=replace)
    fate: Any = one.outcome  # of one message alone nothing is undone
    return Receipt(item.id, one.stamp or None, fate == "duplicate", fate, one.backlog)


async def with_marks(session: Session, items: list[Item], outcomes: list[calls.ItemOutcome]) -> list[calls.ItemOutcome]:
    """Of what was refused as late: with the watermark that it came behind, for the text of its error. It costs a round
    trip, and only there.
    """
    late = [item.group for item, one in zip(items, outcomes, strict=True) if one.outcome == "refused"]
    if not late:
        return outcomes
    shards, marks = await session.shards_to_append(), dict[str, str]()
    with suppress(SequencerError):  # then the text is without it
        for keys in shards:
            groups = sorted({group for group in late if shards[shard_of(group, len(shards))] == keys})
            for key in (keys.marks_old, keys.marks) if groups else ():
                (words,) = await session.net.read(key, [("HMGET", key, *groups)])
                marks |= {group: text(mark) for group, mark in zip(groups, words, strict=True) if mark}
    return [one._replace(mark=marks.get(item.group, "")) for item, one in zip(items, outcomes, strict=True)]


def refuse_unknown(what: str, error: ServerUnavailable, *, replaces: bool) -> None:
    """Raises OutcomeUnknown: a connection lost after sending means that nobody knows, another error than "not sent"."""
    if error.maybe_sent:
        advice = (
            "see get() before you repeat it"
            if replaces
            else "append it again with the same id: that adds nothing if it was"
        )
        raise OutcomeUnknown(f"it is unknown whether message {what!r} was stored ({error}); {advice}", what) from error


# -- a chunk of many --------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """The messages of one chunk and their positions among all, and what could not become one."""

    items: list[Item]
    indexes: list[int]
    errors: list[Refused]


class Tally:
    """What became of the chunks so far."""

    def __init__(self, on_refused: str) -> None:
        self._stops, self._counts, self._refused = on_refused == "stop", Counter[str](), list[Refused]()

    def sends(self, chunk: Chunk) -> bool:
        """Whether the chunk is to be sent: not where one of its items stops all."""
        return bool(chunk.items) and not (chunk.errors and self._stops)

    def add(self, chunk: Chunk, outcomes: list[calls.ItemOutcome]) -> None:
        """Count what was sent. Raises BatchRefused."""
        errors, counts = chunk.errors, self._counts
        if outcomes:
            if outcomes.count(outcomes[0]) == len(outcomes):
                counts[outcomes[0].outcome] += len(outcomes)
            else:
                counts.update(one.outcome for one in outcomes)
            if any(counts[outcome] for outcome in calls.REFUSALS):
                errors += _refusals(chunk, outcomes)
                errors.sort(key=lambda one: one.index)
        if errors and self._stops:
            earlier = counts - Counter(one.outcome for one in outcomes)
            raise BatchRefused(errors, counts["stored"], _receipt(earlier, []))
        self._refused += errors

    def receipt(self) -> BatchReceipt:
        """What became of all."""
        return _receipt(self._counts, self._refused)


def _receipt(counts: Counter[str], refused: list[Refused]) -> BatchReceipt:
    return BatchReceipt(counts["stored"], counts["duplicate"], refused, counts["dropped"], counts["dead_letter"])


async def append_chunk(
    session: Session,
    items: list[Item],
    *,
    on_refused: str = "stop",
    replace: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> list[calls.ItemOutcome]:
    """Add up to 1,000 checked messages, one or more, and say what became of each; with "stop" all of them or none.

    `meanwhile` is called once they are sent, before their answer is awaited. Raises OutcomeUnknown, NotReplicated,
    ServerError.
    """
    shards, by_shard = await session.shards_to_append(), dict[ShardKeys, list[int]]()
    if len(shards) == 1:
        by_shard[shards[0]] = list(range(len(items)))
    else:
        for position, item in enumerate(items):
            by_shard.setdefault(shards[shard_of(item.group, len(shards))], []).append(position)
    if on_refused != "stop":
        outcomes = await _send(session, items, by_shard, "replace" if replace else "others", meanwhile)
        return await with_marks(session, items, outcomes)
    # A script can't undo what it replaced, and undoes its own shard only: what would be refused is looked for first, in
    # all of them.
    if replace or len(by_shard) > 1:
        outcomes = await _send(session, items, by_shard, "replace" if replace else "none", dry_run=True)
        if not replace:
            _mark_conflicts(items, outcomes)
        _mark_taken(items, outcomes if await session.is_sequence() else [])
        if any(one.outcome in calls.REFUSALS for one in outcomes):
            return await with_marks(session, items, [_undone(one) for one in outcomes])
    outcomes = await _send(session, items, by_shard, "replace" if replace else "none", meanwhile)
    return await with_marks(session, items, outcomes)


async def _send(
    session: Session,
    items: list[Item],
    by_shard: dict[ShardKeys, list[int]],
    mode: calls.OnConflict,
    meanwhile: Callable[[], None] | None = None,
    *,
    dry_run: bool = False,
) -> list[calls.ItemOutcome]:
    parts = [items] if len(by_shard) == 1 else [[items[p] for p in places] for places in by_shard.values()]
    todo = [
        calls.append(keys, part, on_conflict=mode, dry_run=dry_run, with_stamps=False)
        for keys, part in zip(by_shard, parts, strict=True)
    ]
    what, wait = f"{items[0].id} to {items[-1].id}", None if dry_run else session.options.wait
    try:
        answer = await session.net.ask_all(todo, is_atomic=True, wait=wait, meanwhile=meanwhile)
    except ServerUnavailable as error:
        refuse_unknown(what, error, replaces=mode == "replace")
        raise
    outcomes = _in_order(by_shard, answer.value, undoes=mode == "none" and not dry_run)
    if wait and answer.confirmed < wait[0]:
        _check_replicas(what, outcomes, answer.confirmed, wait, replaces=mode == "replace")
    return outcomes


def _check_replicas(
    what: str, outcomes: list[calls.ItemOutcome], confirmed: int, wait: tuple[int, int], *, replaces: bool
) -> None:
    """Of what is stored now. A batch that was refused is said by its caller: nothing of it waits for replicas."""
    if any(one.outcome in ("stored", "duplicate", "dead_letter") for one in outcomes):
        wanted, within = wait
        advice = (
            "see get() before you repeat it: once it was handled, that adds it again"
            if replaces
            else "append it again with the same id: that adds nothing, and waits again"
        )
        raise NotReplicated(
            f"message {what!r} is stored, but {confirmed} of {many(wanted, 'replica')} confirmed it in {within} ms; "
            f"{advice}",
            what,
        )


def _refusals(chunk: Chunk, outcomes: list[calls.ItemOutcome]) -> list[Refused]:
    found = zip(chunk.indexes, chunk.items, outcomes, strict=True)
    return [Refused(index, _refusal(item, one)) for index, item, one in found if one.outcome in calls.REFUSALS]


def _in_order(by_shard: dict[ShardKeys, list[int]], results: list[Any], *, undoes: bool) -> list[calls.ItemOutcome]:
    """The outcomes of all shards, by the position of their message; "undone" where a refusal undid its shard."""
    if len(results) == 1 and not any(one.outcome in calls.REFUSALS for one in set(results[0])):
        only: list[calls.ItemOutcome] = results[0]
        return only
    outcomes: dict[int, calls.ItemOutcome] = {}
    for places, result in zip(by_shard.values(), results, strict=True):
        is_undone = undoes and any(one.outcome in calls.REFUSALS for one in result)
        for position, one in zip(places, result, strict=True):
            outcomes[position] = _undone(one) if is_undone else one
    return [outcomes[position] for position in range(len(outcomes))]


def _undone(one: calls.ItemOutcome) -> calls.ItemOutcome:
    """What an outcome means where nothing was stored in the end."""
    return one._replace(outcome="undone") if one.outcome in ("stored", "dropped", "dead_letter") else one


def _refusal(item: Item, one: calls.ItemOutcome) -> SequencerError:
    """The error of a message that was not stored because of itself: its outcome is one of REFUSALS."""
    group = decode_group(item.group)
    where = f"of group {named(group)}"
    if one.outcome == "conflict":
        said = f"id {item.id!r} {where} is already pending with other content; use a new id, or append the same body, "
        return IdConflict(item.id, group, f"{said}headers and score to repeat it")
    if one.outcome == "taken":
        said = f"number {float(item.score):.0f} {where} is already pending under another id than {item.id!r}"
        return NumberTaken(item.id, group, f"{said}; use the next number, or the same id to repeat it")
    if one.outcome == "effects":
        said = f"message {item.id!r} {where} is not replaced: effects of its steps are noted. Let it end, or "
        return EffectsSaved(item.id, group, f"{said}append the new one under another id")
    higher = f"a higher score than {item.score} was handled{f', {one.mark}' if one.mark else ''}"
    said = (
        f"message {item.id!r} {where} comes too late: {higher}; give it a later score, or set the queue's on_late to "
        f"handle, dead_letter or drop; where producers send times in several units, see: {command('doctor')}"
    )
    return LateMessage(item.id, group, said)


def _mark_conflicts(items: list[Item], outcomes: list[calls.ItemOutcome]) -> None:
    """An id that stands twice in one chunk with other content is a conflict that no look at the server shows."""
    known: dict[tuple[str, str], Item] = {}
    for position, item in enumerate(items):
        first = known.setdefault((item.group, item.id), item)
        if first.envelope != item.envelope or (item.score and item.score != first.score):
            outcomes[position] = outcomes[position]._replace(outcome="conflict")


def _mark_taken(items: list[Item], outcomes: list[calls.ItemOutcome]) -> None:
    """So is, in a sequence, a number under two ids, or an id with two numbers. Without outcomes: nothing to do."""
    ids: dict[tuple[str, str], str] = {}
    numbers: dict[tuple[str, str], str] = {}
    for position, item in enumerate(items if outcomes else ()):
        is_taken = ids.setdefault((item.group, item.score), item.id) != item.id
        if is_taken or numbers.setdefault((item.group, item.id), item.score) != item.score:
            outcomes[position] = outcomes[position]._replace(outcome="taken")
