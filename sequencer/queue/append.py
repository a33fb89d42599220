"""One message more: what its append sends, and what became of it."""

from __future__ import annotations

from typing import Any

from .. import calls
from ..calls.call import Call
from ..errors import (
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
from ..texts.commands import command
from ..texts.words import many, named
from ..values.message import Receipt
from .session import Session


async def check(session: Session, *arguments: Any) -> None:
    """Refuse what breaks a rule before the queue is used for the first time: nothing is registered then.

    The server is asked only where the queue may remember which fields make the group.
    """
    if session.items.check(*arguments):
        await session.take_fields()
        session.items.make(*arguments, is_sequence=None)


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
    return receipt_of(item, answer.value, answer.confirmed, wait, replace=replace)


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
        raise refusal(item, one)
    if wait and confirmed < wait[0]:
        check_replicas(item.id, outcomes, confirmed, wait, replaces=replace)
    fate: Any = one.outcome  # of one message alone nothing is undone
    return Receipt(item.id, one.stamp or None, fate == "duplicate", fate, one.backlog)


def refuse_unknown(what: str, error: ServerUnavailable, *, replaces: bool) -> None:
    """Raises OutcomeUnknown: a connection lost after sending means that nobody knows, another error than "not sent"."""
    if error.maybe_sent:
        advice = (
            "see get() before you repeat it"
            if replaces
            else "append it again with the same id: that adds nothing if it was"
        )
        raise OutcomeUnknown(f"it is unknown whether message {what!r} was stored ({error}); {advice}", what) from error


def check_replicas(
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


def refusal(item: Item, one: calls.ItemOutcome) -> SequencerError:
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
    said = (
        f"message {item.id!r} {where} comes too late: a higher score than {item.score} was handled; give it a later "
        "score, or set the queue's on_late to "
        f"handle, dead_letter or drop; where producers send times in several units, see: {command('doctor')}"
    )
    return LateMessage(item.id, group, said)
