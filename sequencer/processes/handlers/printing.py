"""Print mode: each message as one whole line on standard output, which all consumers of a supervisor share.

Lines longer than a pipe's buffer are not written in one piece by the kernel, so consumers take a record lock on a file
they share (one that ends with its process). The first byte of that file says whether a line is open: one that was cut
short, because its consumer was killed, is ended before the next begins.

A record lock of a process ends as soon as any of its descriptors of the file is closed: so nothing here copies one.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import tempfile
from contextlib import suppress

from ...consume.stop import Report
from ...errors import StopConsuming
from ...values.message import Message
from ..logs import encoding_of
from .message_line import message_line

OPEN, WHOLE = b"1", b"0"
"""The lock's first byte: whether a line is open."""
PIECE_BYTES = 64 * 1024
"""Written at once at most: a write to a pipe comes back when all of it was taken, and `on_tick` is to see it move."""
MAX_TICK_S = 2.0
"""A tick counts for this time at most: who ticks later than that stood still itself, and maybe all did."""


class OutputClosed(StopConsuming):
    """Nobody reads the printed lines any more: nothing can be handled."""


class OutputFailed(StopConsuming):
    """The printed lines can't be written (a full disk, say): no failure of the message, but nothing can go on."""


class Printer:
    """Prints each message as one whole line, before it is acknowledged.

    `on_tick`, called by another thread about once a second, reports what has kept it from that for `lease_s`. A
    consumer that holds the lock though the output takes something is frozen; an output that takes nothing (`| less`)
    is only reported. The waiting itself is the kernel's, and in turn.
    """

    def __init__(self, lock_fd: int, output_fd: int = 1, *, lease_s: float, report: Report) -> None:
        self._lock_fd, self._output_fd = lock_fd, output_fd
        self._lease_s, self._report = lease_s, report
        self._is_ascii = encoding_of(sys.stdout) != "utf-8"
        self._is_busy, self._pieces = False, 0
        """Whether there is a line to print, and how often the output took something of one."""
        self._looked_at = 0.0
        self._seen: tuple[int, bool, int] | None = None
        """What the last tick saw: pieces, whether the output takes something, who holds the lock."""
        self._seen_s = 0.0
        self._blocked_at: int | None = None
        """The pieces at which a blocked output was reported."""

    def __call__(self, message: Message) -> None:
        line = message_line(message, is_ascii=self._is_ascii)
        try:
            self._is_busy = True
            fcntl.lockf(self._lock_fd, fcntl.LOCK_EX)
            if os.pread(self._lock_fd, 1, 0) == OPEN:
                line = b"\n" + line
            os.pwrite(self._lock_fd, OPEN, 0)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._output_fd, rest[:PIECE_BYTES]) :]
                self._pieces += 1
            os.pwrite(self._lock_fd, WHOLE, 0)
        except BrokenPipeError as error:
            raise OutputClosed("the output was closed") from error
        except OSError as error:
            raise OutputFailed(f"the output can't be written: {error.strerror}") from error
        finally:
            self._is_busy = False
            fcntl.lockf(self._lock_fd, fcntl.LOCK_UN)

    def on_tick(self, now: float) -> None:
        """Report what keeps us. The same is reported again after a lease, or when it has changed."""
        passed_s, self._looked_at = min(now - self._looked_at, MAX_TICK_S), now
        is_taking = takes_something(self._output_fd)
        if is_taking and self._blocked_at is not None:
            self._report({"event": "output read"})
            self._blocked_at = None
        if not self._is_busy:
            return
        seen = (self._pieces, is_taking, lock_holder(self._lock_fd))
        self._seen_s = self._seen_s + passed_s if seen == self._seen else 0.0
        self._seen = seen
        pieces, _, holder = seen
        if self._seen_s < self._lease_s:
            return
        if is_taking and holder:
            self._report({"event": "frozen", "holder": holder})
            self._seen_s = 0.0
        elif not is_taking and self._blocked_at != pieces:
            self._report({"event": "output blocked"})
            self._blocked_at = pieces


def lock_file() -> int:
    """A descriptor of an empty file for the lock."""
    return memory_file("sequencer-lock")


def memory_file(name: str) -> int:
    """A descriptor of an empty file: in memory, so that no folder needs to be writable; macOS has none."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox may refuse it
            return os.memfd_create(name)
    fd, path = tempfile.mkstemp(prefix=f"{name}-")
    os.unlink(path)
    return fd


def lock_holder(lock_fd: int) -> int:
    """The process that holds the lock; 0 if that is nobody, ourselves, or one that we can't see."""
    # struct flock: type, whence, start, length, pid; on macOS and the BSDs start, length, pid, type, whence.
    is_linux = sys.platform == "linux"
    form = "hhqqi0q" if is_linux else "qqihh0q"
    numbers = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if is_linux else (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    found = struct.unpack(form, fcntl.fcntl(lock_fd, fcntl.F_GETLK, struct.pack(form, *numbers)))
    kind, holder = (found[0], found[4]) if is_linux else (found[3], found[2])
    return 0 if kind == fcntl.F_UNLCK else max(0, int(holder))


def takes_something(output_fd: int) -> bool:
    """Whether a write would come back at once, be it with an error."""
    poll = select.poll()
    poll.register(output_fd, select.POLLOUT)
    return bool(poll.poll(0))


def mark_torn_line(output_fd: int, lock_fd: int) -> None:
    """At the start of a run: if the output is a file whose last line is cut short, the first line ends it.

    That is the doing of a run before this one that was killed, or of others; a file that can't be read is let be.
    """
    with suppress(OSError):
        is_appended = fcntl.fcntl(output_fd, fcntl.F_GETFL) & os.O_APPEND
        # A pipe and a terminal have no place, and a pipe no size.
        end = os.fstat(output_fd).st_size if is_appended else os.lseek(output_fd, 0, os.SEEK_CUR)
        if end and _last_byte(output_fd, end) != b"\n":
            os.pwrite(lock_fd, OPEN, 0)


def _last_byte(output_fd: int, end: int) -> bytes:
    """The byte before `end`. The output is open for writing only, so it is opened anew, by its descriptor's name."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    fd = os.open(f"{folder}/{output_fd}", os.O_RDONLY)
    try:
        return os.pread(fd, 1, end - 1)
    finally:
        os.close(fd)


def end_torn_line(output_fd: int, lock_fd: int) -> None:
    """At the end of a run, with no consumer left: a line that one of them left open is ended, if the output takes it.

    Never raises, and never waits.
    """
    with suppress(OSError):
        if os.pread(lock_fd, 1, 0) == OPEN and takes_something(output_fd) and os.write(output_fd, b"\n"):
            os.pwrite(lock_fd, WHOLE, 0)
