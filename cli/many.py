"""What `resume`, `skip` and `unpause` share when they act on many groups: options, progress, the closing text."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import ConfigurationError
from ..texts.commands import command
from ..texts.words import many
from ..values.views import ManySummary, as_json
from .app import DURATION, FINE, GAVE_UP, call_option, hear_interrupts, option
from .render import cells, console, print_json, say, table

ManyGroupsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PART...", help="The parts of one group; or choose many groups with an option.", show_default=False
    ),
]
AllOption = Annotated[bool, call_option("--all", help="Every parked group of the queue.")]
ErrorOption = Annotated[
    str | None,
    call_option(
        "--error",
        metavar="PATTERN",
        help="Only this error: its type, or a pattern with * and ? over 'Type: message'.",
        show_default=False,
    ),
]
SinceOption = Annotated[
    float | None,
    call_option("--since", help="Only what failed within this time: 90s, 10m, 2h, 1d.", show_default=False, **DURATION),
]
RateOption = Annotated[
    float | None,
    call_option("--rate", help="Maximum number of groups per second. Default: no limit.", show_default=False),
]
ByErrorOption = Annotated[bool, call_option("--by-error", help="Show the count of each error.")]
DryRunOption = Annotated[bool, option("--dry-run", help="Change nothing; show how many would be affected.")]
"""It has a variable, since that can only make a call do less."""
OnlyIdOption = Annotated[str | None, call_option("--id", help="Only this message.", show_default=False)]
YesOption = Annotated[bool, call_option("--yes", help="Do not ask.")]


def is_for_many(group: list[str] | None, *chosen: object, choices: str = "--all, --error or --since") -> bool:
    """Whether a command is for many groups, not for one that is named. Raises ConfigurationError for both, or none."""
    is_chosen = any(one not in (None, False) for one in chosen)
    if chosen[0] is True and any(one is not None for one in chosen[1:]):
        raise ConfigurationError("--all means every parked group; leave out either --all or the other choice")
    if group and is_chosen:
        raise ConfigurationError(f"give either the parts of a group, or {choices}")
    if not group and not is_chosen:
        raise ConfigurationError(f"which groups? Give the parts of one group, or {choices} for many")
    return is_chosen


def refuse_alone(given: dict[str, object], why: str) -> None:
    """Options that mean nothing for what was asked. Raises ConfigurationError."""
    for name, value in given.items():
        if value not in (None, False):
            raise ConfigurationError(f"{name} is {why}; leave it out")


def confirm(question: str, is_sure: bool) -> bool:
    """Whether to go on with what destroys. Raises ConfigurationError where there is nobody to ask."""
    if is_sure:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{question.removesuffix('?')}: there is no terminal to ask on; add --yes to do it, or --dry-run to see "
            "how many would be affected"
        )
    is_confirmed = typer.confirm(question, err=True)
    if not is_confirmed:
        typer.echo("nothing was changed", err=True)
    return is_confirmed


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; what it gives is called with how many are done, and of how many. Ctrl-C within says that."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    stream = Console(stderr=True)
    with Progress(*columns, console=stream, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        seen = "before the first"

        def told(done: int, total: int) -> None:
            nonlocal seen
            seen = f"at {done:,} of {total:,}"
            bar.update(task, completed=done, total=total)

        hear_interrupts()
        try:
            yield told
        except KeyboardInterrupt:
            bar.stop()
            say(f"interrupted {what} {seen}; the last request may still take effect; run the command again to continue")
            raise


def say_many(done: ManySummary, what: str, queue: str, namespace: str, json: bool, *, how: str = "") -> int:
    """What became of many groups, and the status: 1 where some were left, or none of those that are parked fits; the
    latter with --dry-run too.

    `what`: "resumed"; `how`: what more is said of them.
    """
    is_none, behind = bool(done.others) and not done.chosen, f", {how}" if how else ""
    left = done.changed or done.waiting or done.asked
    status = GAVE_UP if is_none or (left and not (done.is_dry_run and done.chosen)) else FINE
    if json:
        print_json(as_json(done))
        return status
    see = command("parked", queue, namespace=namespace)
    if is_none:
        typer.echo(f"no parked group matches, out of {sum(done.others.values()):,}; inspect: {see}")
    elif done.is_dry_run:
        typer.echo(f"{many(done.chosen, 'group')} would be {what}{behind}")
        if done.errors:
            say_errors(done.errors, "groups")
    else:
        typer.echo(f"{what} {done.done:,} of {many(done.chosen, 'group')}{behind}")
    if done.changed:
        typer.echo(f"left alone {done.changed:,} that changed meanwhile; inspect: {see}; then run this again")
    if done.waiting:
        said = f"{many(done.waiting, 'more parked group')} waiting for a missing number: append it, or skip it"
        typer.echo(f"{said}; inspect: {see}")
    if done.asked:
        answer = command("resume", queue, namespace=namespace, options=["--error", "StepUnknown", "--done", "STEP"])
        said = f"{many(done.asked, 'more parked group')} waiting for an operator to confirm the outcome of a step"
        typer.echo(f"{said}; inspect: {see}; answer for all at once: {answer}, or --again STEP")
    return status


def say_errors(counts: Mapping[str, int], nouns: str, nothing: str = "", as_json: bool = False) -> None:
    """How many of each error, the most frequent first."""
    errors = dict(Counter(counts).most_common())
    if as_json:
        print_json(errors)
        return
    rows = table("error", nouns)
    for name, count in errors.items():
        rows.add_row(*cells(name, f"{count:,}"))
    console().print(rows if errors else nothing)
