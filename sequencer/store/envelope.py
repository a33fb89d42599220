"""What a caller passes as bytes on the wire: ids, scores, times, and bodies in envelopes. Pure.

An envelope is the JSON array `[body]` or `[body, headers]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

from ..errors import InvalidBody, InvalidId, InvalidMessage, InvalidScore, InvalidTime, shown
from ..values.durations import seconds
from .text import finite_json

MAX_ID_BYTES = 256
MAX_EXACT_INTEGER = 2**53
"""A score is a double: above this, neighbouring integers (nanoseconds since 1970, say) become equal."""
EXAMPLE = "2030-01-31T09:00:00+01:00"
MAX_TIME_S = 8e9  # the year 2223: below the time in us by which scripts know a paused group


def encode_id(message_id: Any) -> str:
    """The id as text. Raises InvalidId."""
    if type(message_id) is str and message_id.isascii() and 0 < len(message_id) <= MAX_ID_BYTES:
        return message_id  # the usual case
    if isinstance(message_id, bool) or not isinstance(message_id, str | int | UUID):
        raise InvalidId(f"id {shown(message_id)} is {type(message_id).__name__}, must be str, int or UUID")
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
    """The score as the shortest text that reads back as the same double. Raises InvalidScore.

    A point in time, as an aware datetime or as ISO 8601 text, is its seconds since 1970.
    """
    if type(score) in (int, float) and -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        return repr(float(score) + 0.0)  # the usual case; neither NaN nor infinity lies between
    if isinstance(score, str | datetime):
        score = _seconds(score, f"score {shown(score)}", "is neither a number nor ISO 8601 text", InvalidScore)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise InvalidScore(
            f"score {shown(score)} is {type(score).__name__}, must be a number, an aware datetime, or ISO 8601 text"
        )
    if isinstance(score, float) and not math.isfinite(score):
        raise InvalidScore(f"score {shown(score)} must be finite")
    if not -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        raise InvalidScore(
            f"score {shown(score)} is beyond 2**53, where neighbouring integers become equal; "
            "for a time use seconds, milliseconds or microseconds instead of nanoseconds; for a 64-bit id use the "
            "time in it (snowflake: id >> 22): equal scores keep the order of arrival"
        )
    return repr(float(score) + 0.0)


def _seconds(moment: str | datetime, name: str, problem: str, error: type[InvalidMessage]) -> float:
    """Seconds since 1970. Raises `error`, with the name, and for text that is no time with the problem."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise error(f"{name} {problem}, like {EXAMPLE}") from None
    if moment.utcoffset() is None:
        raise error(f"{name} has no time zone; say it, like {EXAMPLE}")
    return moment.timestamp()


def encode_envelope(body: Any, headers: Mapping[str, str] | None, max_bytes: int) -> bytes:
    """The envelope of a body and its headers. Raises InvalidBody.

    A body is what orjson writes: JSON types, and also dataclasses, datetimes and UUIDs, which come back as JSON.
    """
    if headers is not None and not (
        isinstance(headers, Mapping) and all(type(k) is str and type(v) is str for k, v in headers.items())
    ):
        raise InvalidBody("headers must map str to str; make other keys and values text")
    envelope = finite_json("body", [body, dict(headers)] if headers else [body], InvalidBody)
    if len(envelope) > max_bytes:
        raise InvalidBody(f"body and headers are {len(envelope)} bytes as JSON, at most max_body_bytes={max_bytes}")
    return envelope


def decode_envelope(envelope: bytes) -> tuple[Any, dict[str, str]]:
    """Body and headers. Raises ValueError for bytes that no client of ours wrote."""
    parts = orjson.loads(envelope)
    if type(parts) is not list or not 1 <= len(parts) <= 2 or not isinstance(parts[-1] if parts[1:] else {}, dict):
        raise ValueError("not an envelope: expected [body] or [body, headers]")
    return parts[0], parts[1] if len(parts) == 2 else {}


def encode_time(at: Any) -> int:
    """A point in time (seconds, aware datetime, or ISO 8601 text) as us since 1970. Raises InvalidTime."""
    given = at
    if isinstance(at, str | datetime):
        at = _seconds(at, f"at={shown(at)}", "is not ISO 8601", InvalidTime)
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= MAX_TIME_S:
        raise InvalidTime(
            f"at={shown(given)} must be seconds since 1970, at most {MAX_TIME_S:.0f}, an aware datetime, "
            "or ISO 8601 text"
        )
    return round(at * 1e6)


def encode_due(delay: Any, at: Any) -> str:
    """When a message is due: us since 1970, or "+" and us from now; "" for now. Raises InvalidTime."""
    if delay is not None and at is not None:
        raise InvalidTime(f"delay={shown(delay)} and at={shown(at)} are both given; give one of them")
    if at is not None:
        return str(encode_time(at))
    if delay is None:
        return ""
    try:
        delay_s = seconds(delay)
    except ValueError as error:
        raise InvalidTime(f"delay={shown(delay)} must be {error}") from None
    return f"+{round(delay_s * 1e6)}"
