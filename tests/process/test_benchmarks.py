"""The benchmarks, tiny: they end well and leave nothing, and a run with a fault has no rate."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.awaited import cases as awaited_cases
from benchmarks.awaited import report as awaited
from benchmarks.awaited import trials as awaited_trials
from benchmarks.kit.rounds import Run, Turn, Work, summarise
from benchmarks.kit.times import ServerClock, quantiles
from benchmarks.load.order_check import Handled
from benchmarks.load.workload import Spread, Workload
from benchmarks.peers import results, trials
from benchmarks.peers.cells import Run as PeerRun
from benchmarks.peers.cells import assess as assess_peer
from benchmarks.peers.systems import ALL, BY_NAME
from benchmarks.scenarios import consumers, fairness, handlers, pools
from benchmarks.scenarios.latency import trials as latency
from benchmarks.scenarios.skew import trials as skew
from benchmarks.usual import rates
from benchmarks.usual.crew import Happened
from benchmarks.usual.faults import cut_short, faults
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import wait_until

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
    of_server = ("--redis", f"unix://{server.socket}", "--output", "r.json")
    with leaves_nothing(monkeypatch):
        done = run(*words, "--smoke", *of_server, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads((tmp_path / "r.json").read_text())
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


pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(
    "words",
    [
        "policies --variants sequence,bodies",
        "skew",
        "timers",
        "cluster",
        "consumers",
        "dashboard",
        "fairness",
        "growth",
        "handlers",
        "latency --cache nothing-here",
        "memory",
        "outbox",
        "pools",
        "steps",
    ],
)
def test_a_scenario_on_a_server_that_is_there(
    server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    assert smoke(server, link, tmp_path, monkeypatch, *words.split())["summary"]


@pytest.mark.parametrize(
    "words",
    ["async --peers none", "floor", "peers", "usual --systems sequencer,streams --parts rates --cases each,one,busy"],
)
def test_a_scenario_on_servers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    with leaves_nothing(monkeypatch):
        done = run(*words.split(), "--smoke", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["is_valid"]
    assert result["machine"]["cores"] >= 1


def test_the_naive_system_turns_the_judge_red(tmp_path: Path) -> None:
    done = run("ordering", "--smoke", "--scenarios", "1,zipf", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["scenario"], one["system"]): one for one in json.loads((tmp_path / "r.json").read_text())["summary"]}
    assert found["1", "sequencer"]["valid_runs"] == 1
    assert all(found["1", "sequencer"]["rates"][name]["min"] > 0 for name in ("mixed", "drain", "append"))
    assert found["1", "naive"]["faults"]["order_violations"]["total"] > 0
    assert found["1", "naive"]["rates"] == {"mixed": None, "drain": None, "append": None}


def test_the_seed_breaks_the_promises_that_are_kept_here(tmp_path: Path) -> None:
    claims = ("--parts", "promises", "--claims", "equal scores,same id three times")
    done = run("usual", "--smoke", "--systems", "sequencer,seed", *claims, "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["claim"], one["system"]): one for one in json.loads((tmp_path / "r.json").read_text())["summary"]}
    assert found["equal scores", "sequencer"]["is_kept"]
    assert "out of order" in found["equal scores", "seed"]["faults"][0]
    assert found["same id three times", "seed"]["faults"] == ["handled 2 times"]


# -- judges ---------------------------------------------------------------------------------------------------

PLAN: list[Any] = list(Workload(Spread(2), 10, 1, seed=1).planned(0))
SENT = [row(one.group, one.id, float(one.number), one.number + 0.001, number=one.number) for one in PLAN]
HANDLED = [row(one.group, one.id, one.number + 0.005, one.number + 0.1, f"c{one.group}") for one in PLAN]
WORKLOAD = Workload(Spread(2), 10, 1, seed=1)
OF_SLOTS = awaited_cases.Case("", "sequencer", "sequencer", 10, 2)
ROWS: list[Any] = [(one.group, one.id, one.number, {}) for one in PLAN]


def rows_of(history: list[Handled]) -> list[tuple[str, str, float]]:
    return [(one.group, one.id, one.ended) for one in history]


JUDGES: dict[str, Callable[[list[Handled]], Any]] = {
    "async": lambda found: Run(
        case="", turn=Turn(0, 0, False), messages=10, problem=awaited_trials.wrong_with(OF_SLOTS, ROWS, rows_of(found))
    ),
    "consumers": lambda found: consumers.assess(SENT, found, WORKLOAD, "stream", 0.5, Work(0.001, {"evalsha": 30})),
    "fairness": lambda found: fairness.assess(SENT, [], found, WORKLOAD, 1.0, 2, "alone"),
    "handlers": lambda found: handlers.assess(found, PLAN, 2, 0.1),
    "latency": lambda found: latency.assess(SENT, found, WORKLOAD, 2.5),
    "pools": lambda found: pools.assess(found, PLAN, consumers=2, asked=[]),
    "usual": lambda found: rates.assess(
        rates.Case("busy", 2, 5, 2, 0.005), "streams", PLAN, Happened(found, [], []), []
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("judge", JUDGES)
def test_a_history_with_a_fault_is_not_valid(judge: str, fault: str) -> None:
    found = JUDGES[judge](broken(HANDLED, fault))
    assert found.is_valid is (not fault), found.line()
    assert FAULTS[fault] in found.line()


@pytest.mark.parametrize("fault", ["", "order_violations", "losses", "duplicates", "inventions"])
def test_a_peer_with_a_fault_has_no_rate(fault: str) -> None:
    workload = Workload(BY_NAME["100"].spread, 300, 1, seed=1)
    rows = [(one.group, one.id, 10 + one.number / 100) for one in workload.planned(0)]
    if fault == "order_violations":
        first, second = [at for at, one in enumerate(rows) if one[0] == rows[0][0]][:2]
        rows[first], rows[second] = (*rows[second][:2], rows[first][2]), (*rows[first][:2], rows[second][2])
    elif fault == "losses":
        rows.pop()
    elif fault == "duplicates":
        rows.append((*rows[0][:2], 99.0))
    elif fault == "inventions":
        rows.append(("g-nobody's", "1", 99.0))
    cell = trials.make_cell(trials.USUAL, ALL["groupmq"], BY_NAME["100"], "apart", {}, {})
    phase = assess_peer(BY_NAME["100"], workload, {"began": 5.0, "ended": 6.5}, rows)
    one = PeerRun(cell=cell, index=1, is_warmup=False, is_trial=False, phase=phase)
    assert one.is_valid is (one.rate is not None) is (not fault)
    assert (results.summarise([one])[0]["rate"] is None) is bool(fault)


def test_a_run_that_a_kill_ended_overlaps_and_handles_nothing() -> None:
    victim = HANDLED[-1]
    happened = Happened(HANDLED[:-1], [], [(victim.group, victim.id, victim.started, victim.consumer)])
    begun = cut_short(happened, {victim.consumer: 99.0})
    assert faults(PLAN, happened.handled, begun=begun) == "1 not handled"
    again = victim._replace(started=50.0, ended=50.1, consumer="other")
    assert faults(PLAN, [*happened.handled, again], begun=begun) == "1 overlap"


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_swap_within_the_reorder_window_is_not_valid(is_swapped: bool) -> None:
    workload = Workload(Spread(1), 10, 2, seed=1)
    events = sorted((e for p in range(2) for e in skew.plan(workload, p, 1.0, 0.1)), key=lambda event: event.true_s)
    if is_swapped:
        events[3], events[4] = events[4], events[3]
    history = [
        Handled("g0", one.id, 100 + one.true_s, round((100 + one.sent_s) * 1e6), 1, 2.0 + at, 2.0001 + at)
        for at, one in enumerate(events)
    ]
    parameters = replace(skew.SMOKE, groups=1, skew_s=0.1, seconds=1.0)
    found = skew.assess(history, workload, parameters, 0.1, ServerClock(offset_s=100.0, error_s=1e-5), int(is_swapped))
    assert found.is_valid is not is_swapped
    assert found.inversions == is_swapped


# -- figures --------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles(values: list[float]) -> None:
    found = quantiles(values)
    assert found is not None
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        below, up_to = (sum(test(value, found[name]) for value in values) for test in (operator.lt, operator.le))
        assert below < share * len(values) <= up_to


def test_ratios_are_of_the_same_round_and_of_valid_runs() -> None:
    def made(case: str, index: int, value: float, problem: str = "") -> Run:
        turn = Turn(index, index, index == 0)
        return Run(case=case, turn=turn, messages=1, problem=problem, single={"x": value}, samples={"y": [value]})

    runs = [made("base", 0, 9), made("more", 0, 1), made("base", 1, 10), made("more", 1, 20)]
    runs += [made("more", 2, 60), made("base", 2, 20), made("base", 3, 1, "1 losses"), made("more", 3, 7)]
    base, more = summarise(runs, lambda _run: "base")
    assert more["of_base"]["x"] == {"median": 2.5, "min": 2.0, "max": 3.0}
    assert (base["valid_runs"], base["runs"], more["valid_runs"]) == (2, 3, 3)


def test_a_ratio_of_many_handlers_needs_both_sides_of_a_round() -> None:
    def made(system: str, index: int, rate: float, problem: str = "") -> Run:
        case, turn = awaited_cases.LOOP, Turn(index, index, False)
        return Run(case=case, system=system, turn=turn, messages=1, problem=problem, single={"rate": rate})

    runs = [made("no queue", 1, 10), made("sequencer", 1, 8), made("no queue", 2, 10), made("sequencer", 2, 9.5)]
    runs += [made("no queue", 3, 10, "1 losses"), made("sequencer", 3, 1), made("taskiq", 1, 4), made("docket", 1, 2)]
    found = {one["ratio"]: one for one in awaited.summarise(runs) if "ratio" in one}
    ideal, best = found["rate, of the tasks without a queue"], found["rate, of the best peer"]
    assert (ideal["value"], ideal["is_met"]) == ({"median": 0.875, "min": 0.8, "max": 0.95}, True)
    assert (best["value"]["median"], best["runs"], best["is_met"]) == (2.0, 1, True)
    assert len(found) == 2, "what was not measured is not there"
