"""A command as a target: what it is given, how its end is read, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sequencer.processes.alerts.notice import DeliveryFailed
from sequencer.processes.alerts.targets import Command, words_of
from sequencer.processes.consumer_process import AWAITED_LOCK, reap_orphans
from sequencer.testing import wait_until

from ..support.notices import NOTICE, notice

LONG_S = 30.0


def command(directory: Path, script: str, *, hidden: tuple[str, ...] = (), timeout_s: float = LONG_S) -> Command:
    (directory / "page").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "page").chmod(0o755)
    words = words_of("./page 'to me'", directory)
    return Command(name="ops", words=words, directory=directory, hidden=frozenset(hidden), timeout_s=timeout_s)


def failure_of(target: Command) -> str:
    with pytest.raises(DeliveryFailed) as caught:
        target.send(NOTICE)
    return str(caught.value)


def test_it_gets_the_notice_and_runs_beside_the_file(tmp_path: Path) -> None:
    command(tmp_path, 'cat > got; echo "$1|$SEQUENCER_ALERT_KEY|$SEQUENCER_ALERT_WHAT" > words').send(NOTICE)
    assert json.loads((tmp_path / "got").read_bytes()) == NOTICE.as_json()
    assert (tmp_path / "words").read_text() == f"to me|{NOTICE.key}|open\n"


def test_its_environment_has_names_of_the_alert_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEQUENCER_REDIS", "FEISHU_URL", "PAGER_OPTION"):
        monkeypatch.setenv(name, "canary-7f3a")
    command(tmp_path, "env > variables", hidden=("FEISHU_URL",)).send(NOTICE)
    given = dict(line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines() if "=" in line)
    assert {name for name, value in given.items() if "canary-7f3a" in value} == {"PAGER_OPTION"}
    assert {name: value for name, value in given.items() if name.startswith("SEQUENCER_")} == {
        "SEQUENCER_ALERT_KEY": NOTICE.key,
        "SEQUENCER_ALERT_INCIDENT": NOTICE.incident,
        "SEQUENCER_ALERT_WHAT": "open",
        "SEQUENCER_ALERT_QUEUE": "orders",
        "SEQUENCER_ALERT_KIND": "parked",
    }


@pytest.mark.parametrize(("script", "said"), [("exit 3", "exit status 3"), ("kill -9 $$", "signal SIGKILL")])
def test_another_end_than_success_is_told(
    tmp_path: Path, script: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert failure_of(command(tmp_path, f"echo why >&2; {script}")) == f"its command ended with {said}"
    assert capfd.readouterr().err == "why\n"


def test_it_need_not_read_what_it_gets(tmp_path: Path) -> None:
    command(tmp_path, "exec <&-").send(notice(text="x" * 2**20))


@pytest.mark.slow
def test_it_is_killed_with_what_it_started_when_its_time_is_over(tmp_path: Path) -> None:
    script = "sleep 300 & echo $! > child.new; mv child.new child; wait"
    target = command(tmp_path, script, timeout_s=2.0)
    assert failure_of(target) == "its command was killed, since it ran for 2 s"
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_running(child), LONG_S, "what it started is killed too")


def is_running(pid: int) -> bool:
    """A zombie, whose parent has not looked yet, is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_process_1_of_a_container_does_not_take_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Popen would say 0: nobody would be told, and it would count as told."""

    class Reaped(subprocess.Popen[bytes]):
        def communicate(self, *given: Any) -> Any:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            reap_orphans([])
            return super().communicate(*given)

    monkeypatch.setattr(subprocess, "Popen", Reaped)
    assert failure_of(command(tmp_path, "exit 3")) == "its command ended with exit status 3"


def test_nothing_is_reaped_while_one_is_being_started() -> None:
    with AWAITED_LOCK, subprocess.Popen(["sh", "-c", "exit 3"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        reap_orphans([])
    assert process.returncode == 3


def test_nothing_is_left_open(tmp_path: Path) -> None:
    target = command(tmp_path, "cat > got")
    target.send(NOTICE)
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(3):
        target.send(NOTICE)
    assert sorted(os.listdir("/dev/fd")) == before
