"""What became of the lines of an `append` so far, and of which line that is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import typer

from ..client import Sequencer
from ..errors import BatchRefused, OutcomeUnknown, QueueFull, ServerError
from ..settings.body_fields import BodyFields
from ..texts.words import plain
from ..values.message import BatchReceipt

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
