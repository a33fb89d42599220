"""The scenario `peers` as a person runs it, tiny and without peers; its judge, and how the best setting is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.load.placement import Placement
from benchmarks.load.workload import Workload
from benchmarks.peers import installation, results, trials
from benchmarks.peers.cells import HERE, Run, assess
from benchmarks.peers.systems import ALL, BY_NAME, COLUMNS, SYSTEMS

from ..support.smoke import COMMAND, leaves_nothing

pytestmark = pytest.mark.nightly

Rows = list[tuple[str, str, float]]


def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*COMMAND, "peers", "--smoke", "--output", "out/r.json"]
    with leaves_nothing(monkeypatch):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("Messages a second", "How many times theirs", "append one by one", "5,000, zipf"):
        assert text in " ".join(done.stdout.split())
    assert "groupmq is left out: a smoke installs nothing" in done.stderr

    result = json.loads((tmp_path / "out" / "r.json").read_text())
    assert result["scenario"] == "peers"
    assert result["is_valid"]
    assert result["parameters"]["systems"] == ["sequencer", "naive"]
    assert result["parameters"]["left_out"] == ["groupmq is left out: a smoke installs nothing"]
    assert result["machine"]["server"]["transport"] == "redis"
    assert not result["machine"]["server"]["append_only_file"]
    summary = {(entry["system"], entry["column"]): entry for entry in result["summary"]}
    assert set(summary) == {("sequencer", name) for name in ("one", "batch", "zipf")} | {
        ("naive", name) for name in ("one", "zipf")
    }
    for entry in summary.values():
        assert entry["valid_runs"] == entry["runs"] == 1
        assert entry["rate"]["min"] > 0
        assert entry["sequencer_over"]["min"] > 0
    assert set(summary["naive", "one"]["rates_by_placement"]) == {"apart", "together"}

    assert not (tmp_path / "bench-results").exists(), "nothing was installed"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--systems", "groupmq,other"], "system 'other' must be"),
        (["--columns", "many"], "column 'many' must be one of"),
    ],
)
def test_wrong_use(tmp_path: Path, words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["peers", "--smoke", "--cache", str(tmp_path / "c"), *words], terminal_width=200)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


# -- judging --------------------------------------------------------------------------------------------------

WORKLOAD = Workload(BY_NAME["100"].spread, 300, 1, seed=1)
APPENDED = {"began": 5.0, "ended": 6.5}


def all_rows() -> Rows:
    return [(one.group, one.id, 10 + one.number / 100) for one in WORKLOAD.planned(0)]


def swap(rows: Rows) -> None:
    """Two neighbours of one group, each at the other's time."""
    of_one = [position for position, row in enumerate(rows) if row[0] == rows[0][0]][:2]
    first, second = of_one
    rows[first], rows[second] = (*rows[second][:2], rows[first][2]), (*rows[first][:2], rows[second][2])


def made(name: str, column: str, rows: Rows, index: int = 1, appended: dict[str, float] = APPENDED) -> Run:
    cell = trials.make_cell(trials.USUAL, ALL[name], BY_NAME[column], "apart", {}, {})
    phase = assess(BY_NAME[column], WORKLOAD, appended, rows)
    return Run(cell=cell, index=index, is_warmup=False, is_trial=False, phase=phase)


def test_rates() -> None:
    assert made("groupmq", "100", all_rows()).rate == pytest.approx(300 / 2.99), "from the first handler to the last"
    assert made("groupmq", "batch", all_rows()).rate == pytest.approx(300 / 1.5), "from `go` to the last append"


@pytest.mark.parametrize("column", ["batch", "100"])
@pytest.mark.parametrize("name", ["groupmq", "saq"])
@pytest.mark.parametrize("fault", ["", "order_violations", "losses", "duplicates", "inventions"])
def test_a_run_with_a_fault_has_no_rate(fault: str, name: str, column: str) -> None:
    rows = all_rows()
    if fault == "order_violations":
        swap(rows)
    elif fault == "losses":
        rows.pop()
    elif fault == "duplicates":
        rows.append((*rows[0][:2], 99.0))
    elif fault == "inventions":
        rows.append(("g-nobody's", "1", 99.0))
    run = made(name, column, rows)
    assert all(getattr(run.phase, one) == (one == fault) for one in ("losses", "duplicates", "inventions"))
    allowed = not fault or (fault == "order_violations" and name == "saq")
    assert (run.phase.order_violations > 0) is (fault == "order_violations")
    assert run.is_valid is allowed
    assert (run.rate is not None) is allowed
    assert ("not valid" in run.line()) is not allowed


def test_a_process_that_died_makes_the_run_not_valid() -> None:
    phase = assess(BY_NAME["100"], WORKLOAD, {}, [], "a process to produce was not ready")
    run = replace(made("saq", "100", all_rows()), phase=phase)
    assert not run.is_valid
    assert "was not ready" in run.line()
    [entry] = results.summarise([run])
    assert (entry["rate"], entry["valid_runs"]) == (None, 0)
    assert [title for title, _, rows in results.tables([entry]) for row in rows if "not valid" in row] != []


def test_the_quickest_valid_setting_is_taken() -> None:
    slow, quick, lossy = (
        all_rows(),
        [(g, i, at / 2) for g, i, at in all_rows()],
        [(g, i, at / 9) for g, i, at in all_rows()],
    )
    lossy.pop()
    tried = [made("groupmq", "100", rows, index) for index, rows in enumerate((slow, lossy, quick))]
    assert trials.quickest(tried) is tried[2]


PLACEMENTS: list[tuple[Placement, float]] = [("apart", 1.0), ("together", 2.0)]


def test_ratios_are_of_one_round_in_each_system_better_placement() -> None:
    runs = []
    for index, (our_s, their_s) in enumerate([(1.0, 2.0), (4.0, 2.0)], 1):
        for placement, factor in PLACEMENTS:
            for name, seconds in (("sequencer", our_s * factor), ("naive", their_s / factor)):
                run = made(name, "one", all_rows(), index, {"began": 0.0, "ended": seconds})
                runs.append(replace(run, cell=replace(run.cell, placement=placement)))
    runs.append(replace(runs[0], is_warmup=True))
    runs.append(replace(runs[0], is_trial=True))
    ours, naive = results.summarise(runs)
    assert (ours["placement"], naive["placement"], ours["runs"], naive["runs"]) == ("apart", "together", 2, 2)
    assert naive["sequencer_over"] == {"median": (1 + 0.25) / 2, "min": 0.25, "max": 1.0}
    assert ours["sequencer_over"] == {"median": 1.0, "min": 1.0, "max": 1.0}


def test_each_system_has_its_cells() -> None:
    cells = list(trials.cells(trials.USUAL, {("groupmq", "100"): {"concurrency": 7}}))
    by_name = {(cell.system.name, cell.column.name): cell for cell in cells}
    assert by_name["groupmq", "100"].drain == by_name["groupmq", "one"].drain == {"concurrency": 7}
    assert by_name["groupmq", "zipf"].fill == ALL["groupmq"].batch_settings[0]
    assert by_name["naive", "1"].fill is None
    assert {column for name, column in by_name if name == "saq"} == {"one", "batch", "100"}
    assert {column for name, column in by_name if name == "sequencer"} == {column.name for column in COLUMNS}
    for system in SYSTEMS:
        kinds = {"node": HERE / f"{system.name}.mjs", "python": HERE / "workers" / f"with_{system.name}.py"}
        assert kinds.get(system.kind, HERE).exists()
        assert all("==" in package or "@" in package for package in system.packages), "versions are pinned"


# -- installing -----------------------------------------------------------------------------------------------


def test_what_can_not_be_installed_is_left_out_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(shutil, "which", lambda _: None)
    parameters = trials.usual(False, [ALL["sequencer"], ALL["groupmq"]], tmp_path, said.append)
    assert [system.name for system in parameters.systems] == ["sequencer"]
    assert parameters.as_json()["left_out"] == said == ["groupmq is left out: node is not on PATH"]


def test_a_failed_installation_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*words: str, cwd: Path) -> None:
        (tmp_path / "saq").mkdir(exist_ok=True)
        raise subprocess.CalledProcessError(1, words, stderr="WARNING: slow\nERROR: no network\n\n")

    monkeypatch.setattr(installation, "_run", fail)
    said: list[str] = []
    parameters = trials.usual(False, [ALL["saq"]], tmp_path, said.append)
    assert parameters.systems == ()
    assert said[-1] == "saq is left out: it could not be installed (ERROR: no network)"
    assert list(tmp_path.iterdir()) == []


def test_another_version_is_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def note(*words: str, cwd: Path) -> None:
        calls.append(words)
        (tmp_path / "saq").mkdir(exist_ok=True)

    monkeypatch.setattr(installation, "_run", note)
    system = ALL["saq"]
    for wanted in (system, system, replace(system, packages=("saq==9",))):
        installation.install(wanted, tmp_path, lambda _: None)
    assert len(calls) == 4, "two calls an installation, and the second time it was there"
    assert calls[-1][-1] == "saq==9"
