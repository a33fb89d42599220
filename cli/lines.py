"""Reads the lines of an input, NDJSON or CSV, and says what is wrong with one."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from ..errors import InvalidMessage
from ..values.json_input import decoded, refuse_nulls

Row = list[str]
OF_CONSUMER = frozenset(("queue", "attempt", "token", "appended_at"))
PRINTED = OF_CONSUMER | {"group", "id", "score", "body"}
"""The fields of a message as `consume` prints it, and gives it to a command; headers where it has some."""


def parse(line: bytes, *, is_envelope: bool) -> Any:
    """The value of a line; with `is_envelope` it has the arguments of `append`, else it may. Raises InvalidMessage.

    Of a line that `consume` printed, these arguments.
    """
    value = decoded(line)
    if isinstance(value, dict) and value.keys() - {"headers"} == PRINTED:
        return {name: field for name, field in value.items() if name not in OF_CONSUMER}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        raise InvalidMessage("line_is_array")
    if is_envelope and not (isinstance(value, dict) and "body" in value):
        raise InvalidMessage("line_without_body")
    if is_envelope:
        refuse_nulls(value)
    return value


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
