"""What a caller passes as bytes on the wire: ids, scores, times, and bodies in envelopes. Pure.

An envelope is the JSON array `[body]` or `[body, headers]`, then perhaps a newline and the JSON of the headers that
name a trace. A newline is nowhere else in it: a repeat is compared by what stands before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import orjson

from ..errors import InvalidBody, InvalidId, InvalidMessage, InvalidScore, InvalidTime, Undecodable
from ..values.durations import seconds
from .text import checked_text, finite_json

MAX_ID_BYTES = 256
TRACE_HEADERS = ("traceparent", "tracestate")
"""Headers that say who sent a message, not what it is: a repeat in another trace is no conflict."""
MAX_EXACT_INTEGER = 2**53
"""A score is a double: above this, neighbouring integers (nanoseconds since 1970, say) become equal."""
MAX_TIME_S = 8e9  # the year 2223: below the time in us by which scripts know a paused group


def encode_id(message_id: Any) -> str:
    """The id as text. Raises InvalidId."""
    if type(message_id) is str and message_id.isascii() and 0 < len(message_id) <= MAX_ID_BYTES:
        return message_id  # the usual case
    return checked_text("id", message_id, MAX_ID_BYTES, InvalidId)


def encode_score(score: Any) -> str:
    """The score as the shortest text that reads back as the same double. Raises InvalidScore.

    A point in time, as an aware datetime or as ISO 8601 text, is its seconds since 1970.
    """
    if type(score) in (int, float) and -MAX_EXACT_INTEGER <= score <= MAX_EXACT_INTEGER:
        return repr(float(score) + 0.0)  # the usual case; neither NaN nor infinity lies between
    number = _number(score, "score", InvalidScore)
    if not -math.inf < number < math.inf:
        raise InvalidScore("score_invalid", value=score)
    if not -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER:
        raise InvalidScore("score_too_large", value=score)
    return repr(float(number) + 0.0)


def _number(given: Any, name: str, error: type[InvalidMessage]) -> float:
    """The number; of a time: its seconds since 1970; NaN of what is neither. Raises `error` without a time zone."""
    moment = given
    if isinstance(given, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(given)
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise error("time_zone_missing", name=name, value=given)
        return moment.timestamp()
    return math.nan if isinstance(given, bool) or not isinstance(given, int | float) else given


def encode_envelope(body: Any, headers: Mapping[str, str] | None, max_bytes: int) -> bytes:
    """The envelope of a body and its headers. Raises InvalidBody.

    A body is what orjson writes: JSON types, and also dataclasses, datetimes and UUIDs, and msgspec.Struct and
    pydantic models; they come back as JSON.
    """
    if headers is not None and not (
        isinstance(headers, Mapping) and {*map(type, [*headers, *headers.values()])} <= {str}
    ):
        raise InvalidBody("headers_invalid")
    if not headers:
        return finite_json("body", [body], max_bytes, InvalidBody).replace(b"\n", b" ")  # of an orjson.Fragment
    trace = {name: headers[name] for name in TRACE_HEADERS if name in headers}
    own = {name: text for name, text in headers.items() if name not in trace}
    parts = [body, own] if own else [body]
    content = finite_json("body", parts, max_bytes, InvalidBody).replace(b"\n", b" ")
    return content + b"\n" + finite_json("body", trace, max_bytes - len(content), InvalidBody) if trace else content


def content_of(envelope: bytes) -> bytes:
    """By what a repeat is compared: all but the trace."""
    return envelope.partition(b"\n")[0]


def decode_envelope(envelope: bytes) -> tuple[Any, dict[str, str]]:
    """Body and headers. Raises ValueError and Undecodable for bytes that no client of ours wrote."""
    content, _, trace = envelope.partition(b"\n")
    parts, more = orjson.loads(content), orjson.loads(trace) if trace else {}
    headers = parts[1] if type(parts) is list and len(parts) == 2 else {}
    if type(parts) is not list or not 1 <= len(parts) <= 2 or {type(headers), type(more)} != {dict}:
        raise Undecodable("not_an_envelope")
    return parts[0], headers | more


def encode_time(at: Any) -> int:
    """A point in time (seconds, aware datetime, or ISO 8601 text) as us since 1970. Raises InvalidTime."""
    number = _number(at, "at", InvalidTime)
    if not 0 <= number <= MAX_TIME_S:
        raise InvalidTime("time_invalid", value=at, most=MAX_TIME_S)
    return round(number * 1e6)


def encode_due(delay: Any, at: Any) -> str:
    """When a message is due: us since 1970, or "+" and us from now; "" for now. Raises InvalidTime."""
    if delay is not None and at is not None:
        raise InvalidTime("delay_and_at")
    if at is not None:
        return str(encode_time(at))
    if delay is None:
        return ""
    delay_s = seconds(delay)
    if delay_s is None:
        raise InvalidTime("duration_invalid", name="delay", value=delay)
    return f"+{round(delay_s * 1e6)}"
