"""The text of each script, put together from `lua/`, and the commands that it may call."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_RIGHTS = "--+ rights\n"


_PART = re.compile(r"^--\+ (?!rights\n)(\w+)\n", re.MULTILINE)


_CALLED = re.compile(r"call\('([A-Z]+)'")


_QUESTION = "not may('{name}', key, key) and '{name}'"  # RENAME has two keys


_UNASKED = {"TIME"}
"""It changes nothing."""


@cache
def script_source(name: str) -> str:
    """The text of `lua/NAME.lua`, with the part `lua/_PART.lua` in the place of each line `--+ PART`.

    The part `rights` asks for the commands that may be called behind it, up to where it stands again. A script that
    does not name it has it before its first statement; what comes before one that is named only reads, or is undone.
    """
    whole = _PART.sub(lambda found: _read(f"_{found[1]}"), _read(name))
    if _RIGHTS not in whole:
        whole = whole.replace("\nlocal ", f"\n{_RIGHTS}local ", 1)
    text, *pieces = whole.split(_RIGHTS)
    for piece in pieces:
        questions = [_QUESTION.format(name=command) for command in sorted(commands_in(piece) - _UNASKED)]
        text += _read("_rights").replace("QUESTIONS", " or ".join(questions)) + piece
    return text


def commands_in(source: str) -> set[str]:
    """The commands that a script may call, in capitals."""
    return set(_CALLED.findall(source))


def _read(name: str) -> str:
    return (Path(__file__).parents[1] / "lua" / f"{name}.lua").read_text(encoding="utf-8")
