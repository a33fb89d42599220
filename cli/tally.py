"""The outcome of the lines of an `append`, and what interrupts it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ..client import Sequencer
from ..errors import BatchRefused, OutcomeUnknown, QueueFull, ServerError
from ..texts.words import plain
from ..values.message import BatchReceipt
from .output import say

LINES = 1000
"""In one call at most, as many as a chunk of a queue of many shards has."""
OnError = Literal["stop", "skip"]


@dataclass(slots=True)
class Tally:
    """What became of the lines so far; `problem` ends the run."""

    queue: Sequencer
    on_error: OnError = "stop"
    replace: bool = False
    chunk: int | None = None
    """As of append_many: where a line is refused, its shard stores nothing of its chunk."""
    appended: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    dead: int = 0
    problem: str = ""
    end: str = ""
    """Why the input can't be read to its end."""
    is_partial: bool = False
    """Whether some of the lines behind the last one are stored, since a queue of several shards refused another."""
    last_line: int = 0
    """The last line of the input of which is known what became of it."""

    def readable(self, lines: list[tuple[int, Any]], read: Callable[[Any], Any]) -> list[tuple[int, Any]]:
        """The bodies of numbered lines; up to a bad one, or but for the bad ones."""
        good = []
        for number, line in lines:
            try:
                good.append((number, read(line)))
            except ValueError as error:
                said = f"line {number}: {error}"
                if self.on_error == "stop":
                    self.problem = said
                    break
                self._refuse(said)
        return good

    def add(self, lines: list[tuple[int, Any]]) -> None:
        """Append the bodies of numbered lines; at a bad one, stop after those before it, or count it and go on."""
        try:
            self._send(lines, self.on_error)
        except BatchRefused as error:
            first, done = error.refused[0], error.earlier
            number = lines[first.index][0]
            self.problem = f"line {number}: {first.error}"
            if own := error.stored - done.appended:  # of the shards that were stored when another one refused
                self.appended, self.is_partial = self.appended + own, True
                return
            self._send(lines[_settled(done) : first.index], "skip")
            self.last_line = number - 1

    def _send(self, lines: list[tuple[int, Any]], on_refused: OnError) -> None:
        """Append the bodies of these lines; where that breaks off, count what is stored of them."""
        bodies, receipt = [body for _, body in lines], BatchReceipt(0, 0, [])
        try:
            receipt = self.queue.append_many(bodies, on_refused=on_refused, chunk=self.chunk, replace=self.replace)
        except (BatchRefused, ServerError, QueueFull, OutcomeUnknown) as error:
            receipt = error.earlier or receipt
            raise
        finally:
            for name in ("appended", "duplicates", "dropped", "dead"):
                setattr(self, name, getattr(self, name) + getattr(receipt, name))
            for refused in receipt.refused:
                self._refuse(f"line {lines[refused.index][0]}: {refused.error}")
            if settled := _settled(receipt):
                self.last_line = lines[settled - 1][0]

    def _refuse(self, said: str) -> None:
        self.refused += 1
        say(plain(said))


def _settled(receipt: BatchReceipt) -> int:
    return receipt.appended + receipt.duplicates + receipt.dropped + receipt.dead + len(receipt.refused)


class Interruption:
    """Either one, while lines are read, ends that at once; while some are sent, what became of them is waited for. A
    second one waits for nothing.
    """

    def __init__(self) -> None:
        self.is_sending = self._is_noted = False
        self.status = 128 + signal.SIGINT
        """The exit status of a command that one of them ended."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # one that was ignored stays so
                signal.signal(number, self._note)

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
