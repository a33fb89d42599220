"""What a command's ending means beside a stop and at a consumer's start; and which commands are refused at once."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer import Message, StopConsuming
from sequencer.consume.interruption import interrupt
from sequencer.consume.stop import Stop
from sequencer.errors import CommandFailed, CommandNotFound, CommandStopped, HandlerNotFound
from sequencer.processes.handlers import exec
from sequencer.processes.handlers.exec import ExecHandler, check_command

from ..support.refused import refused

MESSAGE: Message = Message("a-1", ("a",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
SAME = ["kill -TERM $$", "kill -INT $$", "kill -HUP $$", "exit 143", "exit 130", "exit 129"]


def stopped(seconds_ago: float) -> Stop:
    stop = Stop()
    stop.request(1)
    assert stop.at
    stop.at -= seconds_ago
    return stop


@pytest.mark.parametrize("command", SAME)
@pytest.mark.parametrize("is_told_before", [True, False])
def test_one_that_a_signal_for_all_ended_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, command: str, is_told_before: bool
) -> None:
    stop = stopped(1.0) if is_told_before else Stop()
    monkeypatch.setattr(time, "sleep", lambda _: stop.request(1))
    with refused(CommandStopped, "command_stopped"):
        ExecHandler(command, stop=stop)(MESSAGE)


OTHERS = ["kill -KILL $$", "exit 3", "exit 15", "exit 137"]


@pytest.mark.parametrize("command", [*SAME, *OTHERS])
@pytest.mark.parametrize("kind", ["long ago", "none", "no stop can be told"])
def test_one_that_ended_so_without_a_stop_failed(monkeypatch: pytest.MonkeyPatch, command: str, kind: str) -> None:
    monkeypatch.setattr(exec, "STOP_S", 0.05 if kind == "none" else 600.0)
    stop = {"long ago": stopped(601.0), "none": Stop(), "no stop can be told": None}[kind]
    with refused(CommandFailed, "command_failed", command=command):
        ExecHandler(command, stop=stop)(MESSAGE)


@pytest.mark.parametrize("command", OTHERS)
def test_one_that_ended_in_another_way_failed_beside_a_stop_too(command: str) -> None:
    with pytest.raises(CommandFailed):
        ExecHandler(command, stop=stopped(0.0))(MESSAGE)


def test_a_second_signal_ends_the_wait_for_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        interrupt()

    monkeypatch.setattr(exec, "STOP_S", 600.0)
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(StopConsuming):
        ExecHandler("exit 143", stop=Stop())(MESSAGE)


@pytest.mark.parametrize(("command", "status"), [("nosuch-command", 127), ("/", 126), ("exit 126", 126)])
def test_one_that_cannot_be_run_ends_a_consumer_that_just_began(command: str, status: int) -> None:
    with refused(CommandNotFound, "command_not_run", status=status):
        ExecHandler(command)(MESSAGE)


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("status", [126, 127])
def test_later_that_is_a_failure_of_the_message(tmp_path: Path, first: int, status: int) -> None:
    later = tmp_path / "later"
    handle = ExecHandler(f"test -e {later} && exit {status}; touch {later}; exit {first}")
    with suppress(CommandFailed):
        handle(MESSAGE)
    with refused(CommandFailed, "command_failed", status=status):
        handle(MESSAGE)


@pytest.mark.parametrize(
    "command",
    [
        *("true", " /bin/sh -c :", "cd /; nosuch", "A=1 B=x/y:z ls", "! true", "if nosuch; then", "f() { :; }; f"),
        *("ls|nosuch", ">/dev/null nosuch", "(nosuch)", "'nosuch'", "$NOSUCH", "no*such", "PATH=/elsewhere nosuch"),
    ],
)
def test_a_first_word_that_is_or_may_be_a_command_passes(command: str) -> None:
    check_command(command)


@pytest.mark.parametrize(
    "command",
    ["nosuch", " nosuch x", "A=1 nosuch", "nosuch; ls", "nosuch|ls", "nosuch>x", "/bin/nosuch", "--version"],
)
def test_a_first_word_that_is_no_command_is_refused(command: str) -> None:
    with refused(HandlerNotFound, "command_not_found"):
        check_command(command)
