"""What is known of one message, while it is there and after its end. Operations over a net; nothing writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ... import calls
from ...calls.net_protocol import Net
from ...store.ending import PADDING, decode_ending, field_of, parts_of
from ...store.envelope import encode_id
from ...store.failure import decode_failure
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys, escaped
from ...store.record import STAMP_DIGITS, DeadLetterContent, id_of, number_of, owner_of, readable_message, stamp_of
from ...store.replies import Reading, pairs, text
from ...store.watermark import late_below
from ...texts.refusals import refusal_text
from ...values.history import RERUN_OF, MessageInfo, MessageSteps
from ...values.message import Failure
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..pages import batches, scan
from ..session import Session
from ..state import message_state
from ..steps.record_steps import record_steps
from .buckets import Bucket, buckets_of


async def get(session: Session, group: Group, id: Id) -> MessageInfo | None:
    """One message: its state, when it is due, attempts, error and content, or how it ended; None if it is unknown.

    For an id that is not pending, the names of all dead letters of its shard are read: some 2.5 ms a thousand.
    """
    key, message_id = encode_group(group), encode_id(id)
    return await message_info(session, await session.keys_of(key), key, message_id)


async def steps(session: Session, group: Group, id: Id | None = None) -> MessageSteps | None:
    """The outcome of each step of a message that is pending or dead, or has ended if the queue has `history_bodies`;
    without an `id`, of the message that failed, else of the head.

    None if there is no such message. Raises InvalidGroup, InvalidId, ServerError.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key)
    if wanted is None:
        facts = await session.ask(calls.inspect(keys, key))
        # Once a late message stands before the one that failed, that is not the head any more, and is still asked for.
        wanted = id_of(decode_failure(facts.failure)[1] or facts.head)
    info = await message_info(session, keys, key, wanted) if wanted else None
    if info is None or info.message is None:
        return None
    return info.steps or MessageSteps(wanted, info.group, info.state == "dead", (), (), ())


async def message_info(session: Session, keys: ShardKeys, key: str, message_id: str) -> MessageInfo | None:
    """As `get`, by encoded group and id."""
    facts = await session.ask(calls.inspect(keys, key, message_id))
    if facts.member:
        with Reading(session.net.name):
            return _pending_info(facts, key, session.options.queue)
    for dead in await oldest(session, [keys], DeadLetterFilter(key, message_id)):
        return dead.info
    if facts.ended and (ended := info_of(field_of(key, message_id), facts.ended)):
        return with_content(ended, key, facts.kept, facts.again, session.options.queue)
    if facts.is_handled:
        return MessageInfo(message_id, decode_group(key), "handled", note=refusal_text("only_id_known", session.names))
    return None


def _pending_info(facts: calls.GroupFacts, group: str, queue: str) -> MessageInfo:
    place = (facts.member, facts.score or "nan", facts.record)
    message = readable_message(*place, decode_group(group), 0, queue, late_below(facts.mark))
    failure, member = decode_failure(facts.failure)
    error = failure if member and member == facts.member else None
    state, due_us = message_state(facts)
    token = number_of(facts.lease)
    steps = record_steps(queue, group, message.id, facts.record, is_dead=False, token=token)
    return MessageInfo.of(
        message,
        state,
        due_in_s=None if due_us is None else max(0.0, (due_us - facts.now_us) / 1e6),
        attempts=_attempts(message.attempt - 1, steps, error),
        error=error,
        steps=steps,
        began_at=token / 1e6 if state == "leased" else None,
        consumer=owner_of(facts.lease) if state == "leased" else "",
    )


def _attempts(counted: int, steps: MessageSteps | None, error: Failure | None) -> int:
    """Steps count their own attempts."""
    if steps is None:
        return counted
    return max([counted, error.attempt if error else 0, *(step.attempts for step in steps.steps)])


async def find(session: Session, id: Id) -> list[MessageInfo]:
    """The messages with this id in all groups: pending, dead, or ended as far as the history goes.

    At most one per group, as from `get`, ordered by group. Groups and history are searched in slices of 1,000, about a
    second of the server's time per million. An id that is only remembered as handled is not found.
    Raises InvalidId.
    """
    message_id = encode_id(id)
    found: dict[tuple[str, ...], MessageInfo] = {}
    for keys in (await session.reachable()).shards:
        # In the order in which a message moves: one that moves meanwhile is met behind.
        for group in await _groups_with(session, keys, message_id):
            if known := await message_info(session, keys, group, message_id):
                found[known.group] = known
        for dead in await oldest(session, [keys], DeadLetterFilter(id=message_id)):
            found.setdefault(dead.message.group, dead.info)
        for bucket in await buckets_of(session.net, keys):  # the newest first
            infos = await infos_in(session.net, bucket, f"*\n{escaped(message_id)}", lambda info: info.id == message_id)
            for info in await with_contents(session, bucket, infos):
                found.setdefault(info.group, info)
    return [found[group] for group in sorted(found)]


async def _groups_with(session: Session, keys: ShardKeys, message_id: str) -> list[str]:
    found: dict[str, None] = {}
    cursor = ""
    while cursor != "0":
        cursor, groups = await session.ask(calls.find(keys, message_id, cursor or "0"))
        found.update(dict.fromkeys(groups))
    return list(found)


# -- messages that ended ----------------------------------------------------------------------------------------


SLICE, CONTENTS = 1000, 20
"""Messages that the server looks at for one answer: below 1 ms; bodies read in one round trip."""


async def infos_in(
    net: Net, bucket: Bucket, pattern: str | None, is_meant: Callable[[MessageInfo], bool]
) -> dict[str, MessageInfo]:
    """The messages of a bucket that are meant, by field; only what fits a pattern of the server's, if given."""
    found: dict[str, MessageInfo] = {}
    place = () if pattern is None else ("MATCH", pattern)
    async for words in scan(net, "HSCAN", bucket.keys.history(bucket.name), count=SLICE, options=place):
        with Reading(net.name):
            for field, value in pairs(words):
                info = info_of(name := text(field), value)
                if name != PADDING and info and is_meant(info):
                    found[name] = info
    return found


def info_of(field: str, value: bytes) -> MessageInfo | None:
    """A message of the history; None for what no client of ours wrote: it must not hide what stands beside it."""
    group, message_id = parts_of(field)
    try:
        ending = decode_ending(value)
    except ValueError:
        return None
    return MessageInfo(
        message_id,
        decode_group(group),
        ending.outcome,
        attempts=ending.attempts,
        appended_at=ending.appended_ms / 1000,
        began_at=None if ending.began_ms is None else ending.began_ms / 1000,
        finished_at=ending.ended_ms / 1000,
        consumer=ending.consumer,
        kind=ending.kind,
        note=ending.note,
    )


def with_content(info: MessageInfo, group: str, kept: bytes, again: str, queue: str) -> MessageInfo:
    """An ended message of an encoded group, with what is kept of it and the id of its rerun. Never raises."""
    score, failure, record = DeadLetterContent.parse(kept)
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
        rerun_as=again,
    )


async def with_contents(session: Session, bucket: Bucket, infos: Mapping[str, MessageInfo]) -> list[MessageInfo]:
    """Ended messages of a bucket, by field, with what it keeps of them: one answer each, as some are large."""
    if not bucket.has_bodies:
        return [*infos.values()]
    key, found = bucket.keys.bodies(bucket.name), list[MessageInfo]()
    for some in batches([*infos], CONTENTS):
        replies = await session.net.read([("HMGET", key, field, f"\n{field}") for field in some])
        for field, (kept, link) in zip(some, replies, strict=True):
            stamp, again = text(link or b"")[:STAMP_DIGITS], text(link or b"")[STAMP_DIGITS:]
            is_about = stamp_of(DeadLetterContent.parse(kept or b"").record) == stamp
            group, again = parts_of(field)[0], again if is_about else ""
            found.append(with_content(infos[field], group, kept or b"", again, session.options.queue))
    return found
