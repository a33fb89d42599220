"""Print mode: whole lines, one of a killed consumer that is ended, and outputs that take nothing more."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sequencer import Message
from sequencer.processes.handlers.printing import OutputClosed, OutputFailed, Printer, message_line

from ..support.refused import refused

MESSAGE: Message = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
LINE, LARGE = message_line(MESSAGE), MESSAGE._replace(body={"text": "x" * 2**20})


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        with suppress(OSError):
            os.close(fd)


def test_a_line_that_a_pipe_does_not_take_at_once_is_whole_all_the_same(pipe: tuple[int, int]) -> None:
    thread = threading.Thread(target=Printer(pipe[1]), args=[LARGE], daemon=True)
    thread.start()
    printed = b""
    while not printed.endswith(b"\n"):
        printed += os.read(pipe[0], 65536)
    thread.join(30.0)
    assert printed == message_line(LARGE)


def test_long_lines_of_several_processes_never_mix(pipe: tuple[int, int]) -> None:
    printers = []
    for _ in range(2):
        if not (pid := os.fork()):
            for _ in range(3):
                Printer(pipe[1])(LARGE)
            os._exit(0)
        printers.append(pid)
    os.close(pipe[1])
    printed = b"".join(iter(lambda: os.read(pipe[0], 65536), b""))
    assert [os.waitpid(pid, 0)[1] for pid in printers] == [0, 0]
    assert printed == message_line(LARGE) * 6


def test_after_a_consumer_that_was_killed_the_first_line_ends_its_own(pipe: tuple[int, int]) -> None:
    printer = Printer(pipe[1], after_torn=True)
    for _ in range(2):
        printer(MESSAGE)
    assert os.read(pipe[0], 4096) == b"\n" + LINE + LINE


def test_an_output_that_nobody_reads_any_more_ends_it(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    printer = Printer(pipe[1])
    with pytest.raises(OutputClosed):
        printer(MESSAGE)
    os.close(pipe[1])
    with refused(OutputFailed, "output_failed", error=os.strerror(errno.EBADF)):
        printer(MESSAGE)
