"""FaultTests side by side: their results come together, one that breaks down is told, and none outlives its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer.testing import wait_until

from .apart import Shards
from .strays import end_strays, strays

pytestmark = pytest.mark.nightly

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_results_come_shard_by_shard_and_one_that_breaks_down_is_a_problem(capfd: pytest.CaptureFixture[str]) -> None:
    broken, fine = Shards("smoke").run((("nonsense",), ("simulate",)))
    assert broken.name == "nonsense"
    assert list(broken.problems) == ["it ended with status 2"]
    assert broken.command == "python -m tests.faults nonsense --scale smoke"
    assert fine.is_passed
    assert fine.name == "simulate"
    assert fine.messages > 100
    assert "simulate ..." in capfd.readouterr().err


def servers_in(directory: str) -> list[str]:
    """Servers that run there: they write their title over their environment."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode())
    return [line for line in lines if directory in line and "server.sock" in line]


@linux
@pytest.mark.timeout(100)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_leaves_nothing_behind(number: signal.Signals) -> None:
    """By a word to it alone, or at Ctrl-C, which a terminal tells to all of its group."""
    mark = f"SEQUENCER_STRAY={os.getpid()}.shards"
    name, _, value = mark.partition("=")
    words = [sys.executable, "-m", "tests.faults", "ci"]
    with tempfile.TemporaryDirectory(prefix="sq") as directory:
        try:
            with subprocess.Popen(
                words,
                env={**os.environ, name: value, "TMPDIR": directory},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                wait_until(lambda: servers_in(directory) != [], 60, "a fault_test has a server")
                wait_until(lambda: len(strays(mark)) >= 4, 60, "both shards have begun, and started their own")
                if number == signal.SIGINT:
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)
                assert process.wait(60) == 128 + number
            wait_until(lambda: strays(mark) == [] and servers_in(directory) == [], 30, "all are gone")
        finally:
            end_strays(mark)
