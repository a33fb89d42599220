"""The outcome of the lines of an `append`; if it is interrupted, the command that appends the rest."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import typer

from ..client import Sequencer
from ..errors import BatchRefused, OutcomeUnknown, QueueFull, ServerError
from ..settings.body_fields import BodyFields
from ..texts.commands import command
from ..texts.words import many, plain
from ..values.message import BatchReceipt
from .app import is_of_call
from .render import say

LINES = 128
"""In one call, and in its chunk unless they are large: where one is refused, nothing of its chunk is stored."""
OnError = Literal["stop", "skip"]


@dataclass(slots=True)
class Tally:
    """What became of the lines so far; `problem` ends the run."""

    appended: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    dead: int = 0
    chunk: int = LINES
    """The most lines in one call."""
    fields: BodyFields = field(default_factory=BodyFields)
    """Those of the queue."""
    problem: str = ""
    end: str = ""
    """Why the input can't be read to its end."""
    last_line: int = 0
    """The last line of the input of which is known what became of it."""
    has_ids: bool = True
    """Whether each message had an id of its own, so that to append it again adds nothing."""

    def add(self, queue: Sequencer, lines: list[tuple[int, Any]], on_error: OnError, replace: bool) -> None:
        """Append the bodies of numbered lines; at a bad one, stop behind those before it, or count it and go on."""
        self.has_ids = self.has_ids and all(
            self.fields.id_by or (isinstance(body, dict) and "id" in body and not self.fields.group_by)
            for _, body in lines
        )
        last_line = lines[-1][0] if lines else self.last_line
        try:
            receipt = self._send(queue, lines, on_error, replace)
        except BatchRefused as error:
            first = error.refused[0]
            self.problem = f"line {lines[first.index][0]}: {first.error}"
            last_line = lines[first.index][0] - 1
            done = error.earlier
            self._count(done)
            own = error.stored - done.appended
            self.appended += own  # of the shards that were stored when another one refused
            begin = done.appended + done.duplicates + done.dropped + done.dead
            before = [] if own else lines[begin : first.index]
            receipt = self._send(queue, before, "skip", replace)
        self._count(receipt)
        self._say_refused(lines, receipt)
        self.last_line = last_line

    def _send(self, queue: Sequencer, lines: list[tuple[int, Any]], on_refused: OnError, replace: bool) -> BatchReceipt:
        """Append the bodies of these lines; where that breaks off, count what is stored of them."""
        bodies = [body for _, body in lines]
        try:
            return queue.append_many(bodies, on_refused=on_refused, chunk=self.chunk, replace=replace)
        except (ServerError, QueueFull, OutcomeUnknown) as error:
            done = error.earlier or BatchReceipt(0, 0, [])
            self._count(done)
            self._say_refused(lines, done)
            behind = done.appended + done.duplicates + done.dropped + done.dead + len(done.refused)
            self.last_line = lines[behind][0] - 1
            raise

    def _say_refused(self, lines: list[tuple[int, Any]], receipt: BatchReceipt) -> None:
        self.refused += len(receipt.refused)
        for refused in receipt.refused:
            typer.echo(plain(f"line {lines[refused.index][0]}: {refused.error}"), err=True)

    def _count(self, receipt: BatchReceipt) -> None:
        self.appended += receipt.appended
        self.duplicates += receipt.duplicates
        self.dropped += receipt.dropped
        self.dead += receipt.dead


UNREPEATED = ("namespace", "redis", "json", "help", "from_line")
"""Options that are not copied: `command` says the first two, and the others are no matter of the rest."""


def say_rest(tally: Tally, ctx: typer.Context, why: str, *, is_unknown: bool = False) -> None:
    """What is stored where it was broken off, and the command that appends the rest. `is_unknown`: a call was not
    answered.

    A rerun from the beginning is not offered: where messages have ids, it adds again what was handled longer than the
    queue's `dedup_window` ago.
    """
    but = ", except refused ones" if tally.refused else ""
    stored = f"lines up to {tally.last_line:,} are stored{but}" if tally.last_line else "nothing is stored yet"
    if is_unknown:
        stored += f", and perhaps some of the next {many(tally.chunk, 'line')}"
        stored += "" if tally.has_ids else ", which are then stored twice, as they have no ids"
    rest = "append the rest, with the same whole input" if ctx.params["file"] == "-" else "append the rest"
    say(plain(f"{why}; {stored}; {rest}: {rest_of(ctx, tally.last_line + 1)}"))


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


class Interruption:
    """Either one, while lines are read, ends that at once; while some are sent, what became of them is waited for. A
    second one waits for nothing.
    """

    def __init__(self) -> None:
        self.is_sending = self._is_noted = False
        self.status = 128 + signal.SIGINT
        """The exit status of a command that one of them ended."""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within, they come here; one that was ignored stays so."""
        old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number, heard in old.items():
            if heard is not signal.SIG_IGN:
                signal.signal(number, self._note)
        try:
            yield
        finally:
            for number, heard in old.items():
                signal.signal(number, heard)

    def _note(self, number: int, _frame: object) -> None:
        self.status = 128 + number
        if self._is_noted or not self.is_sending:
            raise KeyboardInterrupt
        self._is_noted = True

    @contextmanager
    def sending(self) -> Iterator[None]:
        """An interruption within waits for the end."""
        self.is_sending = True
        yield
        self.is_sending = False
        if self._is_noted:
            raise KeyboardInterrupt
