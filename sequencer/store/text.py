"""Text goes to scripts and comes back as JSON. Pure.

Bytes that are not UTF-8 (others may write an id; no client of ours does) pass through as surrogates, and unharmed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import orjson


def dumps_words(words: Any) -> bytes:
    """Nested lists of text as JSON, for a script's `cjson.decode`: one argument, read at C speed on both sides."""
    try:
        return orjson.dumps(words)
    except TypeError:
        import json

        return json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogateescape")


def loads_words(data: bytes) -> Any:
    """What a script wrote with `cjson.encode`."""
    try:
        return orjson.loads(data)
    except ValueError:
        import json

        return json.loads(data.decode("utf-8", "surrogateescape"))


def finite_json(what: str, value: Any, refusal: type[Exception]) -> bytes:
    """A value as JSON. Raises `refusal` for one that JSON can't hold."""
    try:
        written = orjson.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal(f"{what} can't be written as JSON: {error}") from error
    if b"null" in written and _has_non_finite(value):  # only one with a null in it needs the walk
        raise refusal(f"{what} holds NaN or infinity, which JSON has no word for; send null or leave it out")
    return written


def _has_non_finite(value: Any) -> bool:
    """Whether it holds NaN or infinity, for which orjson writes null."""
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
