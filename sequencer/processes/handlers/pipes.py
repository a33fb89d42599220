"""What a command says on standard error while it runs: it is passed on to ours as it comes, and its end is kept.

Only the waiting can be interrupted, where `interruption.interrupts_allowed`; nothing else here waits for long.
"""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import time
from contextlib import suppress

from ...consume.interruption import interrupts_allowed

KEPT_BYTES = 64 * 1024
"""Of what a command said on standard error, from its end: a large amount may be blank lines."""
READ_BYTES = 64 * 1024
"""What a pipe holds, usually."""
LARGEST_PIPE_BYTES = 2**20
WRITE_BYTES = 4096
"""What a pipe takes without waiting, if it says that it takes something."""
STALLED_S = 1.0
"""Our standard error is waited for while it takes nothing, then what there is for it is dropped."""
POLL_S = 0.005
"""How often to check whether a command has ended, where there is no descriptor to wait for: on macOS."""
IDLE_POLL_S = 1.0
"""The same where there is one: a signal that comes just before a wait begins does not end that."""


class StderrRelay:
    """Our standard error, for what commands say there. Nothing here raises, and nobody waits for long.

    What it refuses (a full disk, a reader that is gone) is dropped, and so is what it does not take within STALLED_S
    since nobody reads; then all that follows, at once, until it takes something again. So the work does not depend on
    who reads what commands say. (It is shared with others, so it can't be made non-blocking. A write still waits if
    another process fills a pipe in the moment between the check and the write.)
    """

    def __init__(self) -> None:
        self._fd = -1  # without standard error, another file may have its number 2
        with suppress(ValueError, AttributeError):
            self._fd = sys.stderr.fileno()
        self._is_stalled = False

    def pass_on(self, data: bytes) -> None:
        rest, poll = memoryview(data), select.poll()
        if self._fd < 0:
            return
        poll.register(self._fd, select.POLLOUT)
        with suppress(OSError):
            while rest:
                self._is_stalled = not poll.poll(0 if self._is_stalled else 1000 * STALLED_S)
                if self._is_stalled:
                    return
                rest = rest[os.write(self._fd, rest[:WRITE_BYTES]) :]


class CommandOutput:
    """The standard error of one command, while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], relay: StderrRelay) -> None:
        assert process.stderr
        self._process, self._fd, self._relay = process, process.stderr.fileno(), relay
        self.tail = b""
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        os.set_blocking(self._fd, False)

    def wait_for_end(self, timeout_s: float = math.inf) -> bool:
        """Until the command has ended; false when `timeout_s` is over before. A signal interrupts it, where it waits.

        The end of its standard error tells nothing: that may be closed, or kept open by others.
        """
        pidfd, poll_s, until = -1, POLL_S, time.monotonic() + timeout_s
        with suppress(AttributeError, OSError):
            pidfd, poll_s = os.pidfd_open(self._process.pid), IDLE_POLL_S
            self._poll.register(pidfd, select.POLLIN)
        try:
            while self._process.poll() is None:
                if (left_s := until - time.monotonic()) <= 0:
                    return False
                with interrupts_allowed():
                    ready = self._poll.poll(1000 * min(left_s, poll_s))
                if any(fd == self._fd for fd, _ in ready):
                    self._take(READ_BYTES)
            return True
        finally:
            if pidfd >= 0:
                self._poll.unregister(pidfd)
                os.close(pidfd)

    def _take(self, size: int) -> None:
        data = os.read(self._fd, size)
        self.tail = (self.tail + data)[-KEPT_BYTES:]
        self._relay.pass_on(data)
        if not data:
            self._poll.unregister(self._fd)

    def finish(self) -> None:
        """After its end: what it said before that is in the pipe; who else holds the pipe is not waited for."""
        with suppress(BlockingIOError, KeyError):
            self._take(LARGEST_PIPE_BYTES)
