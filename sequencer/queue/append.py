"""What became of a message that was appended. The append itself: `net/appender.py`, `append_many`. Pure."""

from __future__ import annotations

from typing import Any

from .. import calls
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
from ..values.message import Receipt


def receipt_of(
    item: Item, outcomes: list[calls.ItemOutcome], confirmed: int, wait: Replicas, *, replace: bool
) -> Receipt:
    """Of one message. Raises IdConflict, NumberTaken, LateMessage, EffectsSaved, NotReplicated."""
    (one,) = outcomes
    if one.outcome in calls.REFUSALS:
        raise refusal(item, one)
    if wait:
        check_replicas(item.id, outcomes, confirmed, wait, replaces=replace)
    fate: Any = one.outcome  # of one message alone nothing is undone
    return Receipt(item.id, one.stamp or None, fate == "duplicate", fate, one.backlog)


def refuse_unknown(id: str, error: ServerUnavailable, *, replaces: bool) -> None:
    """Raises OutcomeUnknown: a connection lost after sending means that nobody knows, another error than "not sent"."""
    if error.maybe_sent:
        raise OutcomeUnknown("append_unknown", id=id, error=str(error), replaces=replaces) from error


def check_replicas(
    id: str, outcomes: list[calls.ItemOutcome], confirmed: int, wait: Replicas, *, replaces: bool
) -> None:
    """Of what is stored now. A batch that was refused is said by its caller: nothing of it waits for replicas."""
    replicas, wait_ms = wait or (0, 0)
    found = {one.outcome for one in outcomes}
    if confirmed < replicas and "undone" not in found and found & {"stored", "duplicate", "dead_letter"}:
        raise NotReplicated(id=id, confirmed=confirmed, replicas=replicas, wait_ms=wait_ms, replaces=replaces)


def refusal(item: Item, one: calls.ItemOutcome) -> SequencerError:
    """The error of a message that was not stored because of itself: its outcome is one of REFUSALS."""
    about: dict[str, Any] = {"id": item.id, "group": decode_group(item.group)}
    if one.outcome == "conflict":
        return IdConflict(**about)
    if one.outcome == "taken":
        return NumberTaken(**about, number=int(float(item.score)))
    if one.outcome == "effects":
        return EffectsSaved("replace_refused", **about)
    return LateMessage(**about, score=item.score)
