"""A message by its id alone, in whatever group. An operation over a net; nothing writes."""

from __future__ import annotations

from ... import calls
from ...store.envelope import encode_id
from ...store.history.ending import parts_of
from ...store.item import Id
from ...store.keys import ShardKeys
from ...values.history import MessageInfo
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..session import Session
from .buckets import buckets_of, escaped, read_bucket
from .ended import dead_info, info_of
from .known import message_info
from .listed import with_contents


async def find(session: Session, id: Id) -> list[MessageInfo]:
    """What is known of the messages with this id, in all groups: pending, dead, or ended as far as the history goes.

    One of each group, as `get` says it, in the order of the groups. Groups and history are looked through in slices of
    1,000: about a second of the server's time for a million. An id that is only known to be handled is not found.
    Raises InvalidId.
    """
    message_id = encode_id(id)
    found: dict[tuple[str, ...], MessageInfo] = {}
    for keys in await session.shards():
        # In the order in which a message moves: one that moves meanwhile is met behind.
        for group in await _groups_with(session, keys, message_id):
            if known := await message_info(session, keys, group, message_id):
                found[known.group] = known
        for dead in await oldest(session, [keys], DeadLetterFilter(id=message_id)):
            found.setdefault(dead.message.group, dead_info(dead))
        for info in await _ended(session, keys, message_id):
            found.setdefault(info.group, info)
    return [found[group] for group in sorted(found)]


async def _groups_with(session: Session, keys: ShardKeys, message_id: str) -> list[str]:
    """Encoded groups in which it waits."""
    found: dict[str, None] = {}
    cursor = "0"
    while True:
        cursor, groups = (await session.net.ask(calls.find(keys, message_id, cursor))).value
        found.update(dict.fromkeys(groups))
        if cursor == "0":
            return list(found)


async def _ended(session: Session, keys: ShardKeys, message_id: str) -> list[MessageInfo]:
    """Ends of messages with that id, the newest bucket first."""
    net, pattern = session.net, f"*\n{escaped(message_id)}"
    found: list[MessageInfo] = []
    for bucket in await buckets_of(net, keys):
        infos: dict[str, MessageInfo] = {}
        async for field, value in read_bucket(net, bucket, pattern):
            if parts_of(field)[1] == message_id and (info := info_of(field, value)):
                infos[field] = info
        found += await with_contents(session, bucket, infos)
    return found
