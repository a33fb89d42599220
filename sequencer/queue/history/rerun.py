"""Runs a message that ended again. An operation over a net."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import calls
from ...errors import MessageNotFound, RerunRefused, Undecodable
from ...store.envelope import decode_envelope, encode_envelope, encode_id
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.ledger import Written, decode_ledger, encode_ledger
from ...store.record import DeadLetterContent, decode_head, stamp_of
from ...values.history import RERUN_OF
from ...values.message import Receipt
from ..session import Session
from .known import message_info

_COUNTED = re.compile(r"(.*)~([0-9]{1,9})", re.DOTALL)


async def rerun(session: Session, group: Group, id: Id, *, keep_steps: bool = False) -> Receipt:
    """Append an ended message again: same group, score, body and headers, under a new id: `e3~2` for `e3`, and `e3~3`
    for that. The history links the two.

    It takes its place by its score, like a redriven dead letter, and is never dropped as late. All steps run again,
    even `once` steps that took effect; with `keep_steps`, those that are done stay done. A message can be rerun once: a
    repeated call adds nothing, and its receipt has the same id and is a `duplicate`; for another run, rerun the new
    one. Raises MessageNotFound, RerunRefused, QueueFull.
    """
    key, message_id = encode_group(group), encode_id(id)
    keys = await session.keys_of(key, "operate")
    facts = await session.ask(calls.inspect(keys, key, message_id))
    record = b"" if facts.member else DeadLetterContent.parse(facts.kept).record
    about: dict[str, Any] = {"id": message_id, "group": decode_group(key), **session.names}
    if not record:
        raise await _refusal(session, keys, key, about)
    head = decode_head(record)
    try:
        body, headers = decode_envelope(record[head.size :])
        written = _kept_steps(head.written, about) if keep_steps else None
    except (ValueError, Undecodable) as error:
        raise RerunRefused("content_unreadable", **about, error=str(error)) from error
    envelope = encode_envelope(body, {**headers, RERUN_OF: message_id}, sys.maxsize)
    new_id = _next(message_id, is_rerun=RERUN_OF in headers)
    encode_id("~".join(map(str, new_id)))
    done = await session.ask(calls.rerun(keys, key, message_id, stamp_of(record), new_id, envelope, written))
    if done.status in ("pending", "missing"):
        raise RerunRefused("history_changed", **about)
    if done.status == "added":
        return Receipt(done.id, done.stamp, False, "stored")
    return Receipt(done.id, None, True, "duplicate")


def _next(message_id: str, *, is_rerun: bool) -> tuple[str, int]:
    """Base and number of the next id. An id that only looks like one of ours is a first one."""
    counted = _COUNTED.fullmatch(message_id) if is_rerun else None
    return (counted[1], int(counted[2]) + 1) if counted else (message_id, 2)


def _kept_steps(written: Written | None, about: Mapping[str, Any]) -> Written | None:
    """A ledger with the steps that are done, and the `once` steps that were given up: those do not run again by
    themselves. The others start over. Raises RerunRefused, LedgerError.
    """
    if written is None:
        return None
    ledger = decode_ledger(written.ledger)
    if asked := [entry.name for entry in ledger.entries if entry.once and entry.state in ("started", "failed")]:
        raise RerunRefused("steps_unresolved", **about, steps=asked)
    entries = tuple(e for e in ledger.entries if e.state == "done" or (e.once and e.state == "left"))
    kept = replace(ledger, entries=entries, log=())
    return Written(encode_ledger(kept), 1, kept.has_effects) if entries else None


async def _refusal(
    session: Session, keys: ShardKeys, group: str, about: Mapping[str, Any]
) -> MessageNotFound | RerunRefused:
    info = await message_info(session, keys, group, about["id"])
    if info is None:
        return MessageNotFound("message_unknown", **about)
    if info.state == "dead":
        return RerunRefused("is_dead_letter", **about)
    if info.status in ("pending", "running") or info.state == "parked":
        return RerunRefused("not_ended", **about, state=info.state)
    is_kept = (await session.fresh_policy()).history_bodies
    return RerunRefused("content_gone" if is_kept else "contents_not_kept", **about)
