"""A command for each message: what it is given, what becomes of its ending, and that nothing is left open."""

import os
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer import Message
from sequencer.errors import CommandFailed, HandlerTimeout
from sequencer.processes.handlers import exec as exec_
from sequencer.processes.handlers import pipes
from sequencer.processes.handlers.exec import ExecHandler
from sequencer.processes.handlers.printing import message_line
from sequencer.testing import wait_until

from ..support.refused import refused

NO_MORE = not hasattr(signal, "SIGRTMIN")
LARGE = Message("a-1", ("a",), 1.0, {"text": "x" * 2**20}, {}, 1, 1, 0.0, "q", 1)
SMALL = LARGE._replace(body={})


@pytest.fixture(params=["with a descriptor", "without", "refused"], autouse=True)
def descriptor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is a descriptor for a process, by which its end and a signal can be waited for together."""
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open")
    if request.param == "refused":
        monkeypatch.setattr(os, "pidfd_open", refuse)


def refuse(*_: Any) -> None:
    raise OSError(24, "Too many open files")


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/dev/fd"))


def test_it_is_given_the_whole_line(tmp_path: Path) -> None:
    ExecHandler(f"cat > {tmp_path}/got")(LARGE)
    assert (tmp_path / "got").read_bytes() == message_line(LARGE)


@pytest.mark.parametrize("command", ["true", "exec <&-; true", "head -c 10 > /dev/null"])
def test_it_need_not_read_all_of_it(command: str) -> None:
    ExecHandler(command)(LARGE)


@pytest.mark.parametrize(
    ("command", "status", "stderr"),
    [
        ("exit 3", 3, ""),
        ("echo sorry >&2; exit 3", 3, "sorry"),
        ("kill -TERM $$", -signal.SIGTERM, ""),
        pytest.param("kill -40 $$", -40, "", marks=pytest.mark.skipif(NO_MORE, reason="signals end at 31")),
    ],
)
def test_how_it_ended_is_known(command: str, status: int, stderr: str, capsys: pytest.CaptureFixture[str]) -> None:
    with refused(CommandFailed, "command_failed", command=command, status=status, stderr=stderr):
        ExecHandler(command)(LARGE)


def test_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    handle = ExecHandler(f"cat >> {tmp_path}/got")
    handle(LARGE)
    before = open_descriptors()
    for _ in range(5):
        handle(LARGE)
    assert open_descriptors() == before
    monkeypatch.setattr(exec_, "memory_file", refuse)
    with pytest.raises(OSError, match="Too many"):
        handle(LARGE)
    assert open_descriptors() == before
    assert (tmp_path / "got").stat().st_size == 6 * len(message_line(LARGE)), "no command that failed to start ran"


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Our standard error is this file."""
    with path.open("w") as file, redirect_stderr(file):
        yield


@pytest.mark.slow
def test_all_it_says_is_passed_on_but_only_its_end_is_kept(tmp_path: Path) -> None:
    errors, many = tmp_path / "errors", 30_000_000
    command = f"yes | head -c {many} >&2; echo sorry >&2; yes '' | head -c 9000 >&2; exit 3"
    tracemalloc.start()
    with errors_to(errors), refused(CommandFailed, "command_failed", stderr="y\n" * 2045 + "sorry") as raised:
        ExecHandler(command)(SMALL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert errors.stat().st_size == many + len("sorry\n") + 9000
    assert str(raised.value).endswith(": " + "y\n" * 2045 + "sorry"), "each line of it is a line of the text"
    assert peak < 3_000_000


@pytest.mark.parametrize("says", ["exec sleep 600", "while :; do echo more >&2; done", "exec 2>&-; exec sleep 600"])
def test_what_it_leaves_in_the_background_is_not_waited_for(tmp_path: Path, says: str) -> None:
    try:
        with errors_to(tmp_path / "errors"), refused(CommandFailed, "command_failed", status=3) as caught:
            ExecHandler(f"({says}) & echo $! > {tmp_path}/left; echo said >&2; exit 3")(LARGE)
        assert set(caught.value.fields["stderr"]) <= set("said\nmore")
        assert "said\n" in (tmp_path / "errors").read_text()
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["exec 2>&-", "kill -USR1 $PPID"])
def test_after_the_end_of_what_it_says_or_a_signal_it_is_waited_for(command: str) -> None:
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        began = time.process_time()
        with refused(CommandFailed, "command_failed", status=3, stderr=""):
            ExecHandler(f"{command}; sleep 0.5; exit 3")(LARGE)
        assert time.process_time() - began < 0.3, "it was waited for, not looked at all the time"
    finally:
        signal.signal(signal.SIGUSR1, old)


@contextmanager
def unwilling(kind: str) -> Iterator[Any]:
    """A standard error that takes nothing."""
    read, write = os.pipe()
    if kind == "full disk":
        os.dup2(os.open("/dev/full", os.O_WRONLY), write)
    if kind == "no reader":
        os.close(read)
    if kind == "nobody reads":
        os.set_blocking(write, False)
        with suppress(BlockingIOError):
            while True:
                os.write(write, bytes(1000))
        os.set_blocking(write, True)
    with os.fdopen(write, "wb", buffering=0) as file:
        yield file
    if kind != "no reader":
        os.close(read)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full disk", "no reader", "nobody reads"])
def test_one_that_succeeded_did_so_also_when_nobody_takes_what_it_says(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "full disk" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    monkeypatch.setattr(pipes, "STALLED_S", 0.1 if kind == "nobody reads" else 600.0)
    with unwilling(kind) as file:
        with redirect_stderr(file):
            handle = ExecHandler("yes | head -c 300000 >&2")
            failing = ExecHandler("echo sorry >&2; exit 3")
        handle(LARGE)
        handle(LARGE)
        with refused(CommandFailed, "command_failed", status=3, stderr="sorry"):
            failing(LARGE)


@pytest.mark.parametrize("command", ["true", "exit 3"])
def test_the_supervisor_is_told_of_its_group_while_it_runs(tmp_path: Path, command: str) -> None:
    told: list[dict[str, Any]] = []

    def report(event: dict[str, Any]) -> None:
        told.append(event)
        if event["pgid"]:
            (tmp_path / "told").touch()
        elif told[0]["pgid"]:
            with pytest.raises(ChildProcessError):
                os.waitpid(told[0]["pgid"], os.WNOHANG)

    waits = f"until test -e {tmp_path}/told; do sleep 0.01; done; echo $$ > {tmp_path}/pid"
    with suppress(CommandFailed):
        ExecHandler(f"{waits}; {command}", report=report)(LARGE)
    pid = int((tmp_path / "pid").read_text())
    assert told == [{"event": "command", "pgid": pid}, {"event": "command", "pgid": None}]


# -- longer than its limit -----------------------------------------------------------------------------------------


LIMIT_S = 0.3


def timed_out(command: str, by: str, stderr: str = "") -> None:
    with refused(HandlerTimeout, "command_timeout", limit_s=LIMIT_S, signal=by, stderr=stderr):
        ExecHandler(command, timeout_s=LIMIT_S)(SMALL)


def is_there(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody waits for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
def test_one_that_is_done_in_time_is_left_alone() -> None:
    ExecHandler("true", timeout_s=LIMIT_S)(SMALL)
    with refused(CommandFailed, "command_failed", status=3, stderr="sorry"):
        ExecHandler("echo sorry >&2; exit 3", timeout_s=30.0)(SMALL)


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended_and_what_it_said_is_kept() -> None:
    began = time.monotonic()
    timed_out("echo connecting >&2; sleep 600", "SIGTERM", "connecting")
    assert LIMIT_S <= time.monotonic() - began < exec_.ENDING_S


@pytest.mark.slow
def test_one_that_ignores_it_is_killed_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exec_, "ENDING_S", 0.3)
    command = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/shell; wait; sleep 600"
    timed_out(command, "SIGKILL")
    pids = [int((tmp_path / name).read_text()) for name in ("child", "shell")]
    wait_until(lambda: not any(map(is_there, pids)), 10.0)


@pytest.mark.slow
def test_a_child_that_ignores_it_is_killed_when_the_shell_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exec_, "ENDING_S", 0.3)
    timed_out(f"(trap '' TERM; exec sleep 600) & echo $! > {tmp_path}/child; sleep 600; true", "SIGTERM")
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_there(child), 10.0)
