"""A command that runs longer than its limit: it and what it started are ended, then killed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer import Message
from sequencer.errors import CommandFailed, HandlerTimeout
from sequencer.processes.handlers import exec as exec_
from sequencer.processes.handlers.exec import ExecHandler
from sequencer.testing import wait_until

MESSAGE = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
LIMIT_S = 0.3


@pytest.fixture(params=["with a descriptor", "without"], autouse=True)
def descriptor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


def run(command: str) -> str:
    """What it failed with."""
    with pytest.raises(HandlerTimeout) as caught:
        ExecHandler(command, timeout_s=LIMIT_S)(MESSAGE)
    return str(caught.value)


def is_there(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody waits for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
def test_one_that_is_done_in_time_is_left_alone() -> None:
    ExecHandler("true", timeout_s=LIMIT_S)(MESSAGE)
    with pytest.raises(CommandFailed, match=r"exit status 3: sorry$"):
        ExecHandler("echo sorry >&2; exit 3", timeout_s=30.0)(MESSAGE)


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended_and_what_it_said_is_kept() -> None:
    began = time.monotonic()
    said = run("echo connecting >&2; sleep 600")
    assert said == (
        "'echo connecting >&2; sleep 600' ran longer than 0.3 s (handler_timeout), and SIGTERM ended it: connecting"
    )
    assert LIMIT_S <= time.monotonic() - began < exec_.ENDING_S


@pytest.mark.slow
def test_one_that_ignores_it_is_killed_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exec_, "ENDING_S", 0.3)
    said = run(f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/shell; wait; sleep 600")
    assert "and SIGKILL, 0.3 s after SIGTERM, ended it" in said
    pids = [int((tmp_path / name).read_text()) for name in ("child", "shell")]
    wait_until(lambda: not any(map(is_there, pids)), 10.0)


@pytest.mark.slow
def test_a_child_that_ignores_it_is_killed_when_the_shell_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exec_, "ENDING_S", 0.3)
    run(f"(trap '' TERM; exec sleep 600) & echo $! > {tmp_path}/child; sleep 600; true")
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_there(child), 10.0)
