"""One pure function per script: typed arguments in, a `Call` out, and the parser of its reply.

Seconds become integers here and nowhere else. `repeatable`: whether the network layer may send the call again when it
does not know the outcome (not a claim, which would lease twice, nor an append that replaces).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from .codec import STAMP_DIGITS, decode_record, raw_message
from .errors import InvalidMessage
from .keys import LaneKeys, decode_group
from .message import Message
from .options import AUDIT_LENGTH, ClaimLimits
from .policy import Sequenced
from .words import dumps_words, loads_words

T = TypeVar("T")

MAX_APPEND = 1000
"""Messages in one append call: the script's longest `unpack`, and about 10 ms of the server's time."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A script's name, KEYS, ARGV and the function that reads its reply."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str | bytes, ...]
    parse: Callable[[Any], T]
    repeatable: bool = True


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def now_text(now_us: int | None) -> str:
    """The time as scripts take it: "" for the server's own."""
    return "" if now_us is None else str(now_us)


# -- append ---------------------------------------------------------------------------------------------------


class Item(NamedTuple):
    """A checked message, ready to send: encoded group, id, score text ("" for the time of arrival or its due time),
    envelope, and when it is due: us since 1970, "+" and us from now, or "".
    """

    group: str
    id: str
    score: str
    envelope: bytes
    due: str = ""


class Mark(NamedTuple):
    """What became of one item, and the stamp of the message that is pending under its id, 0 when that was handled.

    "taken": its number is pending under another id. "undone" is a "stored" of a call that stored nothing, because
    another item of it was refused.
    """

    outcome: Outcome
    stamp: int


OnConflict = Literal["none", "others", "error", "check", "replace", "check_replace", "error_replace"]
Outcome = Literal["stored", "duplicate", "conflict", "taken", "refused", "dropped", "dead_letter", "undone"]
REFUSALS: tuple[Outcome, ...] = ("conflict", "taken", "refused")
_MARKS: dict[int, Outcome] = {
    ord("+"): "stored",
    ord("="): "duplicate",
    ord("!"): "conflict",
    ord("#"): "taken",
    ord("<"): "refused",
    ord("~"): "dropped",
    ord("x"): "dead_letter",
}
_MARK_SIZE = 1 + STAMP_DIGITS


def _parse_marks(reply: bytes) -> list[Mark]:
    return [Mark(_MARKS[reply[i]], int(reply[i + 1 : i + _MARK_SIZE])) for i in range(0, len(reply), _MARK_SIZE)]


def append(
    keys: LaneKeys,
    items: Sequence[Item],
    *,
    on_conflict: OnConflict = "none",
    now_us: int | None = None,
) -> Call[list[Mark]]:
    """Store up to 1,000 messages of one lane, atomically; `on_conflict` says what a conflict does to the others.

    "none" and "error" store nothing then, "others" the rest; "replace" takes the place of what is pending under the id,
    which a repeat would do again after that was handled; "check" and "check_replace" only say what would be.
    """
    if not 1 <= len(items) <= MAX_APPEND:
        raise InvalidMessage(f"one append call takes 1 to {MAX_APPEND} messages, got {len(items)}")
    words = dumps_words([(*item[:3], item.due) if item.due else item[:3] for item in items])
    return Call(
        "append",
        (keys.schedule, keys.clock, keys.dispatch, keys.stats, keys.leases, keys.failures, keys.policy, keys.memory),
        (keys.prefix, on_conflict, now_text(now_us), words, *[item.envelope for item in items]),
        _parse_marks,
        repeatable=on_conflict not in ("replace", "error_replace"),
    )


# -- claim ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LeasedGroup:
    """One group of a claim: its messages in order, and the member each of them is in Redis."""

    key: str
    group: tuple[str, ...]
    token: str
    expired_owner: str
    """Whose lease on this group ran out just before, or ""."""
    messages: list[Message]
    members: list[str]
    scores: list[str]
    mark: str
    """The group's watermark as the server keeps it, or ""."""
    on_late: str
    """What becomes of messages below it: "drop" and "dead_letter" give them up; else they are handled."""
    undecodable: str = ""
    """Why the last of `messages` can't be handled (its body is shown as text), or ""."""
    claimed_at: float = 0.0
    """When the claim was answered, by the consumer's own clock."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took; `groups` is empty when nothing was due."""

    groups: list[LeasedGroup]
    next_due_s: float | None = None
    """Seconds until something will be due, if known; only when idle."""
    is_empty: bool = False
    """Whether nothing is left but parked or paused groups; only when idle."""


def _parse_claimed(reply: list[Any], queue: str) -> Claimed:
    if len(reply) == 4 and isinstance(reply[2], int):
        now_us, due, groups, parked = reply
        wait = None if due in (b"", b"inf") else max(0.0, (float(due) - now_us) / 1e6)
        return Claimed([], wait, groups == parked)
    _, token, words, records = reply
    number, text = int(token), token.decode()
    at = 0
    groups = []
    for entry in loads_words(words) or ():
        group = decode_group(entry[0])
        messages: list[Message] = []
        key, owner, mark, on_late = entry[:4]
        members, scores = entry[4::3], entry[5::3]
        below = late_below(mark)
        undecodable = ""
        for member, score, size in zip(members, scores, entry[6::3], strict=True):
            record = records[at : at + size]
            at += size
            if not undecodable:
                try:
                    messages.append(decode_record(member, score, record, group, number, queue, below))
                except ValueError as error:
                    messages.append(raw_message(member, score, record, group, number, queue, below))
                    undecodable = str(error) if record else "the message has no body in Redis"
        members = members[: len(messages)]
        groups.append(LeasedGroup(key, group, text, owner, messages, members, scores, mark, on_late, undecodable))
    return Claimed(groups, None if groups else 0.0)


def late_below(mark: str) -> float:
    """Messages with a score under this are late."""
    if mark in ("", "#"):
        return -math.inf
    return Sequenced.parse(mark).number + 1 if mark.startswith("#") else float(mark)


def claim(
    keys: LaneKeys,
    queue: str,
    owner: str,
    lease_s: float,
    limits: ClaimLimits,
    *,
    now_us: int | None = None,
) -> Call[Claimed]:
    """Lease due groups and read their first messages, within the limits."""
    rules, sizes = (keys.policy, keys.memory, keys.paused), (limits.groups, limits.messages, limits.bytes)
    return Call(
        "claim",
        (keys.schedule, keys.leases, keys.clock, keys.dispatch, keys.stats, keys.failures, *rules),
        (keys.prefix, owner, _ms(lease_s), *map(str, sizes), now_text(now_us)),
        lambda reply: _parse_claimed(reply, queue),
        repeatable=False,
    )


# -- ack, nack, renew, release -------------------------------------------------------------------------------


class Run(NamedTuple):
    """One handler run for the audit stream; times in us of the lane's clock, from the claim on."""

    id: str
    score: str
    stamp: str
    began: str
    ended: str
    redriven: str


class Ack(NamedTuple):
    """Members of one leased group that were handled, and whether the group is given back. No members: release only."""

    group: str
    token: str
    members: list[str]
    release: bool
    mark: str = ""
    """The group's watermark with these members handled; "" leaves it."""
    late: int = 0
    """How many of them were late."""
    runs: Sequence[Run] = ()


class Nack(NamedTuple):
    """A failed head, and what becomes of it; `failure` is kept."""

    group: str
    token: str
    member: str
    attempts: int
    delay_s: float | None
    """Until its group may be claimed again; None for the end of trying, by `ending`."""
    failure: bytes
    ending: Literal["park", "dead", "drop"] = "park"
    mark: str = ""
    """The group's watermark if the message is passed ("dead", "drop"); "" leaves it."""
    is_late: bool = False


def ack(
    keys: LaneKeys,
    acks: Sequence[Ack],
    *,
    hint: bool = True,
    audit_length: int = AUDIT_LENGTH,
    now_us: int | None = None,
) -> Call[list[Ack]]:
    """Remove handled messages and release groups; returns the entries that were refused for their token."""
    words = dumps_words([[a.group, a.token, "1" if a.release else "0", a.mark, a.late, *a.members] for a in acks])
    runs = [[position, *run] for position, entry in enumerate(acks, 1) for run in entry.runs]
    return Call(
        "ack",
        (keys.schedule, keys.leases, keys.failures, keys.dispatch, keys.stats, keys.policy, keys.memory, keys.audit),
        (
            keys.prefix,
            words,
            "1" if hint else "0",
            *(now_text(now_us), str(audit_length)),
            dumps_words(runs) if runs else "",
        ),
        lambda reply: [acks[position - 1] for position in reply],
    )


def nack(keys: LaneKeys, entry: Nack, *, now_us: int | None = None) -> Call[bool]:
    """Record a failure of a leased group's head; False when the token is not valid."""
    fate = entry.ending if entry.delay_s is None else _ms(entry.delay_s)
    is_late = "1" if entry.is_late else "0"
    return Call(
        "nack",
        (keys.schedule, keys.leases, keys.failures, keys.stats, keys.dispatch, keys.policy, keys.memory),
        (keys.prefix, *entry[:3], str(entry.attempts), fate, entry.failure, entry.mark, is_late, now_text(now_us)),
        bool,
    )


def renew(
    keys: LaneKeys, leases: Sequence[tuple[str, str]], lease_s: float, *, now_us: int | None = None
) -> Call[list[tuple[str, str]]]:
    """Prolong (group, token) leases; returns those that are no longer valid."""
    return Call(
        "renew",
        (keys.schedule, keys.leases),
        (dumps_words(leases), _ms(lease_s), now_text(now_us)),
        lambda reply: [leases[position - 1] for position in reply],
    )
