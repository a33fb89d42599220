"""One pure function per script: typed arguments in, a `Call` out, and the parser of its reply.

Seconds become integers here and nowhere else. `repeatable`: whether the network layer may send the call again when it
does not know the outcome (not a claim, which would lease twice, nor an append that replaces).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from .claimed import Claimed, parse_claimed
from .errors import InvalidMessage
from .keys import LaneKeys
from .options import AUDIT_LENGTH, ClaimLimits
from .records import STAMP_DIGITS
from .words import dumps_words

T = TypeVar("T")

MAX_APPEND = 1000
"""Messages in one append call: the script's longest `unpack`, and about 10 ms of the server's time."""


Args = tuple[str | bytes, ...]


class Call(NamedTuple, Generic[T]):
    """A script's name, KEYS, ARGV and the function that reads its reply."""

    script: str
    keys: tuple[str, ...]
    args: Args
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


def _parse_mark(reply: bytes) -> list[Mark]:
    if len(reply) != _MARK_SIZE:
        raise ValueError(f"{len(reply)} bytes say what became of one message")
    return [Mark(_MARKS[reply[0]], int(reply[1:]))]


def _parse_marks(reply: bytes, count: int) -> list[Mark]:
    if _speaks_for_all(reply, count):
        return [Mark(_MARKS[reply[0]], stamp) for stamp in range(int(reply[1:]), int(reply[1:]) + count)]
    return [Mark(_MARKS[reply[i]], int(reply[i + 1 : i + _MARK_SIZE])) for i in range(0, len(reply), _MARK_SIZE)]


_OUTCOMES = {letter: Mark(outcome, 0) for letter, outcome in _MARKS.items()}


def _parse_outcomes(reply: bytes, count: int) -> list[Mark]:
    if _speaks_for_all(reply, count):
        return [_OUTCOMES[reply[0]]] * count
    return [_OUTCOMES[letter] for letter in reply[::_MARK_SIZE]]


def _speaks_for_all(reply: bytes, count: int) -> bool:
    """Whether the first mark is all that is said: of several messages, that each is stored, with stamps in a row.

    Raises ValueError.
    """
    is_first = len(reply) == _MARK_SIZE and (count == 1 or reply[:1] == b"+")
    if not is_first and len(reply) != count * _MARK_SIZE:
        raise ValueError(f"{len(reply)} bytes say what became of {count} messages")
    return is_first


def append(
    keys: LaneKeys,
    items: Sequence[Item],
    *,
    on_conflict: OnConflict = "none",
    with_stamps: bool = True,
    now_us: int | None = None,
) -> Call[list[Mark]]:
    """Store up to 1,000 messages of one lane, atomically; `on_conflict` says what a conflict does to the others.

    Without `with_stamps` the marks of several have 0 for a stamp, and are read many times as fast.

    "none" and "error" store nothing then, "others" the rest; "replace" takes the place of what is pending under the id,
    which a repeat would do again after that was handled; "check" and "check_replace" only say what would be.
    """
    if not 1 <= len(items) <= MAX_APPEND:
        raise InvalidMessage(f"one append call takes 1 to {MAX_APPEND} messages, got {len(items)}")
    group, message_id, score, envelope, due = items[0]
    if len(items) == 1 and not due:
        args: Args = (on_conflict, now_text(now_us), "", envelope, group, message_id, score)
    else:
        flat = [word for item in items for word in item[:3]]
        dues = [word for position, item in enumerate(items, 1) if item.due for word in (position, item.due)]
        args = (on_conflict, now_text(now_us), dumps_words([flat, dues]), *[item.envelope for item in items])
    written = (keys.schedule, keys.clock, keys.dispatch, keys.stats)
    is_repeatable = on_conflict not in ("replace", "error_replace")
    if len(items) == 1:
        return Call("append", written, args, _parse_mark, is_repeatable)
    parse = _parse_marks if with_stamps else _parse_outcomes
    return Call("append", written, args, lambda reply: parse(reply, len(items)), is_repeatable)


# -- claim ----------------------------------------------------------------------------------------------------


def claim(
    keys: LaneKeys,
    queue: str,
    owner: str,
    lease_s: float,
    limits: ClaimLimits,
    *,
    ahead: bool = False,
    alone: int | None = None,
    now_us: int | None = None,
) -> Call[Claimed]:
    """Lease due groups and read their first messages, within the limits; `ahead` of the time when they are needed.

    With `alone` it leaves half of the groups that are due, so that other consumers find some, and its own next claim;
    of a group that is due alone it takes so many messages, if the limits have fewer.
    """
    flags = ("1" if ahead else "0", "" if alone is None else str(alone))
    rules, sizes = (keys.policy, keys.memory, keys.paused), (limits.groups, limits.messages, limits.bytes)
    return Call(
        "claim",
        (keys.schedule, keys.leases, keys.clock, keys.dispatch, keys.stats, keys.failures, *rules),
        (keys.prefix, owner, _ms(lease_s), *map(str, sizes), now_text(now_us), *flags),
        lambda reply: parse_claimed(reply, queue),
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


class Acked(NamedTuple):
    """The entries that were refused for their token, and whether groups were due then, but for those given back."""

    refused: list[Ack]
    is_more_due: bool


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
) -> Call[Acked]:
    """Remove handled messages and release groups."""
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
        lambda reply: Acked([acks[position - 1] for position in reply[1:]], reply[0] > 0),
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
