"""What people see of groups and messages: groups, peek, explain. Operations over a net; nothing here writes.

A mere look does not register the queue. Every page is a bounded pipeline of cheap reads, so the server is never
blocked. Counts of the whole queue are in `counts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from .. import calls
from ..calls.net_protocol import Command, Net, Reader
from ..doctor.leases import NO_CONSUMERS_S, find_no_consumers
from ..errors import ServerNotUsable
from ..settings.policy import Policy
from ..store.failure import decode_failure
from ..store.group import decode_group, encode_group
from ..store.item import Group
from ..store.keys import PAUSED, ShardKeys
from ..store.record import decode_head, id_of, number_of, owner_of, readable_message
from ..store.replies import Reading, micros, pairs, scored, text, texts
from ..store.watermark import late_below
from ..texts.explanations import Explanation
from ..values.checks import check_choice, check_limit
from ..values.message import Message
from ..values.owner import NoConsumers
from ..values.views import GroupInfo, GroupState
from .explain import explanation
from .history.known import message_info
from .pages import batches, read, scan
from .session import Session
from .state import group_state, is_leased

PAGE = 500
STATES: tuple[GroupState, ...] = ("due", "leased", "waiting", "paused", "parked")


# -- groups ----------------------------------------------------------------------------------------------------


async def groups(session: Session, state: GroupState | None = None, *, limit: int = 1000) -> list[GroupInfo]:
    """Groups, the longest due first, at most `limit`; only those in `state` if given. Raises ConfigurationError."""
    check_limit(limit)
    if state is not None:
        check_choice("state", state, STATES)
    found: list[GroupInfo] = []
    for keys in await session.shards():
        found += await _groups_of(session.net, keys, state, limit)
    found.sort(key=lambda info: float("inf") if info.due_in_s is None else info.due_in_s)
    return found[:limit]


async def paused_groups(session: Session) -> list[tuple[str, ...]]:
    """The groups that were paused, whether they have messages or not."""
    found = await session.read_shards(texts, lambda keys: [("SMEMBERS", keys.paused)])
    return sorted(decode_group(group) for names in found for group in names)


class ShardView(NamedTuple):
    """What a look at a shard needs besides the schedule, at one moment."""

    now_us: int
    leases: dict[bytes, bytes]
    paused: set[bytes]


async def shard_view(net: Net, keys: ShardKeys) -> ShardView:
    now, leases = await now_of(net), await leases_of(net, keys)
    return ShardView(now, leases, await read(net, set, ("SMEMBERS", keys.paused)))


async def _groups_of(net: Net, keys: ShardKeys, state: GroupState | None, limit: int) -> list[GroupInfo]:
    view = await shard_view(net, keys)
    now = view.now_us
    ends = {"due": ("-inf", now), "parked": ("inf", "inf"), "paused": ("-inf", "inf"), None: ("-inf", "inf")}
    low, high = ends.get(state, (f"({now}", f"({PAUSED:.0f}"))
    found: list[GroupInfo] = []
    start, size = 0, PAGE
    while len(found) < limit and size == PAGE:
        command = ("ZRANGEBYSCORE", keys.schedule, low, high, "WITHSCORES", "LIMIT", start, PAGE)
        page = await read(net, scored, command)
        start, size = start + PAGE, len(page)
        if state == "paused":
            page = [(group, at) for group, at in page if group in view.paused or at == PAUSED]
        found += [info for info in await infos_of(net, keys, page, view) if state in (None, info.state)]
    return found


async def infos_of(net: Net, keys: ShardKeys, page: Sequence[tuple[bytes, float]], view: ShardView) -> list[GroupInfo]:
    """Groups of a shard, by their names and when they may be claimed."""
    if not page:
        return []
    names = texts(group for group, _ in page)
    commands: list[Command] = [("HMGET", keys.failures, *names)]
    for name in names:
        commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0, "WITHSCORES")]
    failures, *replies = await net.read(commands)
    sizes, heads = replies[::2], replies[1::2]
    with Reading(net.name):
        ids = [id_of(text(head[0])) if head else "" for head in heads]
    records = await net.read([("HGET", keys.body(name), id) for name, id in zip(names, ids, strict=True)])
    with Reading(net.name):
        rows = zip(page, sizes, heads, records, failures, strict=True)
        return [_info(view, group, at, *row) for (group, at), *row in rows]


def _info(
    view: ShardView,
    group: bytes,
    visible: float,
    size: int,
    head: list[bytes],
    record: bytes | None,
    failure_record: bytes | None,
) -> GroupInfo:
    """`head`: member and score; empty when the group ended meanwhile."""
    now, lease = view.now_us, view.leases.get(group)
    failure, failed = decode_failure(failure_record) if failure_record else (None, "")
    known, member = decode_head(record or b""), text(head[0]) if head else ""
    tried = failure.attempt if failure and known.written and failed == member else 0  # steps count their own
    state = group_state(visible, lease, now, is_paused=group in view.paused)
    token = number_of(lease) if lease else None
    return GroupInfo(
        group=decode_group(text(group)),
        state=state,
        backlog=size,
        lag_s=max(0, now - number_of(member)) / 1e6 if head else None,
        due_in_s=None if visible >= PAUSED or state == "paused" else max(0.0, (visible - now) / 1e6),
        head_id=id_of(member) if head else None,
        head_score=float(head[1]) if head else None,
        attempts=max(known.attempts, tried),
        owner=owner_of(lease) if lease else None,
        token=token,
        leased_for_s=max(0, now - token) / 1e6 if token else None,
        failure=failure,
    )


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
    longest = await _held_longest(session)
    return _with_fields(found, longest=longest) if longest else found


def _with_fields(found: Explanation, **more: Any) -> Explanation:
    return replace(found, fields={**found.fields, **more})


async def no_consumers(session: Session) -> NoConsumers | None:
    """Whether groups are due and nobody consumes; None also where the user may not see that. Raises ServerError."""
    options, shards = session.options, await session.shards()
    async with session.net.alone() as alone:
        with Reading(session.net.name):
            return await find_no_consumers(alone, shards, options.namespace, options.queue)


async def _held_longest(session: Session) -> dict[str, Any] | None:
    """What consumers have in progress longest, of all shards, as they serve them all. None where that is shorter than
    NO_CONSUMERS_S, as they are only busy, or the user may not read leases. Raises ServerError.
    """
    net, held = session.net, dict[bytes, bytes]()
    now = await now_of(net)
    for keys in await session.shards():
        try:
            held |= await held_leases(net, keys, await leases_of(net, keys), now)
        except ServerNotUsable:
            return None
    group, lease = min(held.items(), key=lambda one: number_of(one[1]), default=(b"", b""))
    held_s = (now - number_of(lease)) / 1e6
    if not lease or held_s < NO_CONSUMERS_S:
        return None
    return {"held_s": held_s, "group": decode_group(text(group)), "owner": owner_of(lease)}


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


async def held_leases(net: Reader, keys: ShardKeys, leases: Mapping[bytes, bytes], now: int) -> dict[bytes, bytes]:
    """Of these leases of a shard those that did not run out."""
    found: dict[bytes, bytes] = {}
    for some in batches([*leases], PAGE):
        times: list[bytes | None] = await read(net, list, ("ZMSCORE", keys.schedule, *some))
        visible = zip(some, times, strict=True)
        found |= {group: leases[group] for group, at in visible if at and is_leased(float(at), leases[group], now)}
    return found
