"""What others send as JSON: read without changing a number, and checked as the arguments of `append`. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from ..errors import InvalidMessage
from .checks import nearest

_MAYBE_LARGE = re.compile(rb"[0-9]{19}")
"""What a number of more than 64 bits has; so has an id of 19 digits, which is no reason to refuse a line."""
LARGEST, SMALLEST = 2**64 - 1, -(2**63)
"""What JSON of a body can hold as a whole number here; orjson makes a float of what lies beyond."""
ARGUMENTS = ("body", "group", "id", "score", "headers", "delay", "at", "done")
"""Of `append`, in the order in which `ItemMaker.make` takes them."""


def decoded(text: bytes) -> Any:
    """The value of a text. Raises InvalidMessage."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:  # its own text counts lines
        last = len(error.doc.rstrip())  # of a text that is no UTF-8 there is none
        column = max(1, min(error.pos + 1, last)) if last else 0
        raise InvalidMessage("line_not_json", error=error.msg, column=column) from None
    if _MAYBE_LARGE.search(text):
        json.loads(text, parse_int=_whole)
    return value


def refuse_nulls(value: dict[str, Any]) -> None:
    """Raises InvalidMessage."""
    for name in ("group", "id", "score"):
        if name in value and value[name] is None:
            raise InvalidMessage("field_null", field=name, is_optional=name != "group")


def arguments(value: Any) -> dict[str, Any]:
    """A value that has the arguments of `append` and nothing else. Raises InvalidMessage."""
    if not (isinstance(value, dict) and "body" in value):
        raise InvalidMessage("line_without_body")
    if others := value.keys() - set(ARGUMENTS):
        name = min(others)
        raise InvalidMessage("name_unknown", owner="a message", kind="field", name=name, **nearest(name, ARGUMENTS))
    refuse_nulls(value)
    return value


def _whole(text: str) -> int:
    """A whole number. Raises InvalidMessage for one that is not within 64 bits."""
    if len(text.lstrip("-0")) > 20 or not SMALLEST <= int(text) <= LARGEST:
        raise InvalidMessage("number_too_large", number=text if len(text) <= 60 else f"{text[:60]}...")
    return int(text)
