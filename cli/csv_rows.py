"""Reads a CSV input, whose header names the fields of each row's body."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from ..errors import InvalidMessage
from ..texts.words import many

Row = list[str]


class CsvInput:
    """The rows of a CSV in UTF-8, with commas. Every value is text, except a number in the score field."""

    def __init__(self, lines: Iterator[bytes], score_by: str | None, max_bytes: int) -> None:
        csv.field_size_limit(max_bytes)  # a quote that is never closed is read up to this
        self._rows = csv.reader(_texts(lines), strict=True)
        self._score_by, self._header = score_by, Row()

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Each row, with the number of the line on which it begins. Raises InvalidMessage where reading can't go on."""
        try:
            self._header = next((row for row in self._rows if row), Row())
            twice = [name for name, count in Counter(self._header).items() if count > 1]
            if twice:
                raise InvalidMessage(f"the header names {twice[0]!r} twice")
            first = self._rows.line_num + 1
            for row in self._rows:
                if row:
                    yield first, row
                first = self._rows.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidMessage(f"the next row can't be read: {error}") from None

    def body(self, row: Row) -> dict[str, Any]:
        """The body of a row. Raises ValueError."""
        if len(row) != len(self._header):
            raise ValueError(f"has {many(len(row), 'value')}, but the header names {len(self._header)}")
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
