"""A scenario of the benchmarks as a person runs it, tiny: it ends well and leaves nothing. And made-up histories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer
from sequencer.link import Link
from sequencer.testing import Handled, wait_until


def smoke(
    server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> dict[str, Any]:
    """The JSON of a scenario that was run on the test's server, once no process, key or file of it is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("BENCHMARK_TEST_MARK", mark := f"mark-{os.getpid()}-{tmp_path.name}")
    command = [sys.executable, "-P", "-m", "sequencer.benchmarks", *words, "--smoke", "--json", "--output", "r.json"]
    done = subprocess.run(
        # The default user: a benchmark looks at the server's own figures, which the least rights do not give.
        [*command, "--redis", f"unix://{server.socket}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert result["scenario"] == words[0]
    assert result["is_valid"]
    assert result["machine"]["cores"] >= 1
    assert result["parameters"]["placement"] == "free"
    assert all(run["is_valid"] and run["figures"] for run in result["runs"])
    assert all(entry["valid_runs"] == entry["runs"] == 1 for entry in result["summary"])
    assert [key for key in link.command("KEYS", "*") if b"bench-" in key] == []
    assert list(temporary.iterdir()) == []
    if Path("/proc/self/environ").exists():
        wait_until(lambda: not leftovers(mark), what="every process of the benchmark is gone")
    return result


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
