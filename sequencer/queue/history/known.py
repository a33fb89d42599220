"""What is known of one message, while it is there and after its end. An operation over a net; nothing writes."""

from __future__ import annotations

from dataclasses import replace

from ... import calls
from ...settings.options import QueueOptions
from ...store.envelope import RERUN_OF, encode_id
from ...store.failure import decode_failure
from ...store.group import decode_group, encode_group
from ...store.history.ending import field_of
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import number_of, owner_of, readable_message
from ...store.replies import Reading
from ...store.watermark import late_below
from ...texts.commands import command
from ...values.history import MessageInfo, MessageSteps
from ...values.message import Failure
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..session import Session
from ..state import message_state
from ..steps.record_steps import record_steps
from .buckets import Content
from .ended import dead_info, info_of, status_of_state, with_content


async def get(session: Session, group: Group, id: Id) -> MessageInfo | None:
    """One message: its state, when it is due, attempts, error and content, or how it ended; None when nothing is known
    of it.
    """
    key, message_id = encode_group(group), encode_id(id)
    return await message_info(session, await session.keys_of(key), key, message_id)


async def message_info(session: Session, keys: ShardKeys, key: str, message_id: str) -> MessageInfo | None:
    """As `get`, by encoded group and id."""
    facts = (await session.net.ask(calls.inspect(keys, key, message_id))).value
    if facts.member:
        with Reading(session.net.name):
            return _pending_info(facts, key, message_id, session.options.queue)
    for dead in await oldest(session, [keys], DeadLetterFilter(key, message_id)):
        return dead_info(dead)
    if facts.ended and (ended := info_of(field_of(key, message_id), facts.ended)):
        return with_content(ended, key, Content(facts.kept, facts.again), session.options.queue)
    if facts.is_handled:
        known = MessageInfo(message_id, decode_group(key), "handled", None, 0, None, None, status_of_state("handled"))
        return replace(known, note=_remembered(session.options))
    return None


def _remembered(options: QueueOptions) -> str:
    """What is known of a message of which only the id is: those that were skipped or dropped stay known too."""
    keep = command("configure", options.queue, namespace=options.namespace, options=["--history-window", "3d"])
    return f"without a history only its id is known: it was handled, dropped, skipped or purged; to keep one: {keep}"


def _pending_info(facts: calls.GroupFacts, group: str, message_id: str, queue: str) -> MessageInfo:
    parts = decode_group(group)
    rest = (facts.member, facts.score or "nan", facts.record, parts, 0, queue)
    message = readable_message(*rest, late_below(facts.mark))
    failure, member = decode_failure(facts.failure) if facts.failure else (None, "")
    state, due_us = message_state(facts)
    due_in_s = None if due_us is None else max(0.0, (due_us - facts.now_us) / 1e6)
    error = failure if member == facts.member else None
    token = number_of(facts.lease) if state == "leased" else 0
    steps = record_steps(queue, group, message_id, facts.record, is_dead=False, token=token)
    attempts, status = _attempts(message.attempt - 1, steps, error), status_of_state(state)
    info = MessageInfo(message_id, parts, state, due_in_s, attempts, error, message, status, message.appended_at)
    info = replace(info, rerun_of=message.headers.get(RERUN_OF, ""))
    if state != "leased":
        return replace(info, steps=steps)
    return replace(info, steps=steps, began_at=_began_at(token / 1e6, steps), consumer=owner_of(facts.lease))


def _attempts(counted: int, steps: MessageSteps | None, error: Failure | None) -> int:
    """Steps count their own attempts."""
    if steps is None:
        return counted
    return max([counted, error.attempt if error else 0, *(step.attempts for step in steps.steps)])


def _began_at(claimed_at: float, steps: MessageSteps | None) -> float:
    """When a message in progress began: at its first step that was noted since its group was claimed, else at that
    claim.

    A step is noted by the clock of its consumer, so one that ran before by the server's may seem to have run since.
    """
    began = [step.at - step.took_s for step in (steps.steps if steps else ()) if step.at is not None]
    return min((at for at in began if at >= claimed_at), default=claimed_at)
