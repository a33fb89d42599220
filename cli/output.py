"""Standard output and standard error of a command, which may be full or closed. Text is UTF-8.

What can't be written is dropped, and noted: a command goes on, since what it does must not depend on who reads what it
says. Its status then tells it: see `failure_text`.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress


class Output(io.TextIOBase):
    """A standard stream. Each text is written at once."""

    encoding: str = "utf-8"
    errors: str | None = "backslashreplace"

    def __init__(self, fd: int) -> None:
        self._fd = fd
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
        while rest and self.failure is None:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # a pipe that others set so
                select.select([], [self._fd], [])
            except OSError as error:
                self.failure = error
        return len(text)


def install() -> None:
    """Take the place of the two streams, where there are any."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        with suppress(OSError, ValueError):  # a test's
            stream.flush()
            setattr(sys, name, Output(stream.fileno()))


def is_lost() -> bool:
    """Whether standard output takes nothing any more."""
    return getattr(sys.stdout, "failure", None) is not None


def failure_text() -> str:
    """Why standard output could not be written; empty where it could, and where its reader has left, as of `| head`."""
    failure = getattr(sys.stdout, "failure", None)
    if failure is None or failure.errno == errno.EPIPE:
        return ""
    return f"standard output can't be written: {failure.strerror}"
