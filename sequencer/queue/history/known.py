"""What is known of one message, by its group and id or by its id alone, while it is there and after its end. Operations
over a net; nothing writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ... import calls
from ...settings.options import QueueOptions
from ...store.envelope import RERUN_OF, encode_id
from ...store.failure import decode_failure
from ...store.group import decode_group, encode_group
from ...store.history.ending import decode_ending, field_of, parts_of
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterContent, id_of, number_of, owner_of, readable_message, stamp_of
from ...store.replies import Reading
from ...store.watermark import late_below
from ...texts.commands import command
from ...values.history import MessageInfo, MessageState, MessageSteps, Status
from ...values.message import Failure, Message
from ...values.views import DeadLetter
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..session import Session
from ..state import message_state
from ..steps.record_steps import record_steps
from .buckets import Bucket, Content, buckets_of, contents_of, escaped, read_bucket


async def get(session: Session, group: Group, id: Id) -> MessageInfo | None:
    """One message: its state, when it is due, attempts, error and content, or how it ended; None when nothing is known
    of it.
    """
    key, message_id = encode_group(group), encode_id(id)
    return await message_info(session, await session.keys_of(key), key, message_id)


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


async def with_contents(session: Session, bucket: Bucket, infos: Mapping[str, MessageInfo]) -> list[MessageInfo]:
    """Ended messages of a bucket, by field, with what it keeps of them."""
    contents = await contents_of(session.net, bucket, [*infos])
    queue = session.options.queue
    return [
        with_content(info, parts_of(field)[0], content, queue)
        for (field, info), content in zip(infos.items(), contents, strict=True)
    ]
