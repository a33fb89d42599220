"""What a part leaves behind when it is interrupted: nothing; and that processes which outlive others are found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.testing import wait_until

from .strays import end_strays, strays

pytestmark = pytest.mark.nightly

END_S = 25.0


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory for temporary ones, by which the processes of a part are known as well."""
    directory = Path(tempfile.mkdtemp(prefix="sql-"))
    yield directory
    end_strays(f"TMPDIR={directory}")
    shutil.rmtree(directory, ignore_errors=True)


def is_at_work(room: Path) -> bool:
    """Whether a server runs and somebody has written what he saw."""
    return any(room.rglob("s*.sock")) or (any(room.rglob("log")) and len(list(room.rglob("*"))) > 8)


@pytest.mark.parametrize(
    ("part", "number"),
    [("crash", signal.SIGINT), ("chaos", signal.SIGTERM), ("server", signal.SIGINT)],
)
def test_an_interrupted_part_leaves_nothing_behind(part: str, number: signal.Signals, room: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults", part],
        env={**os.environ, "TMPDIR": str(room)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: is_at_work(room), 20.0, "its server")
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


def test_a_process_that_outlives_others_is_found_and_ended() -> None:
    mark = f"SEQUENCER_STRAY={os.getpid()}"
    name, _, value = mark.partition("=")
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, env={**os.environ, name: value}) as process:
        assert wait_until(lambda: strays(mark)) == [process.pid]
        assert end_strays(mark, 0.05) == 1
        assert process.wait(10) == -signal.SIGKILL
    assert end_strays(mark, 0.05) == 0
