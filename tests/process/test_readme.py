"""Every command and code block of the README, run as it stands there, top to bottom, in one directory.

The two set-up commands install the project from the registries; the gate (`.ci/run`) takes them from the README and
runs them in a clean copy. Here it is checked that it finds them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer import EmbeddedServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
INDENTED = re.findall(
    r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
)


def timeless(line: str) -> str:
    """A line of the log without times and process ids."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}|(?<=sequencer\[)\d+|\d+(\.\d+)?(?= m?s\b)", "...", line)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory with an embedded server of its own to come."""
    directory = Path(tempfile.mkdtemp(prefix="sqr-"))
    yield directory
    EmbeddedServer(directory / "home").stop()
    shutil.rmtree(directory)


@pytest.mark.timeout(300)
def test_every_block_runs(place: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["SEQUENCER_HOME"] = str(place / "home")
    ran, said = 0, ""
    for kind, text in BLOCKS:
        assert kind in ("python", "console", "text"), f"a block of kind {kind!r} is not run by any test"
        if kind == "text":
            missing = [line for line in text.splitlines() if timeless(line) not in map(timeless, said.splitlines())]
            assert not missing, f"not said by the block before it: {missing}\n{said}"
            continue
        if kind == "python" and (name := re.match(r"# (\w+\.py)\n", text)):
            (place / name[1]).write_text(text)
            words = [sys.executable, "-c", f"import {name[1].removesuffix('.py')}"]
        elif kind == "python":
            words = [sys.executable, "-W", "error", "-c", text]
        else:
            commands = [line.removeprefix("$ ") for line in text.splitlines()]
            assert all(line.startswith("$ ") for line in text.splitlines()), text
            words = ["bash", "-euo", "pipefail", "-c", "\n".join(commands)]
        done = subprocess.run(
            words, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        said = done.stdout + done.stderr
        assert "Traceback" not in done.stderr or "group parked" in done.stderr or "dead letter" in done.stderr
        ran += 1
    assert ran >= 9
    assert (place / "mail.json").exists()


def test_the_commands_outside_blocks_are_run_elsewhere() -> None:
    """By the gate: the two set-up commands, and the proofs. By test_benchmark_peers.py: the benchmark."""
    assert len(INDENTED) == 4
    for word in ("demo", "pytest"):
        found = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "readme_command.py"), word], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() in INDENTED
    assert "python -m sequencer.benchmarks peers" in INDENTED
    gate = (ROOT / ".ci" / "run").read_text()
    assert "readme_command.py demo" in gate
    assert "readme_command.py pytest" in gate
    assert "python -m tests.faults ci" in INDENTED
    assert "python -m tests.faults ci" in gate
