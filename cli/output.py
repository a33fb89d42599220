"""What a command prints: texts for people, JSON for scripts, on streams which may be full or closed. Text is UTF-8.

What can't be written is dropped, and noted: a command goes on, since what it does must not depend on who reads what it
says. Its status then tells it: see `failure_text`.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from contextlib import suppress
from select import POLLOUT, poll  # bound here: an app that is refused for patching the library may have taken it
from typing import Any

import orjson
import typer

from ..processes.logs import FLUSH_S
from ..texts.words import json_line
from ..values.views import as_json

FINE, GAVE_UP, WRONG_USE, SERVER, PARKED, FOUND, OPEN = range(7)
INTERRUPTED = 130
"""As a shell says it of a process that Ctrl-C ended."""


class Output(io.TextIOBase):
    """A standard stream. Each text is written at once; one that nobody reads within `patience_s` is dropped."""

    encoding: str = "utf-8"
    errors: str | None = "backslashreplace"

    def __init__(self, fd: int, patience_s: float | None = None) -> None:
        self._fd, self._patience_ms = fd, None if patience_s is None else 1000 * patience_s
        self._ready = poll()
        self._ready.register(fd, POLLOUT)
        self.failure: OSError | None = None
        """Why nothing more can be written."""

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest and self.failure is None and self._ready.poll(self._patience_ms):
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # a pipe that others set so
                continue
            except OSError as error:
                self.failure = error
        return len(text)


def install() -> None:
    """Take the place of the two streams, where there are any."""
    for name, patience_s in (("stdout", None), ("stderr", FLUSH_S)):
        stream = getattr(sys, name)
        with suppress(OSError, ValueError):  # a test's
            stream.flush()
            setattr(sys, name, Output(stream.fileno(), patience_s))


def failure_text() -> str:
    """Why standard output could not be written; empty where it could, and where its reader has left, as of `| head`."""
    failure = getattr(sys.stdout, "failure", None)
    if failure is None or failure.errno == errno.EPIPE:
        return ""
    return f"standard output can't be written: {failure.strerror}"


def say(text: str) -> None:
    """On standard error."""
    typer.echo(text, err=True)


def json_text(value: Any) -> str:
    """One line of JSON: of a value, of a list of them, or of a dict of plain ones."""
    plain_value = as_json(value)
    try:
        line = orjson.dumps(plain_value, default=str).decode()
    except TypeError:  # bytes of others that are no UTF-8, as halves of a pair; an integer of more than 64 bits
        line = json.dumps(plain_value, default=str, separators=(",", ":"))
    return json_line(line)


class Answer:
    """What a command answers: a value for scripts, or texts for people, below each other; those that are empty are left
    out. `hint`: for people too, on standard error.
    """

    def __init__(self, value: Any, *texts: str, hint: str = "", status: int = FINE) -> None:
        self.value, self.text, self.hint, self.status = value, "\n".join(filter(None, texts)), hint, status

    def show(self, json: bool) -> int:
        """Print it; returns the exit status."""
        if self.hint and not json:
            say(self.hint)
        if text := json_text(self.value) if json else self.text:
            typer.echo(text)
        return self.status
