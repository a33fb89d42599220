"""What commands share that act on many groups or dead letters: options, questions, progress, the closing text."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError
from ..texts.answers import answer_text
from ..values.views import ManySummary, as_json
from .app import DURATION, hear_interrupts, text_of
from .output import FINE, GAVE_UP, Answer, say
from .table import table

AllOption = Annotated[bool, Option("--all", help="All of the queue.")]
ErrorOption = Annotated[
    str | None,
    Option(metavar="PATTERN", help="Only this error: its type, or a pattern with * and ? over 'Type: message'."),
]
SinceOption = Annotated[float | None, Option(help="Only what failed within this time: 90s, 10m, 2h, 1d.", **DURATION)]
RateOption = Annotated[float | None, Option(help="Maximum number of groups per second. Default: no limit.")]
ByErrorOption = Annotated[bool, Option("--by-error", help="Show the count of each error.")]
DryRunOption = Annotated[
    bool, Option("--dry-run", envvar="SEQUENCER_DRY_RUN", help="Change nothing; show what would be affected.")
]
OnlyIdOption = Annotated[str | None, Option(help="Only this message.")]
YesOption = Annotated[bool, Option("--yes", help="Do not ask.")]


def is_for_many(group: list[str] | None, everything: bool, error: str | None, since: float | None) -> bool:
    """Whether a command is for many groups, not for one that is named. Raises ConfigurationError for both, or none."""
    is_many = everything or error is not None or since is not None
    if is_many == bool(group):
        raise ConfigurationError("groups_unchosen")
    return is_many


def refuse(code: str, **given: object) -> None:
    """Options that mean nothing for what was asked. Raises ConfigurationError with this code."""
    for name, value in given.items():
        if value not in (None, False):
            raise ConfigurationError(code, option=f"--{name.replace('_', '-')}")


def confirm(client: Sequencer, code: str, **counts: int) -> None:
    """Ask before what destroys. Raises Abort, and ConfigurationError where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise ConfigurationError("unconfirmed")
    typer.confirm(text_of(client, code, **counts), err=True, abort=True)


@contextmanager
def progress(what: str, *, is_repeatable: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; what it gives is called with how many are done, and of how many. Ctrl-C within says that."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    stream = Console(stderr=True)
    with Progress(*columns, console=stream, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        seen = dict[str, Any]()

        def update(done: int, total: int) -> None:
            seen.update(done=done, total=total)
            bar.update(task, completed=done, total=total)

        hear_interrupts()
        try:
            yield update
        except KeyboardInterrupt:
            bar.stop()
            say(answer_text("interrupted", action=what, is_repeatable=is_repeatable, **seen))
            raise


def answer_of_many(client: Sequencer, done: ManySummary, action: str, heads: str = "", hint: str = "") -> Answer:
    """What became of many groups; status 1 where some were left, or none of those that are parked fits, the latter with
    --dry-run too.

    `action`: "resumed"; `heads`: what became of their heads.
    """
    is_none = bool(done.others) and not done.chosen
    left = {"many_changed": done.changed, "many_waiting": done.waiting, "many_asked": done.asked}
    about = {"action": action, "heads": heads, **as_json(done), "others": sum(done.others.values())}
    lines = [text_of(client, "none_fits" if is_none else "many_done", **about)]
    if done.is_dry_run:
        lines.append(error_table(done.errors, "groups"))
    lines += [text_of(client, code, count=count) for code, count in left.items() if count]
    status = GAVE_UP if is_none or (any(left.values()) and not (done.is_dry_run and done.chosen)) else FINE
    return Answer(done, *lines, hint=hint, status=status)


def error_table(counts: Mapping[str, int], nouns: str) -> str:
    """How many of each error, the most frequent first."""
    return table([{"error": name, nouns: count} for name, count in Counter(counts).most_common()])
