"""Calls of the scripts that people use on a queue rather than consumers: resume, step, revise, pause, redrive, look.

As in calls.py: typed arguments in, a `Call` out, and the parser of its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from .calls import Call, now_text
from .keys import LaneKeys
from .words import dumps_words

Redriving = Literal["redriven", "missing", "pending"]


class Resumed(NamedTuple):
    """Outcome of `resume`, with score and record of the removed message when it skipped one."""

    status: Literal["resumed", "due", "leased", "changed", "missing", "unfailed"]
    score: str
    record: bytes


def resume(
    keys: LaneKeys,
    group: str,
    failure: bytes,
    member: str,
    *,
    skip: bool = False,
    look: bool = False,
    mark: str = "",
    now_us: int | None = None,
) -> Call[Resumed]:
    """Make a parked or waiting group due; with `skip`, remove the failed member first and set the watermark; with
    `look`, only a group without a failure, so that a claim looks at it again.
    """
    return Call(
        "resume",
        (keys.schedule, keys.leases, keys.failures, keys.dispatch, keys.stats, keys.policy, keys.memory),
        (keys.prefix, group, failure, member, "look" if look else "1" if skip else "0", mark, now_text(now_us)),
        lambda reply: Resumed(reply[0].decode(), reply[1].decode(), reply[2]),
    )


def step(
    keys: LaneKeys, group: str, member: str, old_mark: str, mark: str, *, now_us: int | None = None
) -> Call[Literal["stepped", "leased", "changed"]]:
    """Set the watermark of a sequence to just before its head, if head and watermark are still those."""
    return Call(
        "step",
        (keys.schedule, keys.leases, keys.dispatch, keys.stats, keys.policy, keys.memory),
        (keys.prefix, group, member, old_mark, mark, now_text(now_us)),
        lambda reply: reply.decode(),
    )


def revise(
    keys: LaneKeys, group: str, message_id: str, score: str, due: str, *, now_us: int | None = None
) -> Call[Literal["done", "missing", "leased"]]:
    """Cancel a message (`score` ""), or give it another time and score ("due": that time if it was its score)."""
    return Call(
        "revise",
        (
            keys.schedule,
            keys.leases,
            keys.failures,
            keys.dispatch,
            keys.stats,
            keys.clock,
            keys.policy,
            keys.memory,
        ),
        (keys.prefix, group, message_id, score, due, now_text(now_us)),
        lambda reply: reply.decode(),
    )


def pause(keys: LaneKeys, group: str, is_paused: bool, *, now_us: int | None = None) -> Call[bool]:
    """Hold a group, or with "" the lane, or let it go on; whether that changed something."""
    return Call(
        "pause",
        (keys.schedule, keys.leases, keys.paused, keys.policy, keys.dispatch),
        (keys.prefix, group, "1" if is_paused else "0", now_text(now_us)),
        bool,
    )


def redrive(keys: LaneKeys, letters: Sequence[str], *, now_us: int | None = None) -> Call[list[Redriving]]:
    """Put dead letters back into their own places; what became of each."""
    outcomes: dict[int, Redriving] = {
        ord("+"): "redriven",
        ord("-"): "missing",
        ord("="): "pending",
    }
    return Call(
        "redrive",
        (
            keys.schedule,
            keys.leases,
            keys.failures,
            keys.dispatch,
            keys.stats,
            keys.dead,
            keys.letters,
            keys.clock,
            keys.policy,
            keys.memory,
        ),
        (keys.prefix, dumps_words(letters), now_text(now_us)),
        lambda reply: [outcomes[mark] for mark in reply],
    )


def purge(keys: LaneKeys, letters: Sequence[str]) -> Call[int]:
    """Delete dead letters; how many there were."""
    return Call(
        "purge",
        (keys.dead, keys.letters, keys.stats),
        (keys.prefix, dumps_words(letters)),
        int,
    )


class Facts(NamedTuple):
    """All that decides whether a group moves, at one moment; "" or b"" for what is not there."""

    now_us: int
    visible_us: float | None
    lease: bytes
    failure: bytes
    is_paused: bool
    is_queue_paused: bool
    order_size: int
    """-1: the key holds another type."""
    body_size: int
    head: str
    """Member of the head."""
    head_score: str
    head_record: bytes
    """Its first 37 bytes."""
    mark: str
    member: str
    """Of the message that was asked for, as its record says."""
    score: str
    """"" when it has a record, but no place in the order."""
    record: bytes
    is_handled: bool
    """Whether the id asked for was handled lately."""


def _parse_facts(reply: list[Any]) -> Facts:
    now_us, visible, lease, failure, paused, queue_paused, order_size, body_size, head, head_score = reply[:10]
    head_record, mark, member, score, record, handled = reply[10:]

    def text(data: bytes) -> str:
        return data.decode("utf-8", "surrogateescape")

    return Facts(
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
    )


def look(keys: LaneKeys, group: str, message_id: str = "", *, now_us: int | None = None) -> Call[Facts]:
    """Look at a group, and at one of its messages if an id is given; changes nothing."""
    return Call(
        "look",
        (keys.schedule, keys.leases, keys.failures, keys.policy, keys.memory, keys.paused),
        (keys.prefix, group, message_id, now_text(now_us)),
        _parse_facts,
    )


class Found(NamedTuple):
    """One thing that a check found broken: what, of what, its data, and whether it was mended."""

    what: str
    name: str
    detail: str
    is_mended: bool


class Checked(NamedTuple):
    """What a check of a group saw: its messages in order and in body, how many of the members and ids that were asked
    for it looked at, and what is broken."""

    order_size: int
    body_size: int
    looked_at: int
    found: list[Found]


def _parse_checked(reply: list[Any]) -> Checked:
    order_size, body_size, looked_at, found = reply
    texts = [[word.decode("utf-8", "surrogateescape") for word in words] for words in found]
    mended = [Found(what, name, detail, is_mended == "1") for what, name, detail, is_mended in texts]
    return Checked(order_size, body_size, looked_at, mended)


def mend(
    keys: LaneKeys,
    group: str,
    *,
    members: Sequence[str] = (),
    ids: Sequence[str] = (),
    letters: Sequence[str] = (),
    repair: bool = False,
    now_us: int | None = None,
) -> Call[Checked]:
    """Check a group ("" for none), some of its members and ids, and some dead letters; mend what is broken if asked."""
    return Call(
        "mend",
        (
            keys.schedule,
            keys.leases,
            keys.failures,
            keys.clock,
            keys.dispatch,
            keys.policy,
            keys.memory,
            keys.paused,
            keys.dead,
            keys.letters,
            keys.stats,
        ),
        (keys.prefix, group, dumps_words([members, ids, letters]), "1" if repair else "0", now_text(now_us)),
        _parse_checked,
    )
