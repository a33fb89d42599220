"""Print mode: whole lines, one of a killed consumer that is ended, and outputs that take nothing more."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer import Message
from sequencer.processes.handlers.printing import OutputClosed, OutputFailed, Printer, message_line

MESSAGE = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
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


def test_a_line_that_could_mix_with_those_of_others_is_refused(pipe: tuple[int, int], tmp_path: Path) -> None:
    """On a pipe alone: a file takes each write as a whole."""
    printer = Printer(pipe[1], is_alone=False)
    printer(MESSAGE)
    with pytest.raises(OutputFailed, match="print with -n 1"):
        printer(LARGE)
    assert os.read(pipe[0], 2**20) == LINE, "nothing of it was printed"
    assert len(LINE) <= select.PIPE_BUF < len(message_line(LARGE))
    with open(tmp_path / "lines", "wb") as output:
        Printer(output.fileno(), is_alone=False)(LARGE)
    assert (tmp_path / "lines").read_bytes() == message_line(LARGE)


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
    with pytest.raises(OutputFailed, match="Bad file descriptor"):
        printer(MESSAGE)
