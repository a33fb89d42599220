"""What became of the steps of a message. An operation over a net."""

from __future__ import annotations

from ...drain.steps.rules import questions
from ...store.envelope import encode_id
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import LaneKeys
from ...store.ledger import LedgerError, Written, decode_ledger, step_key
from ...store.record import STAMP_DIGITS, Kept, written_of
from ...store.replies import Reading, text
from ...values.history import MessageSteps, StepFailure, StepInfo
from ..dead_letters.listed import DeadLetterFilter, oldest
from ..session import Session


async def steps(session: Session, group: Group, id: Id | None = None) -> MessageSteps | None:
    """What became of each step of a message, pending or dead; without an `id` of the head of its group.

    None where there is no such message. Raises InvalidGroup, InvalidId, ServerError.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, register=False)
    if wanted is None:
        (heads,) = await session.net.read(keys.order(key), [("ZRANGE", keys.order(key), 0, 0)])
        if not heads:
            return None
        with Reading(session.net.name):
            wanted = heads[0].decode()[STAMP_DIGITS:]
    record, lease = await session.net.read(
        keys.body(key), [("HGET", keys.body(key), wanted), ("HGET", keys.leases, key)]
    )
    is_dead = record is None
    if is_dead:
        record = await _dead_record(session, keys, key, wanted)
        if record is None:
            return None
    with Reading(session.net.name):
        token = text(lease or b"")[:STAMP_DIGITS]
        return _seen(session.options.queue, key, wanted, written_of(record), token, is_dead=is_dead)


async def _dead_record(session: Session, keys: LaneKeys, group: str, id: str) -> bytes | None:
    for letter in await oldest(session, [keys], DeadLetterFilter(group, id)):
        (kept,) = await session.net.read(keys.letters, [("HGET", keys.letters, letter.letter)])
        return None if kept is None else Kept.parse(kept).record
    return None


def _seen(queue: str, group: str, id: str, written: Written | None, token: str, *, is_dead: bool) -> MessageSteps:
    """`token`: of the lease on the group; a step that was started under it may be running just now."""
    parts = decode_group(group)
    if written is None:
        return MessageSteps(id, parts, is_dead, (), (), ())
    try:
        ledger = decode_ledger(written.ledger)
    except LedgerError as error:
        return MessageSteps(id, parts, is_dead, (), (), (), str(error))
    found = tuple(
        StepInfo(
            one.name,
            one.state,
            one.once,
            one.optional,
            one.tries,
            one.turn,
            one.at or None,
            one.took_s,
            one.who,
            one.result,
            one.error,
            step_key(queue, group, id, ledger.stamp, one),
        )
        for one in ledger.entries
    )
    failures = tuple(StepFailure(one.attempt, one.at, one.error) for one in ledger.log)
    asked = tuple(
        one.name for one in questions(ledger) if not (one.state == "started" and token == f"{one.token:016d}")
    )
    return MessageSteps(id, parts, is_dead, found, failures, asked)
