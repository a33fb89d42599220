"""Loads lua/*.lua, and makes the commands that run a call: EVAL, which carries its script, or EVALSHA."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from .calls import Call

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
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")


@cache
def script_sha(name: str) -> str:
    return sha1(script_source(name).encode(), usedforsecurity=False).hexdigest()


def eval_command(call: Call[Any]) -> tuple[Any, ...]:
    """The call as an EVAL that carries its script: for MULTI/EXEC, where NOSCRIPT could not be mended."""
    return ("EVAL", script_source(call.script), len(call.keys), *call.keys, *call.args)


def evalsha_command(call: Call[Any]) -> tuple[Any, ...]:
    return ("EVALSHA", script_sha(call.script), len(call.keys), *call.keys, *call.args)
