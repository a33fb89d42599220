"""The pipes between a command and us while it runs: a line goes in, its standard error is passed on to ours.

Only the waiting can be interrupted, where `interruption.interrupts_allowed`; nothing else here waits for long.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
"""How often to look whether a command has ended, where there is no descriptor to wait for."""


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


class CommandPipes:
    """The pipes between us and one command, while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], line: bytes, output: StderrRelay, wakeup_fd: int) -> None:
        assert process.stdin
        assert process.stderr
        self._process, self._stdin, self._stderr = process, process.stdin, process.stderr
        self._rest, self._output, self._wakeup_fd = memoryview(line), output, wakeup_fd
        self.stderr_tail = b""
        """The end of what it said on standard error."""
        self._is_stderr_open = True
        self._pidfd = -1
        """A descriptor by which its end can be waited for, if there is one."""
        for file in (self._stdin, self._stderr):
            os.set_blocking(file.fileno(), False)

    def wait_for_end(self, timeout_s: float | None = None) -> bool:
        """Until the command has ended; false when `timeout_s` is over before. A signal interrupts it, where it waits.

        macOS has no descriptor of a process, nor Linux before 5.3, or it is refused. Then we look now and then: the end
        of its standard error tells nothing, that may be closed, or kept open by others.
        """
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._pidfd = os.pidfd_open(self._process.pid)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._run_round(until):
                if until is not None and time.monotonic() >= until:
                    return False
            return True
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _run_round(self, until: float | None) -> bool:
        """Do what there is to do, after a wait for it; whether the command has ended."""
        with interrupts_allowed():
            ready = self._wait(until)
        if self._wakeup_fd in ready:
            os.read(self._wakeup_fd, 64)  # what is to be done about the signal was done on the way here
        if self._rest and self._stdin.fileno() in ready:
            self._write()
        if self._is_stderr_open and self._stderr.fileno() in ready:
            self._take(os.read(self._stderr.fileno(), READ_BYTES))
        return self._pidfd in ready or (self._pidfd < 0 and self._process.poll() is not None)

    def _wait(self, until: float | None) -> set[int]:
        """The descriptors at which there is something to do."""
        waits_s = [] if until is None else [max(0.0, until - time.monotonic())]
        poll = select.poll()
        for fd in (self._wakeup_fd, self._pidfd):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        if self._rest:
            poll.register(self._stdin, select.POLLOUT)
        if self._is_stderr_open:
            poll.register(self._stderr, select.POLLIN)
        if self._pidfd < 0:
            waits_s.append(POLL_S)
        return {fd for fd, _ in poll.poll(1000 * min(waits_s) if waits_s else None)}

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._stdin.fileno(), self._rest) :]
        except BrokenPipeError:  # nobody reads it
            self._rest = self._rest[:0]
        if not self._rest:
            self._stdin.close()

    def _take(self, data: bytes) -> None:
        self.stderr_tail = (self.stderr_tail + data)[-KEPT_BYTES:]
        self._output.pass_on(data)
        self._is_stderr_open = bool(data)

    def finish(self) -> None:
        """After its end: what it said before that is in the pipe; who else holds the pipe is not waited for."""
        with suppress(BlockingIOError):
            self._take(os.read(self._stderr.fileno(), LARGEST_PIPE_BYTES))


@contextmanager
def signal_fd() -> Iterator[int]:
    """A descriptor to wait for signals; -1 outside the main thread, which alone handles them.

    A signal that comes after Python has looked for signals and before the kernel begins to wait does not end that wait,
    and what is to be done about it would be done at its end. So the byte is waited for that Python writes for each
    (`signal.set_wakeup_fd`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield -1
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        old = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader.fileno()
        finally:
            signal.set_wakeup_fd(old)
