"""What is known of one message, while it is there and after its end. An operation over a net; nothing writes."""

from __future__ import annotations

from ... import calls
from ...store.envelope import encode_id
from ...store.failure import decode_failure
from ...store.group import decode_group, encode_group
from ...store.history.ending import field_of
from ...store.item import Group, Id
from ...store.keys import LaneKeys
from ...store.record import readable_message
from ...store.replies import Reading
from ...store.watermark import late_below
from ...values.history import MessageInfo
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..session import Session
from ..state import message_state
from .ended import dead_info, info_of, phase_of


async def get(session: Session, group: Group, id: Id) -> MessageInfo | None:
    """One message: its state, when it is due, attempts, error and content, or how it ended; None when nothing is known
    of it.
    """
    key, message_id = encode_group(group), encode_id(id)
    return await message_info(session, await session.keys_of(key, register=False), key, message_id)


async def message_info(session: Session, keys: LaneKeys, key: str, message_id: str) -> MessageInfo | None:
    """As `get`, by encoded group and id."""
    facts = (await session.net.ask(calls.inspect(keys, key, message_id))).value
    if facts.member:
        with Reading(session.net.name):
            return _pending_info(facts, key, message_id, session.options.queue)
    for dead in await oldest(session, [keys], DeadLetterFilter(key, message_id)):
        return dead_info(dead)
    if facts.ended and (ended := info_of(field_of(key, message_id), facts.ended)):
        return ended
    if facts.is_handled:
        return MessageInfo(message_id, decode_group(key), "handled", None, 0, None, None, phase_of("handled"))
    return None


def _pending_info(facts: calls.Facts, group: str, message_id: str, queue: str) -> MessageInfo:
    parts = decode_group(group)
    rest = (facts.member, facts.score or "nan", facts.record, parts, 0, queue)
    message = readable_message(*rest, late_below(facts.mark))
    failure, member = decode_failure(facts.failure) if facts.failure else (None, "")
    state, due_us = message_state(facts)
    due_in_s = None if due_us is None else max(0.0, (due_us - facts.now_us) / 1e6)
    error = failure if member == facts.member else None
    attempts, phase = message.attempt - 1, phase_of(state)
    return MessageInfo(message_id, parts, state, due_in_s, attempts, error, message, phase, message.appended_at)
