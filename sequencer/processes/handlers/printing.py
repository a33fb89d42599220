"""Print mode: each message as one whole line on standard output, before it is acknowledged.

A line is one write. What a pipe takes in one piece never mixes with the lines of other consumers; a longer line on a
pipe needs a consumer that prints alone.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress

from ...errors import StopConsuming
from ...values.message import Message
from .message_line import message_line


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
