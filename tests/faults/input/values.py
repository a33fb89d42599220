"""Checks of what a caller passes: groups, ids, scores, times, bodies and headers. No server is asked.

Each check holds the product against a second, plainer statement of the rule. What it judges is an argument, so that a
negative control can take its place.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from sequencer.errors import InvalidBody, InvalidGroup, InvalidId, InvalidScore, InvalidTime
from sequencer.store.envelope import decode_envelope, encode_due, encode_envelope, encode_id, encode_score
from sequencer.store.group import MAX_GROUP_BYTES, decode_group, encode_group

from . import strategies as inputs
from .explore import Target, Wrong

MAX_EXACT = 2**53
MAX_ID = 256
REFUSED = "bad value refused"


def is_text(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


# -- groups, ids, scores ------------------------------------------------------------------------------------------


def part_text(part: Any) -> str | None:
    """What a part of a group stands for; None for one that must be refused."""
    if isinstance(part, bool) or not isinstance(part, str | int | UUID):
        return None
    value = part.value if isinstance(part, enum.Enum) else part
    if isinstance(value, int) and value.bit_length() > 10_000:
        return None
    text = str(value)
    return text if text and is_text(text) else None


def group_texts(group: Any) -> tuple[str, ...] | None:
    """The parts of a group as text, None for one that must be refused (its length aside)."""
    parts = (group,) if isinstance(group, str | int | UUID) else group
    if not isinstance(parts, list | tuple) or not parts:
        return None
    texts = [part_text(part) for part in parts]
    return None if None in texts else tuple(text for text in texts if text is not None)


def check_groups(
    pair: tuple[Any, Any],
    encode: Callable[[Any], str] = encode_group,
    decode: Callable[[str], tuple[str, ...]] = decode_group,
) -> str | None:
    """Each group is refused or comes back; two groups share a key exactly when their parts are the same."""
    found: list[tuple[tuple[str, ...], str]] = []
    for group in pair:
        wanted = group_texts(group)
        try:
            key = encode(group)
        except InvalidGroup:
            if wanted and len("".join(wanted).encode()) * 3 + len(wanted) <= MAX_GROUP_BYTES:
                raise Wrong("a good group is refused") from None
            continue
        if wanted is None:
            raise Wrong("a bad group is accepted", key)
        if decode(key) != wanted:
            raise Wrong("a group does not come back", f"{key!r} gives {decode(key)!r}")
        if len(key.encode()) > MAX_GROUP_BYTES or re.search(r"[\x00-\x1f\x7f]", key):
            raise Wrong("a key is too long or holds a control character", repr(key))
        found.append((wanted, key))
    if len(found) == 2 and (found[0][0] == found[1][0]) != (found[0][1] == found[1][1]):
        raise Wrong("two groups collide", f"{found[0]} and {found[1]}")
    return REFUSED if len(found) < 2 else None


def check_id(value: Any, encode: Callable[[Any], str] = encode_id) -> str | None:
    """An id is refused, or the text that it is."""
    is_kind = isinstance(value, str | int | UUID) and not isinstance(value, bool)
    wanted = part_text(value) if is_kind else None
    is_good = wanted is not None and len(wanted.encode()) <= MAX_ID
    try:
        text = encode(value)
    except InvalidId:
        if is_good:
            raise Wrong("a good id is refused") from None
        return REFUSED
    if not is_good:
        raise Wrong("a bad id is accepted", repr(text))
    if text != wanted:
        raise Wrong("an id is not its own text", f"{text!r} for {wanted!r}")
    return None


def _score(value: Any) -> float | int | None:
    if isinstance(value, datetime):
        value = value.timestamp() if value.utcoffset() is not None else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -MAX_EXACT <= value <= MAX_EXACT else None


def check_scores(pair: tuple[Any, Any], encode: Callable[[Any], str] = encode_score) -> str | None:
    """A score is refused, or exactly its number; and the greater number has the greater score."""
    found: list[tuple[float | int, float]] = []
    for value in pair:
        wanted = _score(value)
        try:
            text = encode(value)
        except InvalidScore:
            if wanted is not None:
                raise Wrong("a good score is refused") from None
            continue
        if wanted is None:
            raise Wrong("a bad score is accepted", text)
        if float(text) != wanted or text == "-0.0" or not re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", text):
            raise Wrong("a score is not its number", text)
        found.append((wanted, float(text)))
    if len(found) == 2:
        (a, text_a), (b, text_b) = found
        if (a < b) != (text_a < text_b) or (a == b) != (text_a == text_b):
            raise Wrong("scores change their order", f"{found}")
    return REFUSED if len(found) < 2 else None


def check_times(pair: tuple[Any, Any]) -> str | None:
    """`delay` and `at` are refused, or a time within the limits."""
    delay, at = pair
    try:
        text = encode_due(delay, at)
    except InvalidTime:
        is_plain = isinstance(delay, int | float) and not isinstance(delay, bool)
        if at is None and is_plain and 0 <= delay <= 1e9:
            raise Wrong("a good delay is refused") from None
        return REFUSED
    if (delay is None and at is None) != (text == "") or not re.fullmatch(r"(\+?\d{1,16})?", text):
        raise Wrong("a time is no time", repr(text))
    if isinstance(delay, timedelta) and abs(int(text[1:]) - delay.total_seconds() * 1e6) > 1:
        raise Wrong("a delay is not its own length", text)
    return None


# -- bodies ---------------------------------------------------------------------------------------------------------


def is_finite(value: Any) -> bool:
    """Whether there is no NaN and no infinity anywhere in it."""
    if isinstance(value, enum.Enum):
        return is_finite(value.value)
    if isinstance(value, float):
        return math.isfinite(value)
    if is_dataclass(value) and not isinstance(value, type):
        return all(is_finite(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return all(is_finite(item) for item in value.values())
    return all(is_finite(item) for item in value) if isinstance(value, list | tuple) else True


def _is_same(sent: Any, got: Any) -> bool:
    """Whether what came back is what JSON makes of what was sent; kinds that JSON has no word for come as text."""
    if isinstance(sent, enum.Enum):
        return _is_same(sent.value, got)
    if is_dataclass(sent) and not isinstance(sent, type):
        sent = {field.name: getattr(sent, field.name) for field in fields(sent)}
    if isinstance(sent, dict):
        is_dict = isinstance(got, dict) and len(sent) == len(got)
        return is_dict and all(key in got and _is_same(item, got[key]) for key, item in sent.items())
    if isinstance(sent, list | tuple):
        is_list = isinstance(got, list) and len(sent) == len(got)
        return is_list and all(map(_is_same, sent, got))
    if sent is None or isinstance(sent, bool):
        return got is sent
    if isinstance(sent, float):
        return isinstance(got, float) and got == sent
    return got == sent and not isinstance(got, bool) if isinstance(sent, str | int) else isinstance(got, str)


def check_body(
    pair: tuple[Any, Any],
    encode: Callable[[Any, Any, int], bytes] = encode_envelope,
    decode: Callable[[bytes], tuple[Any, dict[str, str]]] = decode_envelope,
) -> str | None:
    """A body with its headers is refused, or comes back as what JSON makes of it."""
    body, headers = pair
    try:
        envelope = encode(body, headers, 4096)
    except InvalidBody:
        return REFUSED
    if not is_finite(body):
        raise Wrong("a body with NaN or infinity is accepted", repr(envelope[:80]))
    if len(envelope) > 4096:
        raise Wrong("a body beyond the limit is accepted")
    got, got_headers = decode(envelope)
    if not _is_same(body, got) or got_headers != (headers or {}):
        raise Wrong("a body does not come back", repr(envelope[:80]))
    return None


def targets() -> list[Target]:
    """What makes a message."""
    return [
        Target("groups", inputs.group_pairs, check_groups, 250),
        Target("ids", inputs.ids, check_id, 100),
        Target("scores", inputs.score_pairs, check_scores, 200),
        Target("times", st.tuples(inputs.times, inputs.times), check_times, 150),
        Target("bodies", st.tuples(inputs.bodies, inputs.headers), check_body, 200),
    ]
