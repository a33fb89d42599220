"""What is said of a message: at which of four phases it is, and how it ended. Pure."""

from __future__ import annotations

from ...store.group import decode_group
from ...store.history.ending import decode_ending, parts_of
from ...values.history import MessageInfo, MessageState, Phase
from ...values.message import Message
from ...values.views import DeadLetter

PHASES: dict[MessageState, Phase] = {
    "leased": "running",
    "parked": "error",
    "dead": "error",
    "skipped": "error",
    "dropped": "error",
    "purged": "error",
    "swept": "error",
    "handled": "finished",
    "finished": "finished",
    "failed": "finished",
    "cancelled": "finished",
    "replaced": "finished",
}
"""State -> phase; any other is pending."""


def phase_of(state: MessageState) -> Phase:
    return PHASES.get(state, "pending")


def info_of(field: str, value: bytes) -> MessageInfo | None:
    """A message of the history; None for what no client of ours wrote: it must not hide what stands beside it."""
    group, message_id = parts_of(field)
    try:
        ending = decode_ending(value)
    except ValueError:
        return None
    return MessageInfo(
        id=message_id,
        group=decode_group(group),
        state=ending.outcome,
        due_in_s=None,
        attempts=ending.tries,
        error=None,
        message=None,
        phase=phase_of(ending.outcome),
        appended_at=ending.appended_ms / 1000,
        began_at=None if ending.began_ms is None else ending.began_ms / 1000,
        finished_at=ending.ended_ms / 1000,
        consumer=ending.consumer,
        kind=ending.kind,
        note=ending.note,
    )


def dead_info(dead: DeadLetter) -> MessageInfo:
    """A dead letter."""
    message: Message = dead.message
    return MessageInfo(
        id=message.id,
        group=message.group,
        state="dead",
        due_in_s=None,
        attempts=dead.attempts,
        error=dead.error,
        message=message,
        phase=phase_of("dead"),
        appended_at=message.appended_at,
        steps=dead.steps,
    )
