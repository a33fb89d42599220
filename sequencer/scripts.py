"""Loads lua/*.lua, and makes the commands that run a call: EVAL, which carries its script, or EVALSHA."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from .calls import Call

_PART = re.compile(r"^--\+ (\w+)\n", re.MULTILINE)
_CALLED = re.compile(r"call\('([A-Z]+)'")
_QUESTION = "not may('{name}', key, key) and '{name}'"  # RENAME has two keys
_UNASKED = {"TIME"}
"""It changes nothing."""


@cache
def script_source(name: str) -> str:
    """The text of `lua/NAME.lua`, with the part `lua/_PART.lua` in the place of each line `--+ PART`.

    Before its first statement stands the part `rights`, with the commands that it may call up to where it names that
    part again, or to its end; there, with those that come behind.
    """
    first, *others = _read(name).split("--+ rights\n")
    pieces = [first.replace("\nlocal ", "\n--+ rights\nlocal ", 1), *[f"--+ rights\n{other}" for other in others]]
    asked, text = set(_UNASKED), ""
    for piece in pieces:
        whole = _PART.sub(lambda found: _read(f"_{found[1]}"), piece)
        questions = [_QUESTION.format(name=command) for command in sorted(commands_in(whole) - asked)]
        asked |= commands_in(whole)
        text += whole.replace("QUESTIONS", " or ".join(questions))
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
