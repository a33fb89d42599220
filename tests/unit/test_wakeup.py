"""What wakes the supervisor's loop."""

from __future__ import annotations

import os

import pytest

from sequencer.processes.wakeup import Wakeup


def test_a_note_behind_the_end_goes_to_nobody() -> None:
    """The number of its descriptor may be another's by then, a connection's to the server."""
    wakeup = Wakeup()
    wakeup.close()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    wakeup.note()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    for fd in (reader, writer):
        os.close(fd)
