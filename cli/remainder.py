"""What `append` says where it was broken off: the lines that are stored, and the command that appends the rest."""

from __future__ import annotations

import typer

from ..errors import OutcomeUnknown
from ..texts.commands import command
from ..texts.words import many, plain
from .app import is_of_call
from .render import say
from .tally import Tally

UNREPEATED = ("namespace", "redis", "json", "help", "from_line")
"""Options that are not copied: `command` says the first two, and the others are no matter of the rest."""


def say_interrupted(tally: Tally, ctx: typer.Context, *, is_unknown: bool) -> None:
    """After Ctrl-C or SIGTERM; `is_unknown`: while a call was not answered.

    A rerun from the beginning is not offered: where messages have ids, it adds again what was handled longer than the
    queue's `dedup_window` ago.
    """
    stored = f"interrupted: {_stored(tally)}"
    if is_unknown:
        stored += _perhaps(tally)
    say(f"{stored}; {_way_on(ctx)}: {rest_of(ctx, tally.last_line + 1)}")


def say_stopped(tally: Tally, ctx: typer.Context) -> None:
    """At a line that can't be appended, or where the input can't be read on."""
    hint = "" if tally.end else " (--on-error skip leaves it out)"
    rest = f"once that is fixed{hint}, {_way_on(ctx)}: {rest_of(ctx, tally.last_line + 1)}"
    say(plain(f"error: {tally.problem}; stopped there, the lines before it are stored; {rest}"))


def say_broken_off(tally: Tally, ctx: typer.Context, error: Exception) -> None:
    """After the server refused a chunk, or went away. Nothing of a chunk that was refused is stored."""
    say(plain(f"error: {error}"))
    last, stored = tally.last_line, _stored(tally)
    stored += (
        _perhaps(tally)
        if isinstance(error, OutcomeUnknown)
        else f"; line {last + 1:,} is the first that this call did not store"
    )
    say(f"{stored}; {_way_on(ctx)}: {rest_of(ctx, last + 1)}")


def _stored(tally: Tally) -> str:
    but = ", but for the lines that were refused" if tally.refused else ""
    return f"the lines up to {tally.last_line:,} are stored{but}" if tally.last_line else "this call stored nothing yet"


def _way_on(ctx: typer.Context) -> str:
    return "to go on, give the whole input again to" if ctx.params["file"] == "-" else "to go on"


def _perhaps(tally: Tally) -> str:
    doubled = "" if tally.has_ids else "; as they have no ids, those are then stored twice"
    return f", and of the {many(tally.chunk, 'line')} behind it perhaps some{doubled}"


def rest_of(ctx: typer.Context, first_line: int) -> str:
    """A line for a shell that appends the input of this call from a line on, in the same way."""
    given, options = ctx.params, list[str]()
    for one in ctx.command.params:
        name = str(one.name)
        if one.param_type_name == "option" and name not in UNREPEATED and is_of_call(ctx, name):
            options += [one.opts[0]] if given[name] is True else [one.opts[0], str(given[name])]
    file = [] if given["file"] == "-" else [given["file"]]
    options += ["--from-line", str(first_line)]
    return command("append", given["queue"], *file, namespace=given["namespace"], options=options)
