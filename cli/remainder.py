"""What `append` says where it was broken off: the lines that are stored, and the command that appends the rest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import typer

from ..errors import OutcomeUnknown
from ..values.commands import command
from ..values.text import many, plain, quoted
from .app import is_of_call
from .lines import GZIP
from .render import say
from .tally import Tally

UNREPEATED = ("namespace", "json", "help")
"""Options that are not copied: `command` says the first, and the others are no matter of the rest.

A URL with a password is not among those that the call gives: see `hide_password`.
"""


def say_interrupted(tally: Tally, ctx: typer.Context, *, is_unknown: bool) -> None:
    """After Ctrl-C; `is_unknown`: while a call was not answered."""
    stored = f"interrupted: what stands up to line {tally.last_line:,} is stored"
    if is_unknown:
        stored += _perhaps(tally)
    if tally.has_ids:
        again = "a rerun adds nothing twice, because each message has an id"
    else:
        rest = rest_of(ctx, tally.last_line + 1)
        again = f"a rerun stores them again, because they have no ids; to go on{_input(ctx)}: {rest}"
    say(f"{stored}; {again}")


def say_broken_off(tally: Tally, ctx: typer.Context, error: Exception) -> None:
    """After the server refused a chunk, or went away. Nothing of a chunk that was refused is stored."""
    say(plain(f"error: {error}"))
    last, but = tally.last_line, ", but for the lines that were refused" if tally.refused else ""
    stored = f"what stands up to line {last:,} is stored{but}" if last else "nothing is stored yet"
    stored += _perhaps(tally) if isinstance(error, OutcomeUnknown) else f"; line {last + 1:,} is the first that is not"
    say(f"{stored}; to go on from there{_input(ctx)}: {rest_of(ctx, last + 1)}")


def _input(ctx: typer.Context) -> str:
    return ", with the same input" if ctx.params["file"] == "-" else ""


def _perhaps(tally: Tally) -> str:
    return f", and of the {many(tally.chunk, 'line')} behind it perhaps some"


def rest_of(ctx: typer.Context, first_line: int) -> str:
    """A line for a shell that appends the input of this call from a line on, in the same way."""
    given, options = ctx.params, list[str]()
    for one in ctx.command.params:
        name = str(one.name)
        if one.param_type_name == "option" and name not in UNREPEATED and is_of_call(ctx, name):
            options += [one.opts[0]] if given[name] is True else [one.opts[0], str(given[name])]
    again = command("append", given["queue"], namespace=given["namespace"], options=options)
    file = given["file"]
    if file == "-":
        return f"tail -n +{first_line} | {again}"
    name = quoted(f"./{file}" if file.startswith("-") else file)
    return f"{_read(file, name, first_line)} | {again}"


def _read(file: str, name: str, first_line: int) -> str:
    is_packed = False
    with suppress(OSError):  # it is gone by now
        if Path(file).is_file():  # to open a pipe may wait for ever
            with Path(file).open("rb") as stream:
                is_packed = stream.read(len(GZIP)) == GZIP
    return f"gzip -dc {name} | tail -n +{first_line}" if is_packed else f"tail -n +{first_line} {name}"
