"""What puts back the message that a skip took away: it is kept in its shard until the next skip."""

from __future__ import annotations

from ... import calls
from ...errors import IdConflict, MessageNotFound
from ...store.envelope import encode_id
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.record import DeadLetterName, decode_dead_letter
from ...store.replies import Reading, pairs, text
from ...texts.words import named
from ...values.message import Message
from ..session import Session


async def unskip(session: Session, group: Group, *, id: Id | None = None) -> Message:
    """Put the message that was skipped last back into its place in this group, with fresh attempts; returns it.

    `id`: only if it is this one. Raises MessageNotFound when another was skipped since in the same shard, IdConflict
    when a message with its id is pending again.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, register=False)
    await session.allow("operate")
    words = (await session.net.read(keys.skipped, [("HGETALL", keys.skipped)]))[0]
    with Reading(session.net.name):
        kept = {text(letter): record for letter, record in pairs(words)}
    for letter, record in kept.items():
        name = DeadLetterName.parse(letter)
        if name.group != key or wanted not in (None, name.id):
            continue
        answer = await session.net.ask(calls.redrive(keys, [letter], skipped=True))
        outcome = answer.value[0]
        if outcome == "redriven" or (outcome == "missing" and answer.is_repeat):
            return decode_dead_letter(letter, record, 0.0, session.options.queue).message
        if outcome == "pending":
            parts = decode_group(key)
            raise IdConflict(name.id, parts, f"message {name.id!r} of group {named(parts)} is pending again; see get")
    which = "" if wanted is None else f" {wanted!r}"
    raise MessageNotFound(
        f"no skipped message{which} of group {named(decode_group(key))} is kept in queue {session.options.queue!r}: "
        "it is there already, or another was skipped since"
    )
