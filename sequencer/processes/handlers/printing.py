"""Print mode: each message as one whole line on standard output, before it is acknowledged.

A line is one write. What a pipe takes in one piece never mixes with the lines of other consumers; a longer line on a
pipe needs a consumer that prints alone.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from typing import Any

import orjson

from ...errors import StopConsuming
from ...texts.words import json_line
from ...values.message import Message


def message_line(message: Message) -> bytes:
    """The message as one JSON line: queue group id score attempt token appended_at body, and headers if it has any.

    Control characters are escaped, also those that JSON lets through.
    """
    fields: dict[str, Any] = {
        "queue": message.queue,
        "group": message.group,
        "id": message.id,
        "score": message.score,
        "attempt": message.attempt,
        "token": message.token,
        "appended_at": message.appended_at,
        "body": message.body,
    }
    if message.headers:
        fields["headers"] = message.headers
    line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    return line if line.isascii() and b"\x7f" not in line else json_line(line.decode()).encode()


class OutputClosed(StopConsuming):
    """Nobody reads the printed lines any more: nothing can be handled."""


class OutputFailed(StopConsuming):
    """The printed lines can't be written (a full disk, say): no failure of the message, but nothing can go on."""


class Printer:
    """Prints messages. `is_alone`: no other consumer prints to this output; `after_torn`: one before was killed, maybe
    in the middle of a line, which is ended first.
    """

    def __init__(self, output_fd: int = 1, *, is_alone: bool = True, after_torn: bool = False) -> None:
        self._output_fd, self._is_after_torn = output_fd, after_torn
        self._longest: int | None = None
        with suppress(OSError):  # what is wrong with it shows at the first line
            if not is_alone and stat.S_ISFIFO(os.fstat(output_fd).st_mode):
                self._longest = select.PIPE_BUF

    def __call__(self, message: Message) -> None:
        line = message_line(message)
        if self._longest is not None and len(line) > self._longest:
            raise OutputFailed(f"a line of {len(line):,} bytes would mix with others on this pipe: print with -n 1")
        rest = memoryview(b"\n" + line if self._is_after_torn else line)
        try:
            while rest:
                rest = rest[os.write(self._output_fd, rest) :]
        except BrokenPipeError as error:
            raise OutputClosed("the output was closed") from error
        except OSError as error:
            raise OutputFailed(f"the output can't be written: {error.strerror}") from error
        self._is_after_torn = False
