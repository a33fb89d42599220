"""The text of each script, put together from `lua/`, and the commands that it may call."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path

LUA = Path(__file__).parents[1] / "lua"
_RIGHTS = "--+ rights\n"
_PART = re.compile(r"^--\+ (?!rights\n)([\w/]+)\n", re.MULTILINE)
_CALLED = re.compile(r"call\('([A-Z]+)'")
_QUESTION = "not may('{name}', key, key) and '{name}'"  # RENAME has two keys
_UNASKED = {"TIME"}  # it changes nothing


@cache
def script_source(name: str) -> str:
    """The text of `lua/NAME.lua`, with the part `lua/parts/PART.lua` in the place of the first line `--+ PART`.

    The part `rights` asks for the commands that may be called behind it, up to where it stands again. A script that
    does not name it has it before its first statement; what comes before one that is named only reads, or is undone.
    Comments and indents stay in the files: the text is sent with each EVAL.
    """
    return stripped(assembled(name))


@cache
def script_sha(name: str) -> str:
    return sha1(script_source(name).encode(), usedforsecurity=False).hexdigest()


def assembled(name: str) -> str:
    """The script with its parts, as the files have them."""
    there = set[str]()

    def part(found: re.Match[str]) -> str:
        if found[1] in there:
            return ""
        there.add(found[1])
        return _PART.sub(part, _read(f"parts/{found[1]}"))

    whole = _PART.sub(part, _read(name))
    if _RIGHTS not in whole:
        whole = whole.replace("\nlocal ", f"\n{_RIGHTS}local ", 1)
    text, *pieces = whole.split(_RIGHTS)
    for piece in pieces:
        questions = [_QUESTION.format(name=command) for command in sorted(commands_in(piece) - _UNASKED)]
        text += _read("parts/rights").replace("QUESTIONS", " or ".join(questions)) + piece
    return text


def stripped(text: str) -> str:
    """The same program without comments, indents and empty lines. No string of a script holds two dashes."""
    lines = (line.partition("--")[0].strip() for line in text.splitlines())
    return "\n".join(filter(None, lines)) + "\n"


def commands_in(source: str) -> set[str]:
    """The commands that a script may call, in capitals."""
    return set(_CALLED.findall(source))


def _read(name: str) -> str:
    return (LUA / f"{name}.lua").read_text(encoding="utf-8")
