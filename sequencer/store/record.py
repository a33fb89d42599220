"""Records as a group's hash holds them, and what is read of them. Pure.

A record is 16 digits of stamp, 4 digits of attempts, a flag, for some flags 16 digits of a due time in us, then the
envelope: the head lets scripts count attempts and compare content without ever decoding JSON of a user.

Flags: `A` plain, and its score is its arrival, which its stamp tells too; `0` plain, with a score of its own; `D` not
before its due time; `T` the same, and that time is its score; `R` redriven.

In lower case (`o` for `0`) the flag says that the message has a ledger. Before the envelope stand then an effects digit
(1: what was done must not be thrown away), 4 hex digits of a serial, 6 of a length, and this many bytes of a ledger. In
Lua parts/record.lua cuts a record in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from ..errors import Undecodable
from ..values.message import Message
from ..values.views import DeadLetter
from .envelope import decode_envelope
from .failure import decode_failure
from .group import decode_group
from .ledger import Written, written_at

STAMP_DIGITS = 16
FLAG_AT = STAMP_DIGITS + 4
RECORD_HEAD = FLAG_AT + 1
DUE_HEAD = RECORD_HEAD + STAMP_DIGITS
REDRIVEN, HAS_DUE, HAS_LEDGER = b"Rr", b"DTdt", b"aodtr"
_PLAIN = dict(zip("aodtr", "A0DTR", strict=True))
_WITH_LEDGER = {bytes([flag]) for flag in HAS_LEDGER}
LEASE_HEAD = STAMP_DIGITS + 1
"""A lease, as the hash of leases holds it: token, "1" if no other group was claimed with it or "0", then the owner."""
OWNER_WIDTH = 65 - LEASE_HEAD
"""An owner is padded to this width: a value of more than 64 bytes makes the server keep the leases as a hash table.

In its packed form each look for a group goes through all of them: with 100 leases that is a third of a claim.
"""


def padded_owner(owner: str) -> str:
    """An owner as it is kept."""
    return owner.ljust(OWNER_WIDTH)


def owner_of(lease: bytes) -> str:
    """Who holds a lease, without the padding."""
    return lease[LEASE_HEAD:].decode("utf-8", "replace").rstrip(" ")


def id_of(member: str) -> str:
    """The id in a member of an order; "" of none."""
    return member[STAMP_DIGITS:]


def stamp_of(word: str | bytes) -> str:
    """What stands in the place of the stamp or token: at the beginning of a member, a record, a lease."""
    found = word[:STAMP_DIGITS]
    return found if isinstance(found, str) else found.decode("latin-1")


def number_of(word: str | bytes) -> int:
    """The stamp with which a member begins, or the token of a lease; 0 for what no client of ours wrote."""
    digits = word[:STAMP_DIGITS]
    return int(digits) if digits.isdigit() and digits.isascii() else 0


class Head(NamedTuple):
    """What stands before the envelope of a record: what scripts read of it, and the ledger."""

    attempts: int
    flag: str
    """In upper case, whether it has a ledger or not."""
    due_us: int | None
    size: int
    """Where the envelope begins."""
    written: Written | None = None


def decode_head(record: bytes) -> Head:
    """Never raises: what can't be read is 0, as for a message that lost its record."""
    attempts, flag = record[STAMP_DIGITS:FLAG_AT], record[FLAG_AT:RECORD_HEAD]
    due = record[RECORD_HEAD:DUE_HEAD] if flag and flag in HAS_DUE else b""
    size = DUE_HEAD if flag and flag in HAS_DUE else RECORD_HEAD
    written = None
    if flag and flag in HAS_LEDGER:
        written, size = written_at(record, size)
    name = flag.decode("latin-1")
    return Head(
        int(attempts) if attempts.isdigit() else 0,
        _PLAIN.get(name, name),
        int(due) if due.isdigit() else None,
        size,
        written,
    )


def written_of(record: bytes) -> Written | None:
    """The ledger of a record, if it has one."""
    return decode_head(record).written if record[FLAG_AT:RECORD_HEAD] in _WITH_LEDGER else None


def decode_record(
    member: str, score: str, record: bytes, group: tuple[str, ...], token: int, queue: str, below: float = -math.inf
) -> Message:
    """One message from its sorted-set member, score and record; late if its score lies below `below`.

    Raises ValueError and Undecodable for foreign bytes.
    """
    flag = record[FLAG_AT] if len(record) > FLAG_AT else 0
    if flag in HAS_LEDGER:
        envelope = record[decode_head(record).size :]
    else:
        envelope = record[DUE_HEAD if flag in HAS_DUE else RECORD_HEAD :]
    parts: Any = orjson.loads(envelope) if b"\n" not in envelope else None
    if type(parts) is not list or len(parts) != 1:
        parts = decode_envelope(envelope)
    stamp, number = int(member[:STAMP_DIGITS]), float(score)
    if not math.isfinite(number):
        raise Undecodable("score_not_finite", value=score)
    headers, attempt = parts[1] if len(parts) == 2 else {}, int(record[STAMP_DIGITS:FLAG_AT]) + 1
    place = token, stamp / 1e6, queue, stamp, number < below, flag in REDRIVEN
    return Message(member[STAMP_DIGITS:], group, number, parts[0], headers, attempt, *place)


def arrival_scores(members: Sequence[str]) -> list[str]:
    """The scores of messages that are ordered by their arrival."""
    return [f"{member[: STAMP_DIGITS - 6]}.{member[STAMP_DIGITS - 6 : STAMP_DIGITS]}" for member in members]


_FRESH = {b"0000A", b"00000"}
"""Attempts and flag of plain messages that were not tried yet."""
_make: Any = tuple.__new__


Plain = tuple[list[int], list[Any]]
"""The stamps and the envelopes of records, both in their order."""


def read_plain(members: Sequence[str], records: Sequence[bytes]) -> Plain | None:
    """What many records hold, of whatever groups, read at once. None unless all are plain and not tried yet."""
    if not {record[STAMP_DIGITS:RECORD_HEAD] for record in records} <= _FRESH:
        return None
    try:
        envelopes = orjson.loads(b"[%b]" % b",".join([record[RECORD_HEAD:] for record in records]))
        stamps = orjson.loads("[" + ",".join([member[:STAMP_DIGITS] for member in members]) + "]")
    except ValueError:
        return None
    is_ours = {*map(type, stamps)} == {int} and {*map(type, envelopes)} == {list}
    return (stamps, envelopes) if is_ours and len(envelopes) == len(stamps) == len(members) else None


def plain_messages(
    members: Sequence[str],
    scores: Sequence[str] | None,
    plain: Plain,
    group: tuple[str, ...],
    token: int,
    queue: str,
    below: float,
) -> list[Message] | None:
    """The messages of one group, of which `plain` is what their records hold: 0.8 us each against 1.5.

    `scores`: None of those that are ordered by their arrival. None where one has headers, or a score that is no number.
    """
    stamps, envelopes = plain
    try:
        times = [stamp / 1e6 for stamp in stamps]
        # A quotient is rounded once, as its text is when it is read: both are the double next to the same number.
        numbers = times if scores is None else [*map(float, scores)]
        if not all(map(math.isfinite, numbers)):
            return None
        return [
            _make(
                Message,
                (member[STAMP_DIGITS:], group, number, body, {}, 1, token, at, queue, stamp, number < below, False),
            )
            for member, number, stamp, at, (body,) in zip(members, numbers, stamps, times, envelopes, strict=True)
        ]
    except (ValueError, TypeError, OverflowError):
        return None


def raw_message(
    member: str, score: str, record: bytes, group: tuple[str, ...], token: int, queue: str, below: float = -math.inf
) -> Message:
    """The message of a record that can't be decoded: its body is the bytes as text, the rest as far as it reads."""
    head = decode_head(record)
    stamp = int(member[:STAMP_DIGITS]) if member[:STAMP_DIGITS].isdecimal() else 0
    try:
        number = float(score)
    except ValueError:
        number = math.nan
    body = record[head.size :].decode("utf-8", "backslashreplace")
    place = token, stamp / 1e6, queue, stamp, number < below, head.flag == "R"
    return Message(member[STAMP_DIGITS:], group, number, body, {}, head.attempts + 1, *place)


def readable_message(*rest: Any) -> Message:
    """`decode_record`, or `raw_message` where that fails."""
    try:
        return decode_record(*rest)
    except (ValueError, Undecodable):
        return raw_message(*rest)


class DeadLetterName(NamedTuple):
    """The name of a dead letter, in its parts."""

    stamp: str
    group: str
    """Encoded."""
    id: str

    @classmethod
    def parse(cls, letter: str) -> DeadLetterName:
        group, _, message_id = letter[STAMP_DIGITS:].partition("\n")
        return cls(letter[:STAMP_DIGITS], group, message_id)


class DeadLetterContent(NamedTuple):
    """What is kept of a dead letter."""

    score: bytes
    failure: bytes
    record: bytes

    @classmethod
    def parse(cls, kept: bytes) -> DeadLetterContent:
        score, _, rest = kept.partition(b"\n")
        failure, _, record = rest.partition(b"\n")
        return cls(score, failure, record)


def decode_dead_letter(letter: str, kept: bytes, died_us: float, queue: str) -> DeadLetter:
    """A dead letter from its name (stamp, group, newline, id) and what is kept of it (score, failure, record).

    Never raises: one that others damaged must not hide those beside it.
    """
    stamp, group, message_id = DeadLetterName.parse(letter)
    score, failure, record = DeadLetterContent.parse(kept)
    message = readable_message(
        stamp + message_id, score.decode("utf-8", "replace"), record, decode_group(group), 0, queue
    )
    return DeadLetter(message, message.attempt - 1, decode_failure(failure)[0], died_us / 1e6, letter)
