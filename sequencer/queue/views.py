"""What people see of groups and messages: groups, peek, explain. Operations over a net; nothing here writes.

A mere look does not register the queue. Every page is a bounded pipeline of cheap reads, so the server is never
blocked. Counts of the whole queue are in `counts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple, TypeVar

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
from ..store.replies import Reading, micros, pairs, text, texts
from ..store.watermark import late_below
from ..texts.explanations import Explanation
from ..values.checks import check_choice, check_limit
from ..values.history import MessageSteps
from ..values.message import Message
from ..values.owner import NoConsumers
from ..values.views import GroupInfo, GroupState
from .explain import explanation
from .pages import scan
from .session import Session
from .state import group_state, is_leased
from .steps.record_steps import record_steps

T = TypeVar("T")
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
    found: list[tuple[str, ...]] = []
    for keys in await session.shards():
        words = (await session.net.read([("SMEMBERS", keys.paused)]))[0]
        with Reading(session.net.name):
            found += [decode_group(group) for group in texts(words)]
    return sorted(found)


class ShardView(NamedTuple):
    """What a look at a shard needs besides the schedule, at one moment."""

    now_us: int
    leases: dict[bytes, bytes]
    """Group -> token and owner."""
    paused: set[bytes]


async def shard_view(net: Net, keys: ShardKeys) -> ShardView:
    """One look at a shard."""
    now, leases = await now_of(net, keys), await leases_of(net, keys)
    words = (await net.read([("SMEMBERS", keys.paused)]))[0]
    with Reading(net.name):
        return ShardView(now, leases, set(words))


async def _groups_of(net: Net, keys: ShardKeys, state: GroupState | None, limit: int) -> list[GroupInfo]:
    view = await shard_view(net, keys)
    now = view.now_us
    ends = {"due": ("-inf", now), "parked": ("inf", "inf"), "paused": ("-inf", "inf"), None: ("-inf", "inf")}
    low, high = ends.get(state, (f"({now}", f"({PAUSED:.0f}"))
    found: list[GroupInfo] = []
    start, size = 0, PAGE
    while len(found) < limit and size == PAGE:
        command = ("ZRANGEBYSCORE", keys.schedule, low, high, "WITHSCORES", "LIMIT", start, PAGE)
        words = (await net.read([command]))[0]
        with Reading(net.name):
            page = [(group, float(at)) for group, at in pairs(words)]
        start, size = start + PAGE, len(page)
        if state == "paused":
            page = [(group, at) for group, at in page if group in view.paused or at == PAUSED]
        found += [info for info in await infos_of(net, keys, page, view) if state in (None, info.state)]
    return found


async def infos_of(net: Net, keys: ShardKeys, page: Sequence[tuple[bytes, float]], view: ShardView) -> list[GroupInfo]:
    """Groups of a shard, by their names and when they may be claimed."""
    if not page:
        return []
    with Reading(net.name):
        names = texts(group for group, _ in page)
    commands: list[Command] = [("HMGET", keys.failures, *names)]
    for name in names:
        commands += [("ZCARD", keys.order(name)), ("ZRANGE", keys.order(name), 0, 0, "WITHSCORES")]
    failures, *replies = await net.read(commands)
    sizes, heads = replies[::2], replies[1::2]
    with Reading(net.name):
        ids = [id_of(text(head[0])) if head else "" for head in heads]
    bodies: list[Command] = [("HGET", keys.body(name), id) for name, id in zip(names, ids, strict=True)]
    records = await net.read(bodies)
    with Reading(net.name):
        rows = zip(page, sizes, heads, records, failures, strict=True)
        return [_info(view, group, at, _Row(*row)) for (group, at), *row in rows]


class _Row(NamedTuple):
    """What was read of one group."""

    size: int
    head: list[bytes]
    """Member and score; empty when the group ended meanwhile."""
    record: bytes | None
    failure: bytes | None


def _info(view: ShardView, group: bytes, visible: float, row: _Row) -> GroupInfo:
    now, lease, head = view.now_us, view.leases.get(group), row.head
    failure, member = decode_failure(row.failure) if row.failure else (None, "")
    record = decode_head(row.record or b"")
    tried = failure.attempt if failure and record.written and member == text(head[0]) else 0  # steps count their own
    state = group_state(visible, lease, now, is_paused=group in view.paused)
    token = number_of(lease) if lease else None
    return GroupInfo(
        group=decode_group(text(group)),
        state=state,
        backlog=row.size,
        lag_s=max(0, now - number_of(head[0])) / 1e6 if head else None,
        due_in_s=None if visible >= PAUSED or state == "paused" else max(0.0, (visible - now) / 1e6),
        head_id=id_of(text(head[0])) if head else None,
        head_score=float(head[1]) if head else None,
        attempts=max(record.attempts, tried),
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
    mark = (await net.ask(calls.inspect(keys, key))).value.mark
    words = (await net.read([("ZRANGE", keys.order(key), 0, limit - 1, "WITHSCORES")]))[0]
    with Reading(net.name):
        below, members = late_below(mark), [(text(member), score.decode()) for member, score in pairs(words)]
    if not members:
        return []
    ids = [id_of(member) for member, _ in members]
    records = (await net.read([("HMGET", keys.body(key), *ids)]))[0]
    rest = (decode_group(key), 0, session.options.queue, below)
    with Reading(net.name):
        found = zip(members, records, strict=True)
        return [readable_message(member, score, record or b"", *rest) for (member, score), record in found]


async def explain(session: Session, group: Group) -> Explanation:
    """Why a group does not move, and what would move it. Raises InvalidGroup, ServerError."""
    key = encode_group(group)
    keys = await session.keys_of(key)
    facts = (await session.net.ask(calls.inspect(keys, key))).value
    policy = await session.fresh_policy()
    with Reading(session.net.name):
        found = explanation(key, facts, policy, session.options)
    if found.reason == "leased":
        steps = await _steps_of(session, keys, key, id_of(facts.head))
        return with_fields(found, steps=steps.said if steps and steps.steps else "")
    waits_s = found.fields.get("waits_s", 0.0)
    if found.reason != "due" or waits_s < NO_CONSUMERS_S:
        return found
    if nobody := await no_consumers(session, await session.shards()):
        found = with_fields(replace(found, reason="no consumers", moves_in_s=None), **asdict(nobody))
        return with_fields(found, waits_s=waits_s)
    longest = await _held_longest(session)
    return with_fields(found, longest=longest._asdict()) if longest else found


def with_fields(found: Explanation, **more: Any) -> Explanation:
    return replace(found, fields={**found.fields, **more})


async def _steps_of(session: Session, keys: ShardKeys, group: str, id: str) -> MessageSteps | None:
    """What is noted of the steps of a pending message."""
    (record,) = await session.net.read([("HGET", keys.body(group), id)])
    with Reading(session.net.name):
        return record_steps(session.options.queue, group, id, record or b"", is_dead=False)


async def no_consumers(session: Session, shards: Sequence[ShardKeys]) -> NoConsumers | None:
    """Whether groups are due and nobody consumes; None also where the user may not see that. Raises ServerError."""
    options = session.options
    async with session.net.alone() as alone:
        with Reading(session.net.name):
            return await find_no_consumers(alone, shards, options.namespace, options.queue)


class LongestHeld(NamedTuple):
    """What consumers have in progress longest."""

    held_s: float
    group: tuple[str, ...]
    owner: str


async def _held_longest(session: Session) -> LongestHeld | None:
    """What consumers have in progress longest, of all shards, as they serve them all. None where that is shorter than
    NO_CONSUMERS_S, as they are only busy, or the user may not read leases. Raises ServerError.
    """
    found: list[LongestHeld] = []
    for keys in await session.shards():
        try:
            now_us, leases = await now_of(session.net, keys), await leases_of(session.net, keys)
        except ServerNotUsable:
            return None
        with Reading(session.net.name):
            since = {group: number for group, lease in leases.items() if (number := number_of(lease))}
            oldest = sorted(since, key=since.__getitem__)[:PAGE]  # those that ran out are few
        times = (await session.net.read([("ZMSCORE", keys.schedule, *oldest)]))[0] if oldest else []
        with Reading(session.net.name):
            for group, at in zip(oldest, times, strict=True):
                held_s, lease = (now_us - since[group]) / 1e6, leases[group]
                if held_s >= NO_CONSUMERS_S and at is not None and is_leased(float(at), lease, now_us):
                    found.append(LongestHeld(held_s, decode_group(text(group)), owner_of(lease)))
                    break
    return max(found, default=None)


async def policy(session: Session) -> Policy:
    """The queue's policy as the server has it now, after what this client asks for. Raises ServerError."""
    await session.shards(register=bool(session.options.policy))
    return await session.fresh_policy()


# -- what several views read -----------------------------------------------------------------------------------


async def now_of(net: Reader, keys: ShardKeys) -> int:
    """The time of a shard's server, in us."""
    answer = (await net.read([("TIME",)]))[0]
    with Reading(net.name):
        return micros(answer)


async def leases_of(net: Reader, keys: ShardKeys) -> dict[bytes, bytes]:
    """Every lease of a shard: group -> token and owner. Bounded by consumers times groups a claim."""
    found: dict[bytes, bytes] = {}
    async for words in scan(net, "HSCAN", keys.leases, count=PAGE):
        with Reading(net.name):
            found.update(pairs(words))
    return found


def pages(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[i : i + PAGE] for i in range(0, len(items), PAGE))
