"""What became of the steps of a message. An operation over a net."""

from __future__ import annotations

from ...store.envelope import encode_id
from ...store.failure import decode_failure
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import id_of, number_of
from ...store.replies import Reading
from ...values.history import MessageSteps
from ..history.known import message_info
from ..session import Session
from .record_steps import record_steps


async def steps(session: Session, group: Group, id: Id | None = None) -> MessageSteps | None:
    """What became of each step of a message, pending or dead, or ended where the queue has `history_bodies`; without an
    `id` of the one that failed, else of the head.

    None where there is no such message. Raises InvalidGroup, InvalidId, ServerError.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key)
    if wanted is None:
        member = await _failed_or_head(session, keys, key)
        if member is None:
            return None
        wanted = id_of(member)
    record, lease = await session.net.read([("HGET", keys.body(key), wanted), ("HGET", keys.leases, key)])
    if record is not None:
        with Reading(session.net.name):
            found = record_steps(
                session.options.queue, key, wanted, record, is_dead=False, token=number_of(lease or b"")
            )
        return found or MessageSteps(wanted, decode_group(key), False, (), (), ())
    info = await message_info(session, keys, key, wanted)
    if info is None or info.message is None:
        return None
    return info.steps or MessageSteps(wanted, info.group, info.state == "dead", (), (), ())


async def _failed_or_head(session: Session, keys: ShardKeys, group: str) -> str | None:
    """Once a late message stands before the one that failed, that is not the head any more, and is still asked for."""
    order = keys.order(group)
    heads, failure = await session.net.read([("ZRANGE", order, 0, 0), ("HGET", keys.failures, group)])
    with Reading(session.net.name):
        failed = decode_failure(failure)[1] if failure else ""
        head = heads[0].decode() if heads else None
    if failed and (await session.net.read([("ZSCORE", order, failed)])) != [None]:
        return failed
    return head
