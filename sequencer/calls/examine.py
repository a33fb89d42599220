"""Calls that inspect a group and its messages: what is there, and what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..store.keys import ShardKeys
from ..store.replies import text, texts
from .call import Call, on_shard


class HeldBack(NamedTuple):
    """An outage that holds the shard back: since when and its next probe in us, and its last failure."""

    since_us: int
    probe_us: int
    failure: bytes


class GroupFacts(NamedTuple):
    """All that decides whether a group moves, at one moment; "" or b"" for what is not there."""

    now_us: int
    visible_us: float | None
    lease: bytes
    failure: bytes
    is_paused: bool
    is_queue_paused: bool
    order_size: int  # -1: the key holds another type
    body_size: int
    head: str  # member of the head
    head_score: str
    head_record: bytes  # its first 37 bytes
    mark: str
    member: str  # of the message that was asked for, as its record says
    score: str  # "" when it has a record, but no place in the order
    record: bytes
    is_handled: bool  # whether the id asked for was handled lately
    outage: HeldBack | None = None  # what holds the shard back
    ended: bytes = b""  # what history says of the message that was asked for, where it is not pending
    kept: bytes = b""  # what it keeps of its content, as a dead letter does
    again: str = ""  # the id under which it was appended again


def _parse_facts(reply: list[Any]) -> GroupFacts:
    now_us, visible, lease, failure, paused, queue_paused, order_size, body_size, head, head_score = reply[:10]
    head_record, mark, member, score, record, handled, probe_us, since_us, last = reply[10:19]
    ended, kept, again = reply[19:]
    return GroupFacts(
        int(now_us),
        float(visible) if visible else None,
        lease,
        failure,
        paused == b"1",
        queue_paused == b"1",
        order_size,
        body_size,
        text(head),
        text(head_score),
        head_record,
        text(mark),
        text(member),
        text(score),
        record,
        handled == b"1",
        HeldBack(int(since_us or probe_us), int(probe_us), last) if probe_us else None,
        ended,
        kept,
        text(again),
    )


def inspect(keys: ShardKeys, group: str, message_id: str = "") -> Call[GroupFacts]:
    """Look at a group, and at one of its messages if an id is given; changes nothing."""
    return on_shard(keys, "inspect", group, message_id, parse=_parse_facts)


class Found(NamedTuple):
    """One thing that a check found broken: what, of what, its data, and whether it was repaired."""

    what: str
    name: str
    detail: str
    repaired: bool


class Checked(NamedTuple):
    """What a check of a group saw: messages in order and body, how many things it checked, and what is broken."""

    order_size: int
    body_size: int
    looked_at: int
    found: list[Found]


def _parse_checked(reply: list[Any]) -> Checked:
    order_size, body_size, looked_at, found = reply
    rows = [Found(what, name, detail, repaired == "1") for what, name, detail, repaired in map(texts, found)]
    return Checked(order_size, body_size, looked_at, rows)


def repair(
    keys: ShardKeys,
    group: str,
    *,
    members: Sequence[str] = (),
    ids: Sequence[str] = (),
    letters: Sequence[str] = (),
    skipped: Sequence[str] = (),
    dry_run: bool = True,
) -> Call[Checked]:
    """Check a group ("" for none), some of its members, ids and dead letters, and what was skipped last; or repair."""
    return on_shard(keys, "repair", group, [members, ids, letters, skipped], dry_run, parse=_parse_checked)


def find(keys: ShardKeys, message_id: str, cursor: str = "0") -> Call[tuple[str, list[str]]]:
    """Groups, encoded, of about 1,000, in which such an id waits; and the next cursor, "0" at the end."""
    return on_shard(keys, "find", message_id, cursor, parse=lambda reply: (text(reply[0]), texts(reply[1:])))
