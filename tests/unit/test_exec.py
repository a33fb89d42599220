"""A command for each message: what it is given, what becomes of its ending, and that nothing is left open."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from sequencer import Message
from sequencer.handlers import CommandFailed, exec_handler, message_line

NO_MORE = not hasattr(signal, "SIGRTMIN")
LARGE = Message("a-1", ("a",), 1.0, {"text": "x" * 2**20}, {}, 1, 1, 0.0, "q", 1)


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


def test_it_is_given_the_whole_line_by_a_pipe(tmp_path: Path) -> None:
    exec_handler(f"test -p /dev/stdin && cat > {tmp_path}/got")(LARGE)
    assert (tmp_path / "got").read_bytes() == message_line(LARGE)


@pytest.mark.parametrize("command", ["true", "exec <&-; true", "head -c 10 > /dev/null"])
def test_it_need_not_read_all_of_it(command: str) -> None:
    exec_handler(command)(LARGE)


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("exit 3", "exit status 3$"),
        ("echo sorry >&2; exit 3", "exit status 3: sorry$"),
        ("kill -TERM $$", "signal SIGTERM$"),
        pytest.param("kill -40 $$", "signal 40$", marks=pytest.mark.skipif(NO_MORE, reason="signals end at 31")),
    ],
)
def test_how_it_ended_is_said(command: str, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandFailed, match=ending):
        exec_handler(command)(LARGE)


def test_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    handle = exec_handler(f"cat >> {tmp_path}/got")
    handle(LARGE)
    before = open_descriptors()
    for _ in range(5):
        handle(LARGE)
    assert open_descriptors() == before
    monkeypatch.setattr(socket, "socketpair", refuse)
    if hasattr(os, "pidfd_open"):
        with pytest.raises(OSError, match="Too many"):
            handle(LARGE)
    assert open_descriptors() == before
    assert (tmp_path / "got").stat().st_size == 6 * len(message_line(LARGE)), "no command that failed to start ran"
