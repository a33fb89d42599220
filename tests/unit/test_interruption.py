"""A command for a message is interrupted at any line: it never goes on unknown, and nothing waits for it for ever."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sequencer import Message
from sequencer.consume.interruption import interrupt, interrupts_allowed, interrupts_masked
from sequencer.errors import StopConsuming
from sequencer.processes.handlers import pipes
from sequencer.processes.handlers.exec import ExecHandler
from sequencer.testing import wait_until

FOR_EVER = "exec sleep 600"
WAITED_S = 3.0
"""The command is waited for, when it was not interrupted by then."""
LONG_S = 60.0
"""Well below what the command takes, well above what killing it does."""
MESSAGE: Message = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
WATCHED = ("exec.py", "pipes.py", "subprocess.py", "interruption.py", "contextlib.py")


class Known(subprocess.Popen[bytes]):
    """Processes that were begun, whatever became of the call that began them."""

    begun: list["Known"]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        Known.begun.append(self)
        super().__init__(*arguments, **options)


@contextmanager
def interrupted_at(count: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `act` at the line so many lines from now; gives how many lines were passed."""
    passed = [0]

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if os.path.basename(frame.f_code.co_filename) not in WATCHED or "Known" in frame.f_code.co_qualname:
            return None
        if event == "line":
            passed[0] += 1
            if passed[0] == count:
                act()
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        yield passed
    finally:
        sys.settrace(old)


class Waited:
    is_over = False


def on_signal(number: int, _frame: Any) -> None:
    Waited.is_over = Waited.is_over or number == signal.SIGALRM
    interrupt()


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(subprocess, "Popen", Known)
    Known.begun = []
    old = {number: signal.signal(number, on_signal) for number in (signal.SIGUSR1, signal.SIGALRM)}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)
    for process in Known.begun:
        if getattr(process, "pid", None) and process.returncode is None:
            process.kill()
            process.wait()


def is_running(process: Known) -> bool:
    """Whether it was started and is not ended and waited for."""
    return getattr(process, "_child_created", False) and process.returncode is None


def begin_and_interrupt_at(line: int) -> bool:
    """Interrupt the handler at its so manieth line; false: by then it waited for the command, and was there."""
    handle, is_reached = ExecHandler(FOR_EVER), []

    def reached() -> None:
        if not Waited.is_over:
            is_reached.append(line)
            signal.raise_signal(signal.SIGUSR1)

    Waited.is_over = False
    signal.setitimer(signal.ITIMER_REAL, WAITED_S)
    try:
        with interrupted_at(line, reached), pytest.raises(StopConsuming):
            handle(MESSAGE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return bool(is_reached)


@pytest.mark.slow
def test_a_command_is_never_left_behind_wherever_its_consumer_is_interrupted(
    signalled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "IDLE_POLL_S", LONG_S)
    began, line = time.monotonic(), 1
    while begin_and_interrupt_at(line):
        assert not [process for process in Known.begun if is_running(process)], line
        line += 1
    assert not [process for process in Known.begun if is_running(process)]
    assert line > 60, "what starts a process has more lines"
    assert time.monotonic() - began < LONG_S, "a command was waited for"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="how a thread waits can't be seen")
@pytest.mark.parametrize("has_descriptor", [True, False])
def test_a_signal_that_does_not_end_the_wait_for_a_command_is_heard_all_the_same(
    signalled: None, monkeypatch: pytest.MonkeyPatch, has_descriptor: bool
) -> None:
    """Another thread takes it, as if it had come just before the wait began: the kernel wakes this one for neither."""
    if not has_descriptor:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    handle = ExecHandler(f"exec sleep {LONG_S}")
    Known.begun = []
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    other = threading.Thread(target=tell_at_a_command, daemon=True)
    try:
        other.start()
        with pytest.raises(StopConsuming):
            handle(MESSAGE)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    other.join()
    (process,) = Known.begun
    assert process.returncode == -signal.SIGKILL


def tell_at_a_command() -> None:
    """Send this process a signal, which this thread takes, as soon as a command runs and is waited for."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    wait_until(is_main_waiting, LONG_S)
    os.kill(os.getpid(), signal.SIGALRM)


def is_main_waiting() -> bool:
    """Whether the main thread waits for a command, and the kernel says that it sleeps."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    state = Path(f"/proc/self/task/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[0]
    return os.path.basename(frame.f_code.co_filename) == "pipes.py" and state == "S"


def test_an_interruption_comes_where_it_is_allowed_and_once() -> None:
    seen = []
    with interrupts_masked():
        interrupt()
        seen.append("held back")
        with pytest.raises(StopConsuming), interrupts_allowed():
            seen.append("too far")
        interrupt()
        with pytest.raises(StopConsuming), interrupts_allowed():
            seen.append("never: it is still due")
        interrupt()
    with pytest.raises(StopConsuming):
        interrupt()
    with interrupts_masked(), pytest.raises(StopConsuming), interrupts_allowed():
        try:
            interrupt()
        finally:
            interrupt()
            seen.append("not interrupted again")
    assert seen == ["held back", "not interrupted again"]


def test_who_allows_interrupts_without_having_masked_them_leaves_them_unmasked() -> None:
    """The command of an alert target, say."""
    with interrupts_allowed():
        pass
    with pytest.raises(StopConsuming):
        interrupt()
