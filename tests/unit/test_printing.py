"""Print mode: whole lines, torn ones ended, and who or what keeps a printer waiting, told by real processes."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sequencer import Message
from sequencer.consume.stop import ignore
from sequencer.processes.handlers.message_line import message_line
from sequencer.processes.handlers.printing import (
    OutputClosed,
    OutputFailed,
    Printer,
    end_torn_line,
    lock_file,
    lock_holder,
    mark_torn_line,
)
from sequencer.testing import wait_until

PATIENCE_S, LEASE_S = 30.0, 15.0
MESSAGE = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
LINE, LARGE = message_line(MESSAGE), MESSAGE._replace(body={"text": "x" * 2**20})
REFUSING = Mock(side_effect=OSError(38, "Function not implemented"))
HOLDER = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


@pytest.fixture(params=["in memory", "none such", "refused"])
def lock_fd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The lock's file, in memory or where there is no such thing."""
    if request.param == "none such":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    if request.param == "refused":
        monkeypatch.setattr(os, "memfd_create", REFUSING, raising=False)
    fd = lock_file()
    assert os.fstat(fd).st_nlink == 0, "it goes when it is closed"
    yield fd
    os.close(fd)


def start_holder(lock_fd: int) -> subprocess.Popen[bytes]:
    """Another process, which holds the lock until its standard input ends."""
    command = [sys.executable, "-c", HOLDER, str(lock_fd)]
    return subprocess.Popen(command, pass_fds=[lock_fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.fixture
def holder(lock_fd: int) -> Iterator[subprocess.Popen[bytes]]:
    with start_holder(lock_fd) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        with suppress(OSError):
            os.close(fd)


class Printing:
    """A printer that prints one message in a thread, and is looked at as often as the test likes."""

    def __init__(self, lock_fd: int, output_fd: int, message: Message = MESSAGE) -> None:
        self.told: list[dict[str, Any]] = []
        self.printer = Printer(lock_fd, output_fd, lease_s=LEASE_S, report=self._report)
        self._now, self._thread = 1000.0, threading.Thread(target=self.printer, args=[message], daemon=True)
        self._thread.start()
        wait_until(lambda: self.printer._is_busy or not self._thread.is_alive(), PATIENCE_S)

    def _report(self, event: dict[str, Any]) -> bool:
        self.told.append(event)
        return True

    def look_for(self, seconds: float, step_s: float = 1.0) -> list[dict[str, Any]]:
        """What is told when that time passes; the first look only begins to count."""
        before, end = len(self.told), self._now + seconds
        while self._now < end:
            self.printer.on_tick(self._now)
            self._now += step_s
        return self.told[before:]

    def finish(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def test_the_lock_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "memfd_create"):
        pytest.skip("there are no files in memory")
    monkeypatch.setattr(tempfile, "mkstemp", REFUSING)
    os.close(lock_file())


def test_the_lock_is_known_by_its_holder(lock_fd: int, holder: subprocess.Popen[bytes]) -> None:
    assert os.pread(lock_fd, 1, 0) == b""
    assert lock_holder(lock_fd) == holder.pid
    with pytest.raises(OSError, match="unavailable"):
        fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    holder.kill()
    holder.wait()
    assert lock_holder(lock_fd) == 0
    fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock_holder(lock_fd) == 0, "our own"


def test_a_consumer_that_holds_the_lock_for_a_lease_is_told_of(
    lock_fd: int, holder: subprocess.Popen[bytes], pipe: tuple[int, int]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    printing = Printing(lock_fd, pipe[1])
    assert printing.look_for(LEASE_S) == []
    assert printing.look_for(2) == [{"event": "frozen", "holder": holder.pid}]
    assert printing.look_for(LEASE_S - 2) == []
    assert printing.look_for(2) == [{"event": "frozen", "holder": holder.pid}], "once each lease"
    holder.kill()
    printing.finish()
    assert os.read(pipe[0], 4096) == LINE
    assert printing.look_for(99) == []


def test_who_stood_still_itself_does_not_blame_others(
    lock_fd: int, holder: subprocess.Popen[bytes], pipe: tuple[int, int]
) -> None:
    """A machine or a container that was paused as a whole: all need a moment."""
    printing = Printing(lock_fd, pipe[1])
    printing.look_for(3)
    assert printing.look_for(1800, step_s=600.0) == []
    holder.kill()
    printing.finish()


def test_a_lock_that_changes_hands_is_waited_for(lock_fd: int, pipe: tuple[int, int]) -> None:
    started = [start_holder(lock_fd), start_holder(lock_fd)]
    try:
        first = wait_until(lambda: lock_holder(lock_fd), PATIENCE_S)
        printing = Printing(lock_fd, pipe[1])
        assert printing.look_for(LEASE_S - 2) == []
        for process in started:
            if process.pid == first:
                process.kill()
        wait_until(lambda: lock_holder(lock_fd) != first, PATIENCE_S)
        assert printing.look_for(LEASE_S - 2) == []
    finally:
        for process in started:
            process.kill()
            process.communicate()
    printing.finish()


def fill(fd: int) -> None:
    """Until it takes nothing more."""
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        while True:
            os.write(fd, bytes(4096))
    os.set_blocking(fd, True)


def drain(fd: int) -> bytes:
    poll, data = select.poll(), b""
    poll.register(fd, select.POLLIN)
    while poll.poll(0):
        data += os.read(fd, 65536)
    return data


@pytest.mark.parametrize("who", ["who waits for the lock", "who writes"])
def test_nobody_is_blamed_while_the_output_takes_nothing(
    lock_fd: int, holder: subprocess.Popen[bytes], pipe: tuple[int, int], who: str
) -> None:
    fill(pipe[1])
    if who == "who writes":
        holder.kill()
        holder.wait()
    printing = Printing(lock_fd, pipe[1])
    assert printing.look_for(LEASE_S) == []
    assert printing.look_for(2) == [{"event": "output blocked"}]
    assert printing.look_for(3 * LEASE_S) == [], "once"
    drain(pipe[0])
    if who == "who writes":
        printing.finish()
        return
    assert printing.look_for(2) == [{"event": "output read"}], "once"
    fill(pipe[1])
    assert printing.look_for(LEASE_S + 2) == [{"event": "output blocked"}], "it had moved"
    holder.kill()
    drain(pipe[0])
    printing.finish()


def test_an_output_that_moves_is_not_blocked(lock_fd: int, pipe: tuple[int, int]) -> None:
    """A reader that takes a little each lease, of a line that is larger than the pipe."""
    printing = Printing(lock_fd, pipe[1], LARGE)
    wait_until(lambda: not select.select([], [pipe[1]], [], 0)[1], PATIENCE_S)
    for _ in range(3):
        assert printing.look_for(LEASE_S) == []
        for _ in range(2):
            os.read(pipe[0], 65536)
        wait_until(lambda: not select.select([], [pipe[1]], [], 0)[1], PATIENCE_S)
    while b"\n" not in drain(pipe[0]):
        pass
    printing.finish()


def test_an_output_that_nobody_reads_any_more_ends_it(lock_fd: int, pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    printer = Printer(lock_fd, pipe[1], lease_s=LEASE_S, report=ignore)
    with pytest.raises(OutputClosed):
        printer(MESSAGE)
    os.close(pipe[1])
    with pytest.raises(OutputFailed, match="Bad file descriptor"):
        printer(MESSAGE)
    assert not printer._is_busy


@pytest.mark.parametrize("flags", [os.O_APPEND, 0], ids=[">>", "1<>"])
@pytest.mark.parametrize(
    ("before", "between"), [(b"", b""), (b"whole\n", b""), (b'{"torn', b"\n"), (b"first\n" + b"x" * 70_000, b"\n")]
)
def test_a_line_that_an_earlier_run_left_open_is_ended_first(
    lock_fd: int, tmp_path: Path, before: bytes, between: bytes, flags: int
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(before)
    with open(os.open(path, os.O_WRONLY | flags), "wb", buffering=0) as output:
        output.seek(0 if flags else len(before))
        mark_torn_line(output.fileno(), lock_fd)
        for _ in range(2):
            Printer(lock_fd, output.fileno(), lease_s=LEASE_S, report=ignore)(MESSAGE)
    assert path.read_bytes() == before + between + LINE + LINE


def test_where_writing_begins_is_what_counts(lock_fd: int, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"whole\ntorn")
    with (tmp_path / "lines").open("rb+", buffering=0) as output:
        for place in (0, len("whole\n")):
            output.seek(place)
            mark_torn_line(output.fileno(), lock_fd)
            assert os.pread(lock_fd, 1, 0) == b""


def test_an_output_that_is_no_file_is_let_be(lock_fd: int, pipe: tuple[int, int]) -> None:
    for fd in pipe:
        mark_torn_line(fd, lock_fd)
    os.close(pipe[1])
    mark_torn_line(pipe[1], lock_fd)
    assert os.pread(lock_fd, 1, 0) == b""


def test_a_line_that_the_last_run_left_open_is_ended(lock_fd: int, pipe: tuple[int, int]) -> None:
    end_torn_line(pipe[1], lock_fd)
    os.pwrite(lock_fd, b"1", 0)
    for _ in range(2):
        end_torn_line(pipe[1], lock_fd)
    assert drain(pipe[0]) == b"\n"


@pytest.mark.parametrize("kind", ["full", "no reader", "closed"])
def test_an_output_that_takes_nothing_is_left_as_it_is(lock_fd: int, pipe: tuple[int, int], kind: str) -> None:
    os.pwrite(lock_fd, b"1", 0)
    if kind == "full":
        fill(pipe[1])
    else:
        os.close(pipe[0 if kind == "no reader" else 1])
    end_torn_line(pipe[1], lock_fd)
    assert os.pread(lock_fd, 1, 0) == b"1"


def test_a_line_that_was_torn_by_a_kill_is_ended_by_the_next(lock_fd: int, pipe: tuple[int, int]) -> None:
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            Printer(lock_fd, pipe[1], lease_s=LEASE_S, report=ignore)(LARGE)
        os._exit(1)
    wait_until(lambda: not select.select([], [pipe[1]], [], 0)[1], PATIENCE_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    torn = drain(pipe[0])
    assert torn.find(b"\n") < 0 < len(torn)
    Printer(lock_fd, pipe[1], lease_s=LEASE_S, report=ignore)(MESSAGE)
    assert drain(pipe[0]) == b"\n" + LINE
    with start_holder(lock_fd) as process:
        assert process.communicate(timeout=PATIENCE_S)[0] == b"held\n", "it is released after each line"
