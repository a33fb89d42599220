"""What a fault_test leaves behind when it is interrupted: nothing; and that processes which outlive others are
found.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer import EmbeddedServer
from sequencer.processes.pool import Pool
from sequencer.processes.workers import Worker
from sequencer.testing import wait_until

from . import strays as strays_module
from .crash import supervisor as crash_supervisor
from .crash.points import Case
from .strays import end_strays, strays

pytestmark = pytest.mark.nightly

END_S = 25.0
linux = pytest.mark.skipif(not Path("/proc").exists(), reason="the environment of other processes is seen on Linux")


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory for temporary ones, by which the processes of a fault_test are known as well."""
    directory = Path(tempfile.mkdtemp(prefix="sql-"))
    yield directory
    end_strays(f"TMPDIR={directory}")
    shutil.rmtree(directory, ignore_errors=True)


def is_at_work(room: Path) -> bool:
    """Whether a server runs and somebody has written what he saw."""
    return any(room.rglob("s*.sock")) or (any(room.rglob("log")) and len(list(room.rglob("*"))) > 8)


@linux
@pytest.mark.parametrize(
    ("fault_test", "number"),
    [
        ("crash", signal.SIGINT),
        ("crash", signal.SIGTERM),
        ("chaos", signal.SIGTERM),
        ("server", signal.SIGINT),
        ("server", signal.SIGTERM),
        ("shell", signal.SIGINT),
        ("shell", signal.SIGTERM),
    ],
)
def test_an_interrupted_fault_test_leaves_nothing_behind(fault_test: str, number: signal.Signals, room: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults", fault_test, "--scale", "ci"],
        env={**os.environ, "TMPDIR": str(room)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: is_at_work(room), 20.0, "the fault_test's server")
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 1.0)
        # Ctrl-C reaches all of a terminal's processes, SIGTERM the one alone.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        assert process.wait(END_S) == 128 + number
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not strays(f"TMPDIR={room}"), 3.0, "the end of its processes")
    assert [path.name for path in room.iterdir()] == []


@linux
def test_a_process_that_outlives_others_is_found_and_ended() -> None:
    mark = f"SEQUENCER_STRAY={os.getpid()}"
    name, _, value = mark.partition("=")
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, env={**os.environ, name: value}) as process:
        assert wait_until(lambda: strays(mark)) == [process.pid]
        assert end_strays(mark, 0.05) == 1
        assert process.wait(10) == -signal.SIGKILL
    assert strays(mark) == []
    assert end_strays(mark, 0.05) == 0


PARENT = """
import subprocess, sys
while True:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"]).wait()
"""


@linux
@pytest.mark.parametrize("is_child_first", [True, False])
def test_a_process_that_is_started_meanwhile_does_not_outlive_the_end(
    monkeypatch: pytest.MonkeyPatch, is_child_first: bool
) -> None:
    """Its parent replaces what was killed before its own turn comes."""
    mark = f"SEQUENCER_STRAY={os.getpid()}.{is_child_first}"
    name, _, value = mark.partition("=")
    real_strays, real_kill = strays_module.strays, os.kill

    def kill(pid: int, number: int) -> None:
        others = set(real_strays(mark)) - {pid}
        real_kill(pid, number)
        if is_child_first and process.pid in others:
            wait_until(lambda: set(real_strays(mark)) - others - {pid}, what="the child that replaces it")

    with subprocess.Popen([sys.executable, "-S", "-c", PARENT], env={name: value}) as process:
        wait_until(lambda: len(real_strays(mark)) == 2, what="its child")
        monkeypatch.setattr(strays_module, "strays", lambda it: sorted(real_strays(it), reverse=is_child_first))
        monkeypatch.setattr(os, "kill", kill)
        assert end_strays(mark) == (3 if is_child_first else 2)
        assert real_strays(mark) == []
    assert process.returncode == -signal.SIGKILL


def test_a_supervisor_that_does_not_replace_the_dead_is_found(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def leave_empty(self: object, worker: Worker, *_: object) -> None:
        worker.is_done = True

    monkeypatch.setattr(Pool, "_after_death", leave_empty)
    case = Case("default", "supervisor.spawn:before", 99, "kill")  # never reached: all goes its way
    found = crash_supervisor.SupervisorTrial(server.url, tmp_path, case).run()
    assert any("does not replace the dead" in problem for problem in found.problems), found.problems


@linux
def test_consumers_that_outlive_a_killed_supervisor_are_found(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their standard input is kept open by other processes until the trial is over, so that they never see its end."""
    monkeypatch.setattr(crash_supervisor, "ENDING_S", 1.0)
    case = Case("default", "supervisor.replace:after", 1, "kill")
    trial = crash_supervisor.SupervisorTrial(server.url, tmp_path, case)
    real = subprocess.Popen
    over, is_on = os.pipe()

    def keep_open(*words: object, **options: object) -> object:
        process = real(*words, **options)  # type: ignore[call-overload]
        if os.fork() == 0:
            os.close(is_on)
            select.select([over], [], [], 60.0)
            os._exit(0)
        return process

    monkeypatch.setattr(subprocess, "Popen", keep_open)
    try:
        found = trial.run()
    finally:
        os.close(is_on)
        os.close(over)
    assert any("the end of the consumers of a killed supervisor" in problem for problem in found.problems), (
        found.problems
    )
    assert not trial._strays()
