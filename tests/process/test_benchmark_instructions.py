"""The counter of the server's instructions, tiny; it needs valgrind."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.nightly

MODULE = "benchmarks.scenarios.instructions"


@pytest.mark.skipif(not shutil.which("valgrind") or not shutil.which("redis-server"), reason="counts by callgrind")
def test_smoke() -> None:
    done = subprocess.run([sys.executable, "-m", MODULE, "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(\w+) +([\d.]+) thousand a message +([\d.]+) x$", done.stdout, re.MULTILINE)
    assert [case for case, _, _ in found] == ["plain", "turn", "groups", "long"]
    assert found[0][2] == "1.00"
    assert all(float(count) > 1 for _, count, _ in found)


def test_an_unknown_case_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", MODULE, "short"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    if shutil.which("valgrind") and shutil.which("redis-server"):
        assert done.stderr == "error: short: the cases are turn, groups, long, the only option is --smoke\n"
