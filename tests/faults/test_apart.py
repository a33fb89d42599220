"""Proofs side by side: their results come together, one that breaks down is told, and none outlives its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sequencer.faults.apart import Lanes
from sequencer.faults.strays import end_strays, strays
from sequencer.testing import wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_results_come_lane_by_lane_and_one_that_breaks_down_is_a_problem(capfd: pytest.CaptureFixture[str]) -> None:
    broken, fine = Lanes("smoke").run((("nonsense",), ("input",)))
    assert broken.name == "nonsense"
    assert list(broken.problems) == ["it ended with status 2"]
    assert broken.command == "python -m sequencer.faults nonsense --scale smoke"
    assert fine.is_passed
    assert fine.name == "input"
    assert fine.runs > 100
    assert "input ..." in capfd.readouterr().err


@linux
@pytest.mark.timeout(100)
def test_told_to_end_it_leaves_nothing_behind() -> None:
    mark = f"SEQUENCER_STRAY={os.getpid()}.lanes"
    name, _, value = mark.partition("=")
    words = [sys.executable, "-m", "sequencer.faults", "ci"]
    try:
        with subprocess.Popen(
            words, env={**os.environ, name: value}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            wait_until(lambda: len(strays(mark)) >= 4, 60, "both lanes have begun, and started processes of their own")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
        wait_until(lambda: strays(mark) == [], 30, "all are gone")
    finally:
        end_strays(mark)
