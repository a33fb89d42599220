"""The pipe by which signals wake the supervisor."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from sequencer.processes.signals import SignalPipe


def test_a_request_after_the_end_goes_to_nobody() -> None:
    """The number of its descriptor may be another's by then, a connection's to the server."""
    pipe = SignalPipe()
    pipe.close()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    pipe.ask(signal.SIGTERM)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    for fd in (reader, writer):
        os.close(fd)


def test_a_hangup_that_was_blocked_at_the_start_is_a_reload() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    pipe = SignalPipe()
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        with pipe.handlers(reloads=True):
            assert pipe.take() == bytes([signal.SIGHUP])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, before)
        pipe.close()
