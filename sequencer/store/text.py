"""Text goes to scripts and comes back as JSON. Pure.

Bytes that are not UTF-8 (others may write an id; no client of ours does) pass through as surrogates, and unharmed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

from ..errors import InvalidBody, SequencerError


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


def cut_text(text: str, most: int) -> str:
    """The first bytes of a text; what is no text (lone surrogates) comes as escapes."""
    return text.encode("utf-8", "backslashreplace")[:most].decode("utf-8", "ignore")


def checked_text(name: str, value: Any, most: int, refusal: type[SequencerError]) -> str:
    """An id, or a part of a group, as text. Raises `refusal`."""
    value = value.value if isinstance(value, Enum) else value
    is_huge = isinstance(value, int) and value.bit_length() >= 8 * most  # its text would take long, or can't be made
    if isinstance(value, str | int | UUID) and not isinstance(value, bool) and not is_huge:
        with suppress(UnicodeEncodeError):
            if 0 < len((text := str(value)).encode()) <= most:
                return text
    raise refusal("identifier_invalid", name=name, value=value, most=most)


def finite_json(name: str, value: Any, most: int, refusal: type[SequencerError]) -> bytes:
    """A value as JSON. Raises `refusal` for one that JSON can't hold, or of more than this many bytes."""
    try:
        written = orjson.dumps(value, encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal("not_json", name=name, error=str(error)) from error
    if b"null" in written and _has_non_finite(value):  # only one with a null in it needs the walk
        raise refusal("not_finite", name=name)
    if len(written) > most:
        raise refusal("too_large", name=name, size=len(written), most=most)
    return written


def encoded(value: Any) -> Any:
    """An object whose JSON only its library knows: a msgspec.Struct, a pydantic model. Raises TypeError for others."""
    kind = type(value)
    if hasattr(kind, "__struct_fields__"):
        from msgspec import to_builtins  # as its class did

        return to_builtins(value, str_keys=True)
    if serializer := getattr(kind, "__pydantic_serializer__", None):
        return serializer.to_python(value, mode="json", by_alias=True)
    raise TypeError(f"{kind.__name__} is not JSON")


PLAIN = frozenset((dict, list, tuple, str, int, float, bool, type(None)))


def as_mapping(value: Any) -> Any:
    """An object with fields as JSON has it, so that they can be read; anything else as it is. Raises InvalidBody."""
    if (kind := type(value)) in PLAIN:
        return value
    is_own = hasattr(kind, "__struct_fields__") or hasattr(kind, "__pydantic_serializer__") or is_dataclass(kind)
    return orjson.loads(finite_json("body", value, sys.maxsize, InvalidBody)) if is_own else value


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
    with suppress(TypeError):
        return _has_non_finite(encoded(value))
    return False
