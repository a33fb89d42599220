"""A scenario of the benchmarks as a person runs it, tiny: it ends well and leaves nothing. And made-up histories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled, wait_until

COMMAND = [sys.executable, "-P", "-m", "benchmarks"]
ROOT = str(Path(__file__).parents[2])


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [*COMMAND, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False
    )


def smoke(
    server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> dict[str, Any]:
    """The JSON of a scenario that was run on the test's server, once no process, key or file of it is left."""
    # The default user: a benchmark looks at the server's own figures, which the least rights do not give.
    of_server = ("--redis", f"unix://{server.socket}", "--output", "r.json", "--json")
    with leaves_nothing(monkeypatch):
        done = run(*words, "--smoke", *of_server, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert result["scenario"] == words[0]
    assert result["is_valid"]
    assert result["machine"]["cores"] >= 1
    assert result["parameters"].get("placement", "free") == "free", "a server that is not our own is not moved"
    ours = [entry for entry in result["summary"] if entry.get("system", "sequencer") == "sequencer"]
    assert all(entry["valid_runs"] == entry["runs"] == 1 for entry in ours)
    assert [key for key in link.command("KEYS", "*") if b"bench-" in key] == []
    return result


@contextmanager
def leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is started in here leaves no temporary file, and, where /proc tells of them, no process."""
    with tempfile.TemporaryDirectory(prefix="sqb-") as name:  # short: a socket's path holds 107 bytes
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setenv("BENCHMARK_TEST_MARK", mark := f"mark-{os.getpid()}-{Path(name).name}")
        yield
        if Path("/proc/self/environ").exists():
            wait_until(lambda: not leftovers(mark), what="every process of the benchmark is gone")
        assert list(Path(name).iterdir()) == []


def leftovers(mark: str) -> list[str]:
    """Processes whose environment carries the mark: all that the benchmark started, and their children."""
    found = []
    for directory in Path("/proc").iterdir():
        try:
            if directory.name != str(os.getpid()) and mark.encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # no process, or it is gone already
    return found


def row(group: str, name: str, started: float, ended: float, consumer: str = "", *, number: int = 0) -> Handled:
    """One handler run, or with a number one append that was due when it began."""
    return Handled(group, name, started if number else 0.0, number, 1, started, ended, consumer)


def broken(history: list[Handled], fault: str) -> list[Handled]:
    """The history with its last message lost or handled twice, or the first two of a group with their ids swapped."""
    if fault == "lost":
        return history[:-1]
    if fault == "twice":
        return [*history, history[-1]._replace(started=99.0, ended=99.1)]
    if fault == "swapped":
        one = history[0]
        two = next(record for record in history[1:] if record.group == one.group)
        swapped = {one.id: two.id, two.id: one.id}
        return [record._replace(id=swapped.get(record.id, record.id)) for record in history]
    return history


FAULTS = {"": "", "lost": "1 losses", "twice": "1 duplicates", "swapped": "1 order violations"}
"""What each of them is called."""
