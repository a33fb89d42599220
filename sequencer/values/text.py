"""How texts of others are shown in one line: control characters are spelled out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that would end a line or move a terminal's cursor, and halves of a pair, which can't be encoded."""


def plain(text: str) -> str:
    """The text with its control characters spelled out: nothing in it ends a line, or moves a terminal's cursor."""
    return CONTROL.sub(lambda found: _escaped(found[0]), text)


def named(group: Sequence[str]) -> str:
    """A group in a sentence or on a command line: its parts with blanks between."""
    return plain(" ".join(group))


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
