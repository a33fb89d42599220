"""Print mode: each message as one whole line on standard output, before it is acknowledged.

Consumers that share a pipe lock it for each line, since a pipe takes long lines in pieces. The lock ends with a process
that is killed; one that stands still with it is killed by its supervisor.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

import orjson

from ...errors import StopConsuming
from ...texts.words import json_line
from ...values.message import Message

FIELDS = ("queue", "group", "id", "score", "attempt", "token", "appended_at", "body")


def message_line(message: Message) -> bytes:
    """One JSON line, with headers if it has any. Control characters are escaped, also those that JSON lets through."""
    fields = {name: getattr(message, name) for name in FIELDS}
    if message.headers:
        fields["headers"] = message.headers
    line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    return line if line.isascii() and b"\x7f" not in line else json_line(line.decode()).encode()


class OutputClosed(StopConsuming):
    """Nobody reads the printed lines any more: nothing can be handled."""


class OutputFailed(StopConsuming):
    """The printed lines can't be written (a full disk, say): no failure of the message, but nothing can go on."""


class Printer:
    """Prints messages. `after_torn`: a consumer before was killed, maybe in the middle of a line, which is ended."""

    def __init__(self, output_fd: int = 1, *, after_torn: bool = False) -> None:
        self._output_fd, self._is_after_torn = output_fd, after_torn

    def __call__(self, message: Message) -> None:
        line = message_line(message)
        rest = memoryview(b"\n" + line if self._is_after_torn else line)
        self._lock(fcntl.LOCK_EX)
        try:
            while rest:
                rest = rest[os.write(self._output_fd, rest) :]
        except BrokenPipeError as error:
            raise OutputClosed from error
        except OSError as error:
            raise OutputFailed("output_failed", error=error.strerror) from error
        finally:
            self._lock(fcntl.LOCK_UN)
        self._is_after_torn = False

    def _lock(self, operation: int) -> None:
        with suppress(OSError):  # an output that can't be locked; what is wrong with it shows at the write
            fcntl.lockf(self._output_fd, operation)
