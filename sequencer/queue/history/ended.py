"""What is said of a message: at which of four phases it is, and how it ended. Pure."""

from __future__ import annotations

from dataclasses import replace

from ...store.envelope import RERUN_OF
from ...store.failure import decode_failure
from ...store.group import decode_group
from ...store.history.ending import decode_ending, parts_of
from ...store.record import DeadLetterContent, readable_message, stamp_of
from ...values.history import MessageInfo, MessageState, Status
from ...values.message import Message
from ...values.views import DeadLetter
from ..steps.record_steps import record_steps
from .buckets import Content

STATUSES: dict[MessageState, Status] = {
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


def status_of_state(state: MessageState) -> Status:
    return STATUSES.get(state, "pending")


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
        attempts=ending.attempts,
        error=None,
        message=None,
        status=status_of_state(ending.outcome),
        appended_at=ending.appended_ms / 1000,
        began_at=None if ending.began_ms is None else ending.began_ms / 1000,
        finished_at=ending.ended_ms / 1000,
        consumer=ending.consumer,
        kind=ending.kind,
        note=ending.note,
    )


def with_content(info: MessageInfo, group: str, content: Content, queue: str) -> MessageInfo:
    """An ended message of an encoded group, with what is kept of it. Never raises: see `decode_dead_letter`."""
    score, failure, record = DeadLetterContent.parse(content.kept)
    if not record:
        return info
    place = (stamp_of(record) + info.id, score.decode("utf-8", "replace"), record)
    message = readable_message(*place, info.group, 0, queue)
    return replace(
        info,
        message=message,
        error=decode_failure(failure)[0] if failure else None,
        steps=record_steps(queue, group, info.id, record, is_dead=False),
        rerun_of=message.headers.get(RERUN_OF, ""),
        rerun_as=content.again,
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
        status=status_of_state("dead"),
        appended_at=message.appended_at,
        steps=dead.steps,
        rerun_of=message.headers.get(RERUN_OF, ""),
    )
