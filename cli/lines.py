"""Reads the lines of an input, NDJSON or CSV, and says what is wrong with one."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from ..errors import InvalidMessage

_MAYBE_LARGE = re.compile(rb"[0-9]{19}")
"""What a number of more than 64 bits has; so has an id of 19 digits, which is no reason to refuse a line."""
LARGEST, SMALLEST = 2**64 - 1, -(2**63)
"""What JSON of a body can hold as a whole number here; orjson makes a float of what lies beyond."""
Row = list[str]
OF_CONSUMER = frozenset(("queue", "attempt", "token", "appended_at"))
PRINTED = OF_CONSUMER | {"group", "id", "score", "body"}
"""The fields of a message as `consume` prints it, and gives it to a command; headers where it has some."""


def parse(line: bytes, *, is_envelope: bool) -> Any:
    """The value of a line; with `is_envelope` it has the arguments of `append`, else it may. Raises InvalidMessage.

    Of a line that `consume` printed, these arguments.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:  # its own text counts lines, of which this is one
        last = len(error.doc.rstrip())  # of a line that is no UTF-8 there is no text
        column = max(1, min(error.pos + 1, last)) if last else 0
        raise InvalidMessage("line_not_json", error=error.msg, column=column) from None
    if _MAYBE_LARGE.search(line):
        json.loads(line, parse_int=_whole)
    if isinstance(value, dict) and value.keys() - {"headers"} == PRINTED:
        return {name: field for name, field in value.items() if name not in OF_CONSUMER}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        raise InvalidMessage("line_is_array")
    if is_envelope and not (isinstance(value, dict) and "body" in value):
        raise InvalidMessage("line_without_body")
    if is_envelope:
        for name in ("group", "id", "score"):
            if name in value and value[name] is None:
                raise InvalidMessage("field_null", field=name, is_optional=name != "group")
    return value


def _whole(text: str) -> int:
    """A whole number. Raises InvalidMessage for one that is not within 64 bits."""
    if len(text.lstrip("-0")) > 20 or not SMALLEST <= int(text) <= LARGEST:
        raise InvalidMessage("number_too_large", number=text if len(text) <= 60 else f"{text[:60]}...")
    return int(text)


class CsvInput:
    """The rows of a CSV in UTF-8, with commas. Every value is text, except a number in the score field."""

    def __init__(self, lines: Iterator[bytes], score_by: str | None, max_bytes: int) -> None:
        csv.field_size_limit(max_bytes)  # a quote that is never closed is read up to this
        self._rows = csv.reader(_texts(lines), strict=True)
        self._score_by, self._header = score_by, Row()

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Each row, with the number of the line on which it begins. Raises InvalidMessage where reading can't go on."""
        first = 1
        try:
            for row in self._rows:
                if row and self._header:
                    yield first, row
                elif row:
                    self._header = row
                    if twice := [name for name, count in Counter(row).items() if count > 1]:
                        raise InvalidMessage("header_twice", line=first, name=twice[0])
                first = self._rows.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidMessage("row_unreadable", line=first, error=str(error)) from None

    def body(self, row: Row) -> dict[str, Any]:
        """The body of a row. Raises InvalidMessage."""
        if len(row) != len(self._header):
            raise InvalidMessage("row_length", count=len(row), columns=len(self._header))
        body: dict[str, Any] = dict(zip(self._header, row, strict=True))
        if self._score_by in body:
            body[self._score_by] = _score(body[self._score_by])
        return body


def _texts(lines: Iterator[bytes]) -> Iterator[str]:
    """Spreadsheets write a byte order mark."""
    for at, line in enumerate(lines):
        yield line.decode("utf-8" if at else "utf-8-sig")


def _score(text: str) -> Any:
    """The number that a text is, as JSON writes it; else the text, which may be a time."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if type(value) in (int, float) else text
