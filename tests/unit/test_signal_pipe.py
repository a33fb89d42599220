"""The pipe by which signals wake the supervisor."""

from __future__ import annotations

import os

import pytest

from sequencer.processes.signals import SignalPipe


def test_a_request_after_the_end_goes_to_nobody() -> None:
    """The number of its descriptor may be another's by then, a connection's to the server."""
    pipe = SignalPipe()
    pipe.close()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    pipe.request_stop()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    for fd in (reader, writer):
        os.close(fd)
