"""Kill points in users' handlers: that they do nothing by themselves, and kill where they are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sequencer.errors import ConfigurationError
from sequencer.testing.points import parse_armed

from ..support.refused import refused

SCRIPT = """
from sequencer.testing.points import kill_here
for n in range(3):
    print(n, flush=True)
    kill_here("charged")
"""


def passed(armed: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SEQUENCER_KILL_HERE": armed}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.slow
def test_by_hand() -> None:
    killed = passed("charged:2")
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "0\n1\n")
    unarmed = passed("")
    assert (unarmed.returncode, unarmed.stdout) == (0, "0\n1\n2\n")
    assert passed("charged").returncode == 1


@pytest.mark.parametrize(("text", "parts"), [("handler:before:2", ("handler:before", 2)), ("stop:1", ("stop", 1))])
def test_what_is_armed(text: str, parts: tuple[str, int]) -> None:
    assert parse_armed(text) == parts


@pytest.mark.parametrize("text", ["charged", "charged:0", "charged:x", ":1", "charged:stop"])
def test_what_cannot_be_armed(text: str) -> None:
    with refused(ConfigurationError, "point_invalid", name="SEQUENCER_KILL_HERE", value=text):
        parse_armed(text)
