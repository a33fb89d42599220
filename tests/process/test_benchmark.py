"""The ordering benchmark as a person runs it, tiny: it ends well, says what it must, and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sequencer import EmbeddedServer
from sequencer.benchmarks import ordering
from sequencer.benchmarks.__main__ import app
from sequencer.benchmarks.workload import Spread, Workload
from sequencer.testing import Handled, wait_until

COMMAND = [sys.executable, "-P", "-m", "sequencer.benchmarks"]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], cwd=cwd, capture_output=True, text=True, timeout=100, check=False)


def leftovers(mark: str) -> list[str]:
    """Processes whose environment carries the mark: all that the benchmark started, and their children."""
    found = []
    for directory in Path("/proc").iterdir():
        try:
            environment = (directory / "environ").read_bytes()
        except OSError:
            continue  # no process, or it is gone already
        if mark.encode() in environment and directory.name != str(os.getpid()):
            found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files with a short name: a socket's path holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="sqb-") as name:
        yield Path(name)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds leftover processes in /proc")
def test_ordering(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("BENCHMARK_TEST_MARK", mark := f"mark-{os.getpid()}-{temporary.name}")
    done = run("ordering", "--smoke", "--runs", "2", "--scenarios", "1,zipf", "--output", "out/r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

    for words in (
        "Messages a second",
        "Faults",
        "1 group",
        "5,000 groups, zipf",
        "naive",
        "2 of 2",
        "order violations",
    ):
        assert words in done.stdout
    check_result(json.loads((tmp_path / "out" / "r.json").read_text()))
    assert list(temporary.iterdir()) == []
    wait_until(lambda: not leftovers(mark), what="every process of the benchmark is gone")


def check_result(result: dict) -> None:  # type: ignore[type-arg]
    assert result["is_valid"] is True
    assert result["parameters"]["scenarios"] == ["1", "zipf"]
    machine = result["machine"]
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert machine["server"]["version"].startswith(("Valkey", "Redis"))
    assert {"kernel", "python", "redis_py", "hiredis", "sequencer", "git_commit"} <= set(machine)

    assert len(result["runs"]) == 2 * 2 * 2, "scenarios, runs, systems"
    for entry in (run for run in result["runs"] if run["system"] == "sequencer"):
        assert entry["is_valid"]
        for phase in entry["phases"].values():
            assert phase["handled"] == phase["messages"] == 400
            assert phase["rate"] > 0
            assert phase["append_rate"] > 0

    by_name = {(entry["scenario"], entry["system"]): entry for entry in result["summary"]}
    for scenario in ("1", "zipf"):
        ours, control = by_name[scenario, "sequencer"], by_name[scenario, "naive"]
        assert ours["valid_runs"] == ours["runs"] == control["runs"] == 2
        assert [counts["total"] for counts in ours["faults"].values()] == [0] * 5
        assert all(ours["rates"][name]["min"] > 0 for name in ("mixed", "drain", "append"))
    ties = by_name["1", "naive"]
    assert ties["faults"]["order_violations"]["total"] > 0, "the negative control must turn the judge red"
    assert ties["valid_runs"] == 0
    assert ties["rates"] == {"mixed": None, "drain": None, "append": None}, "a run with a violation counts for nothing"


def test_a_run_of_sequencer_with_a_loss_counts_for_nothing(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload(Spread(3), messages=6, producers=2, seed=1)
    all_but_one = [
        Handled(group, message_id, 1.0, 0, 1, 10.0 + number, 10.5 + number)
        for (group, message_id), number in list(workload.numbers().items())[1:]
    ]
    phases = tuple(ordering.judge(name, workload, all_but_one, 10.0, 100.0) for name in ordering.PHASES)
    broken = ordering.Run(workload.spread, "sequencer", 1, False, phases)
    monkeypatch.setattr(ordering, "measure", lambda *_: [broken])

    output = tmp_path / "r.json"
    done = CliRunner().invoke(app, ["ordering", "--redis", server.url, "--output", str(output)])
    assert done.exit_code == 1, done.output
    assert "NOT VALID: 3 groups, sequencer, run 1: not valid: mixed: 1 losses" in done.output
    result = json.loads(output.read_text())
    assert result["is_valid"] is False
    assert result["summary"][0]["valid_runs"] == 0
    assert result["summary"][0]["rates"]["drain"] is None
    assert result["runs"][0]["phases"]["drain"]["cases"], "the cases are kept"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--scenarios", "1,many"], 2, "zipf"),
        (["--redis", "http://localhost"], 2, "must begin with"),
        (["--redis", "unix:///nowhere/server.sock"], 3, "is it running"),
    ],
)
def test_wrong_use(tmp_path: Path, words: list[str], status: int, says: str) -> None:
    done = run("ordering", "--smoke", *words, cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
