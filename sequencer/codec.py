"""Bytes on the wire and in Redis, both ways. Pure; the only user of orjson for messages.

An envelope is the JSON array `[body]` or `[body, headers]`. A record, as the hash of a group holds it, is 16 digits of
stamp, 4 digits of attempts, a flag, for some flags 16 digits of a due time in us, then the envelope: the head lets
scripts count attempts and compare content without ever decoding JSON of a user.

Flags: `A` plain, and its score is its arrival, which its stamp tells too; `0` plain, with a score of its own; `D` not
before its due time; `T` the same, and that time is its score; `R` redriven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, overload

import orjson

from .errors import InvalidBody, InvalidId, InvalidScore, InvalidTime, shown
from .keys import decode_group
from .message import DeadLetter, Message
from .words import decode_failure

STAMP_DIGITS = 16
FLAG_AT = STAMP_DIGITS + 4
RECORD_HEAD = FLAG_AT + 1
DUE_HEAD = RECORD_HEAD + STAMP_DIGITS
PLAIN, REDRIVEN, HAS_DUE = ord("0"), ord("R"), b"DT"
LEASE_HEAD = STAMP_DIGITS + 1
"""A lease, as the hash of leases holds it: token, "1" if no other group was claimed with it or "0", then the owner."""
MAX_ID_BYTES = 256
MAX_EXACT_INTEGER = 2**53
"""A score is a double: above this, neighbouring integers (nanoseconds since 1970, say) become equal."""
MAX_DELAY_S = 100 * 366 * 86_400
MAX_TIME_S = 8e9  # the year 2223: below the time in us by which scripts know a paused group


def encode_id(message_id: Any) -> str:
    """The id as text. Raises InvalidId."""
    if type(message_id) is str and message_id.isascii() and 0 < len(message_id) <= MAX_ID_BYTES:
        return message_id  # the usual case
    if isinstance(message_id, bool) or not isinstance(message_id, str | int):
        raise InvalidId(f"id {shown(message_id)} is {type(message_id).__name__}, must be str or int")
    value = message_id.value if isinstance(message_id, Enum) else message_id
    if isinstance(value, int) and value.bit_length() >= 8 * MAX_ID_BYTES:
        raise InvalidId(f"id {shown(value)} is too long, at most {MAX_ID_BYTES} bytes")
    text = str(value)
    if not text:
        raise InvalidId("id is empty; leave it out to have one made")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidId(f"id {text!r} holds a lone surrogate, which is not text") from None
    if size > MAX_ID_BYTES:
        raise InvalidId(f"id {text[:40]!r}... is {size} bytes long, at most {MAX_ID_BYTES}")
    return text


def encode_score(score: Any) -> str:
    """The score as the shortest text that reads back as the same double. Raises InvalidScore."""
    if type(score) in (int, float) and -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        return repr(float(score) + 0.0)  # the usual case; neither NaN nor infinity lies between
    if isinstance(score, datetime):
        if score.utcoffset() is None:
            raise InvalidScore(f"score {shown(score)} has no time zone; use an aware datetime")
        score = score.timestamp()
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise InvalidScore(f"score {shown(score)} is {type(score).__name__}, must be a number or an aware datetime")
    if isinstance(score, float) and not math.isfinite(score):
        raise InvalidScore(f"score {shown(score)} must be finite")
    if not -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        raise InvalidScore(
            f"score {shown(score)} is beyond 2**53, where neighbouring integers become equal; "
            "use seconds, milliseconds or microseconds instead of nanoseconds"
        )
    return repr(float(score) + 0.0)


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_non_finite(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_non_finite(item) for item in value)
    if isinstance(value, Enum):
        return _has_non_finite(value.value)
    if is_dataclass(value):
        return any(_has_non_finite(getattr(value, field.name)) for field in fields(value))
    return False


def encode_envelope(body: Any, headers: Mapping[str, str] | None, max_bytes: int) -> bytes:
    """The envelope of a body and its headers. Raises InvalidBody.

    A body is what orjson writes: JSON types, and also dataclasses, datetimes and UUIDs, which come back as JSON.
    """
    if headers is not None and not (
        isinstance(headers, Mapping) and all(type(k) is str and type(v) is str for k, v in headers.items())
    ):
        raise InvalidBody("headers must map str to str; make other keys and values text")
    try:
        envelope = orjson.dumps([body, dict(headers)] if headers else [body])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidBody(f"body can't be written as JSON: {error}") from error
    # orjson writes null for NaN and infinity: only a body with a null in it needs the walk.
    if b"null" in envelope and _has_non_finite(body):
        raise InvalidBody("body holds NaN or infinity, which JSON has no word for; send null or leave it out")
    if len(envelope) > max_bytes:
        raise InvalidBody(f"body and headers are {len(envelope)} bytes as JSON, at most max_body_bytes={max_bytes}")
    return envelope


def decode_envelope(envelope: bytes) -> tuple[Any, dict[str, str]]:
    """Body and headers. Raises ValueError for bytes that no client of ours wrote."""
    parts = orjson.loads(envelope)
    if type(parts) is not list or not 1 <= len(parts) <= 2 or not isinstance(parts[-1] if parts[1:] else {}, dict):
        raise ValueError("not an envelope: expected [body] or [body, headers]")
    return parts[0], parts[1] if len(parts) == 2 else {}


class Head(NamedTuple):
    """The fixed part of a record: what scripts read of it."""

    stamp: int
    attempts: int
    flag: str
    due_us: int | None
    size: int
    """Where the envelope begins."""


def decode_head(record: bytes) -> Head:
    """Never raises: what can't be read is 0, as for a message that lost its record."""
    stamp, attempts, flag = record[:STAMP_DIGITS], record[STAMP_DIGITS:FLAG_AT], record[FLAG_AT:RECORD_HEAD]
    due = record[RECORD_HEAD:DUE_HEAD] if flag and flag in HAS_DUE else b""
    return Head(
        int(stamp) if stamp.isdigit() else 0,
        int(attempts) if attempts.isdigit() else 0,
        flag.decode("latin-1"),
        int(due) if due.isdigit() else None,
        DUE_HEAD if due else RECORD_HEAD,
    )


def decode_record(
    member: str, score: str, record: bytes, group: tuple[str, ...], token: int, queue: str, below: float = -math.inf
) -> Message:
    """One message from its sorted-set member, score and record; late if its score lies below `below`.

    Raises ValueError for foreign bytes.
    """
    flag = record[FLAG_AT] if len(record) > FLAG_AT else 0
    envelope = record[DUE_HEAD if flag in HAS_DUE else RECORD_HEAD :]
    parts = orjson.loads(envelope)
    if type(parts) is not list or len(parts) != 1:
        parts = decode_envelope(envelope)
    stamp, number = int(member[:STAMP_DIGITS]), float(score)
    if not math.isfinite(number):
        raise ValueError(f"its score is {score}, no finite number")
    return Message(
        member[STAMP_DIGITS:],
        group,
        number,
        parts[0],
        parts[1] if len(parts) == 2 else {},
        int(record[STAMP_DIGITS:FLAG_AT]) + 1,
        token,
        stamp / 1e6,
        queue,
        stamp,
        number < below,
        flag == REDRIVEN,
    )


class Arrivals(Sequence[str]):
    """The scores of messages that are ordered by their arrival, made of their members when they are asked for."""

    __slots__ = ("members",)

    def __init__(self, members: Sequence[str]) -> None:
        self.members = members

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Arrivals: ...
    def __getitem__(self, at: int | slice) -> str | Arrivals:
        if isinstance(at, slice):
            return Arrivals(self.members[at])
        member = self.members[at]
        return f"{member[: STAMP_DIGITS - 6]}.{member[STAMP_DIGITS - 6 : STAMP_DIGITS]}"


_FRESH = {b"0000A", b"00000"}
"""Attempts and flag of plain messages that were not tried yet."""
_make: Any = tuple.__new__


def decode_records(
    members: Sequence[str],
    scores: Sequence[str],
    records: Sequence[bytes],
    group: tuple[str, ...],
    token: int,
    queue: str,
    below: float,
) -> list[Message] | None:
    """The messages of one group, all at once: 0.8 us each against 1.5. None unless all are plain and not tried yet."""
    if not {record[STAMP_DIGITS:RECORD_HEAD] for record in records} <= _FRESH:
        return None
    try:
        envelopes = orjson.loads(b"[%b]" % b",".join([record[RECORD_HEAD:] for record in records]))
        stamps = orjson.loads("[" + ",".join([member[:STAMP_DIGITS] for member in members]) + "]")
        if {*map(type, stamps)} != {int} or {*map(type, envelopes)} != {list}:
            return None
        times = [stamp / 1e6 for stamp in stamps]
        # A quotient is rounded once, as its text is when it is read: both are the double next to the same number.
        numbers = times if type(scores) is Arrivals else [*map(float, scores)]
        if not all(map(math.isfinite, numbers)):
            return None
        return [
            _make(
                Message,
                (member[STAMP_DIGITS:], group, number, body, {}, 1, token, at, queue, stamp, number < below, False),
            )
            for member, number, stamp, at, (body,) in zip(members, numbers, stamps, times, envelopes, strict=True)
        ]
    except (ValueError, TypeError):
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
    return Message(
        member[STAMP_DIGITS:],
        group,
        number,
        record[head.size :].decode("utf-8", "backslashreplace"),
        {},
        head.attempts + 1,
        token,
        stamp / 1e6,
        queue,
        stamp,
        number < below,
        head.flag == "R",
    )


def readable_message(*rest: Any) -> Message:
    """`decode_record`, or `raw_message` where that fails."""
    try:
        return decode_record(*rest)
    except ValueError:
        return raw_message(*rest)


def encode_time(at: Any) -> int:
    """A point in time (seconds, aware datetime, or ISO 8601 text) as us since 1970. Raises InvalidTime."""
    given = at
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise InvalidTime(f"at={shown(given)} is not ISO 8601, like 2030-01-31T09:00:00+01:00") from None
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise InvalidTime(f"at={shown(str(given))} has no time zone; say it, like 2030-01-31T09:00:00+01:00")
        at = at.timestamp()
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= MAX_TIME_S:
        raise InvalidTime(
            f"at={shown(given)} must be seconds since 1970, at most {MAX_TIME_S:.0f}, an aware datetime, "
            "or ISO 8601 text"
        )
    return round(at * 1e6)


def encode_due(delay: Any, at: Any) -> str:
    """When a message is due, as scripts take it: us since 1970, or "+" and us from now; "" for now. Raises
    InvalidTime.
    """
    if delay is not None and at is not None:
        raise InvalidTime(f"delay={shown(delay)} and at={shown(at)} are both given; give one of them")
    if at is not None:
        return str(encode_time(at))
    if delay is None:
        return ""
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= MAX_DELAY_S:
        raise InvalidTime(
            f"delay={shown(delay)} must be a number of seconds from 0 to {MAX_DELAY_S:.0f}, or a timedelta"
        )
    return f"+{round(delay * 1e6)}"


def decode_letter(letter: str, kept: bytes, died_us: float, queue: str) -> DeadLetter:
    """A dead letter from its name (stamp, group, newline, id) and what is kept of it (score, failure, record).

    Never raises: one that others damaged must not hide those beside it.
    """
    group, _, message_id = letter[STAMP_DIGITS:].partition("\n")
    score, _, rest = kept.partition(b"\n")
    failure, _, record = rest.partition(b"\n")
    member = letter[:STAMP_DIGITS] + message_id
    message = readable_message(member, score.decode("utf-8", "replace"), record, decode_group(group), 0, queue)
    return DeadLetter(message, message.attempt - 1, decode_failure(failure)[0], died_us / 1e6, letter)
