"""What people see of one group and its messages: peek, explain. Operations over a net; nothing here writes.

Reading does not register the queue. Lists of groups are in `groups/listed.py`, counts in `counts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from .. import calls
from ..calls.net_protocol import Reader
from ..doctor.leases import NO_CONSUMERS_S, find_no_consumers
from ..settings.policy import Policy
from ..store.group import decode_group, encode_group
from ..store.item import Group
from ..store.keys import ShardKeys
from ..store.record import id_of, readable_message
from ..store.replies import Reading, micros, pairs, text, texts
from ..store.watermark import late_below
from ..texts.explanations import Explanation
from ..values.checks import check_limit
from ..values.message import Message
from ..values.owner import NoConsumers
from .explain import explanation
from .history.known import message_info
from .pages import batches, read, scan
from .session import Session
from .state import is_leased

PAGE = 500


async def paused_groups(session: Session) -> list[tuple[str, ...]]:
    """The groups that were paused, whether they have messages or not."""
    found = await session.read_shards(texts, lambda keys: [("SMEMBERS", keys.paused)])
    return sorted(decode_group(group) for names in found.values() for group in names)


# -- one group, one message ------------------------------------------------------------------------------------


async def peek(session: Session, group: Group, *, limit: int = 10) -> list[Message]:
    """The next messages of a group, in order; changes nothing. Empty when the group has none."""
    key = encode_group(group)
    check_limit(limit)
    keys, net = await session.keys_of(key), session.net
    mark = (await session.ask(calls.inspect(keys, key))).mark
    command = ("ZRANGE", keys.order(key), 0, limit - 1, "WITHSCORES")
    members = await read(net, lambda words: [(text(member), score.decode()) for member, score in pairs(words)], command)
    if not members:
        return []

    def messages(records: list[bytes | None]) -> list[Message]:
        rest = (decode_group(key), 0, session.options.queue, late_below(mark))
        found = zip(members, records, strict=True)
        return [readable_message(member, score, record or b"", *rest) for (member, score), record in found]

    return await read(net, messages, ("HMGET", keys.body(key), *[id_of(member) for member, _ in members]))


async def explain(session: Session, group: Group) -> Explanation:
    """Why a group does not move, and what would move it. Raises InvalidGroup, ServerError."""
    key = encode_group(group)
    keys = await session.keys_of(key)
    facts = await session.ask(calls.inspect(keys, key))
    policy = await session.fresh_policy()
    with Reading(session.net.name):
        found = explanation(key, facts, policy, session.options)
    if found.reason == "leased":
        head = await message_info(session, keys, key, id_of(facts.head))
        return _with_fields(found, steps=head.steps.said if head and head.steps else "")
    waits_s = found.fields.get("waits_s", 0.0)
    if found.reason != "due" or waits_s < NO_CONSUMERS_S:
        return found
    if nobody := await no_consumers(session):
        found = replace(found, reason="no consumers", moves_in_s=None)
        return _with_fields(found, **asdict(nobody) | {"waits_s": waits_s})
    return found


def _with_fields(found: Explanation, **more: Any) -> Explanation:
    return replace(found, fields={**found.fields, **more})


async def no_consumers(session: Session) -> NoConsumers | None:
    """Whether groups are due and nobody consumes; None also where the user may not see that, or a shard can't be
    reached, in which somebody may have a group in progress. Raises ServerError.
    """
    options, (shards, unreachable) = session.options, await session.reachable()
    if unreachable:
        return None
    async with session.net.alone() as alone:
        with Reading(session.net.name):
            return await find_no_consumers(alone, shards, options.namespace, options.queue)


async def policy(session: Session) -> Policy:
    """The queue's policy as the server has it now, after what this client asks for. Raises ServerError."""
    await session.shards(register=bool(session.options.policy))
    return await session.fresh_policy()


# -- what several views read -----------------------------------------------------------------------------------


async def now_of(net: Reader) -> int:
    """The time of the server, in us."""
    return await read(net, micros, ("TIME",))


async def leases_of(net: Reader, keys: ShardKeys) -> dict[bytes, bytes]:
    """Every lease of a shard: group -> token and owner. Bounded by consumers times groups a claim."""
    found: dict[bytes, bytes] = {}
    async for words in scan(net, "HSCAN", keys.leases, count=PAGE):
        with Reading(net.name):
            found.update(pairs(words))
    return found


class Held(NamedTuple):
    lease: bytes
    until_us: float


async def held_leases(net: Reader, keys: ShardKeys, leases: Mapping[bytes, bytes], now: int) -> dict[bytes, Held]:
    """Of these leases of a shard those that did not run out."""
    found: dict[bytes, Held] = {}
    for some in batches([*leases], PAGE):
        times: list[bytes | None] = await read(net, list, ("ZMSCORE", keys.schedule, *some))
        with Reading(net.name):
            seen = {group: Held(leases[group], float(at)) for group, at in zip(some, times, strict=True) if at}
        found |= {group: one for group, one in seen.items() if is_leased(one.until_us, one.lease, now)}
    return found
