"""Bytes on the wire and in Redis, both ways. Pure; the only user of orjson for messages.

An envelope is the JSON array `[body]` or `[body, headers]`. A record, as the hash of a group holds it, is
16 digits of stamp, 4 digits of attempts, then the envelope: the fixed part lets scripts count attempts and
compare content without ever decoding JSON of a user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from .errors import InvalidBody, InvalidId, InvalidScore
from .message import Failure, Message

STAMP_DIGITS = 16
RECORD_HEAD = STAMP_DIGITS + 4
LEASE_HEAD = STAMP_DIGITS + 1
"""A lease, as the hash of leases holds it: token, "1" if no other group was claimed with it or "0", then the owner."""
MAX_ID_BYTES = 256
MAX_EXACT_INTEGER = 2**53
"""A score is a double: above this, neighbouring integers (nanoseconds since 1970, say) become equal."""
TRACEBACK_BYTES = 8 * 1024


def encode_id(message_id: Any) -> str:
    """The id as text. Raises InvalidId."""
    if isinstance(message_id, bool) or not isinstance(message_id, str | int):
        raise InvalidId(f"id {message_id!r} is {type(message_id).__name__}, must be str or int")
    text = str(message_id)
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
    if isinstance(score, datetime):
        if score.utcoffset() is None:
            raise InvalidScore(f"score {score!r} has no time zone; use an aware datetime")
        score = score.timestamp()
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise InvalidScore(f"score {score!r} is {type(score).__name__}, must be a number or an aware datetime")
    if isinstance(score, float) and not math.isfinite(score):
        raise InvalidScore(f"score {score!r} must be finite")
    if not -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        raise InvalidScore(
            f"score {score!r} is beyond 2**53, where neighbouring integers become equal; "
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
    return False


def encode_envelope(body: Any, headers: Mapping[str, str] | None, max_bytes: int) -> bytes:
    """The envelope of a body and its headers. Raises InvalidBody.

    A body is what orjson writes: JSON types, and also dataclasses, datetimes and UUIDs, which come back as JSON.
    """
    if headers is not None and not (
        isinstance(headers, Mapping) and all(type(k) is str and type(v) is str for k, v in headers.items())
    ):
        raise InvalidBody(f"headers must map str to str, got {headers!r:.80}")
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


def decode_record(member: str, score: str, record: bytes, group: tuple[str, ...], token: int, queue: str) -> Message:
    """One message from its sorted-set member, score and record. Raises ValueError for foreign bytes."""
    parts = orjson.loads(record[RECORD_HEAD:])
    if type(parts) is not list or len(parts) != 1:
        parts = decode_envelope(record[RECORD_HEAD:])
    stamp = int(member[:STAMP_DIGITS])
    return Message(
        member[STAMP_DIGITS:],
        group,
        float(score),
        parts[0],
        parts[1] if len(parts) == 2 else {},
        int(record[STAMP_DIGITS:RECORD_HEAD]) + 1,
        token,
        stamp / 1e6,
        queue,
        stamp,
    )


def raw_message(member: str, score: str, record: bytes, group: tuple[str, ...], token: int, queue: str) -> Message:
    """The message of a record that can't be decoded: its body is the bytes as text, the rest as far as it reads."""
    head = record[STAMP_DIGITS:RECORD_HEAD]
    stamp = int(member[:STAMP_DIGITS]) if member[:STAMP_DIGITS].isdecimal() else 0
    return Message(
        member[STAMP_DIGITS:],
        group,
        float(score),
        record[RECORD_HEAD:].decode("utf-8", "backslashreplace"),
        {},
        int(head) + 1 if head.isdigit() else 1,
        token,
        stamp / 1e6,
        queue,
        stamp,
    )


def encode_failure(failure: Failure, member: str) -> bytes:
    """The failure of a group's head, with the member it belongs to; error texts are cut to 8 KiB each."""
    return orjson.dumps(
        {
            "member": member,
            "id": failure.id,
            "type": failure.type,
            "message": _clean(failure.message),
            "traceback": _clean(failure.traceback),
            "attempt": failure.attempt,
            "at": failure.at,
            "owner": failure.owner,
        }
    )


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace")[-TRACEBACK_BYTES:].decode("utf-8", "ignore")


def decode_failure(record: bytes) -> tuple[Failure, str]:
    """A failure and the member it belongs to ("" if it says none); foreign bytes give a failure that shows them."""
    try:
        data = orjson.loads(record)
        failure = Failure(
            id=str(data.get("id", "")),
            type=str(data.get("type", "")),
            message=str(data.get("message", "")),
            traceback=str(data.get("traceback", "")),
            attempt=int(data.get("attempt", 0)),
            at=float(data.get("at", 0)),
            owner=str(data.get("owner", "")),
        )
        return failure, str(data.get("member", ""))
    except (ValueError, TypeError, AttributeError):
        text = record[:200].decode("utf-8", "backslashreplace")
        return Failure("", "Broken", f"unreadable failure record: {text}", "", 0, 0.0, ""), ""


def dumps_words(words: Any) -> bytes:
    """Nested lists of text as JSON, for a script's `cjson.decode`: one argument, read at C speed on both sides.

    A member with bytes that are not UTF-8 (no client of ours writes one) passes through unharmed.
    """
    try:
        return orjson.dumps(words)
    except TypeError:
        import json

        return json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogateescape")


def loads_words(data: bytes) -> Any:
    """What a script wrote with `cjson.encode`; bytes that are not UTF-8 come as surrogates and go back as they were."""
    try:
        return orjson.loads(data)
    except ValueError:
        import json

        return json.loads(data.decode("utf-8", "surrogateescape"))
