"""Scenario `latency`, tiny; its judge; and what all scenarios that take turns have in common."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kit.rounds import Run, Turn, chosen_placement, in_turn, summarise, turns
from benchmarks.load.arrivals import delays, due_times
from benchmarks.load.workload import Spread, Workload
from benchmarks.scenarios.latency import nodejs
from benchmarks.scenarios.latency import trials as latency
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import FAULTS, broken, row, smoke

pytestmark = pytest.mark.nightly


def test_latency(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "latency", "--cache", "nothing-here")
    cases = [(entry["case"], entry["system"]) for entry in result["summary"]]
    assert sorted(cases) == [
        (rate, name) for rate in ("1,000/s", "100/s") for name in (latency.LIST, latency.SEQUENCER)
    ]
    for entry in result["summary"]:
        for since in ("from append", "from due"):
            found = [entry["figures"][f"{since} {which}"]["median"] for which in latency.SHOWN]
            assert found == sorted(found)
            assert found[0] > 0
        assert entry["figures"]["from due p50"]["median"] >= entry["figures"]["from append p50"]["median"]
        assert entry["all_runs"]["from append"]["max"] > 0
    assert result["parameters"]["groupmq_left_out"], "it is said that the peer was left out, and why"


WORKLOAD = Workload(Spread(2), 8, 1, seed=1)


def histories() -> tuple[list[Handled], list[Handled]]:
    """Appends at 1, 2, ... s that take 1 ms; each handler begins 2 ms after the begin of its append."""
    plan = list(WORKLOAD.planned(0))
    sent = [row(m.group, m.id, at := float(m.number), at + 0.001, number=m.number) for m in plan]
    return sent, [row(m.group, m.id, m.number + 0.002, m.number + 0.003) for m in plan]


@pytest.mark.parametrize("fault", [*FAULTS, "unsent", "clock"])
def test_a_history_with_a_fault_is_not_valid(fault: str) -> None:
    sent, handled = histories()
    handled = broken(handled, fault)
    if fault == "unsent":
        sent.pop()
    if fault == "clock":
        handled[3] = handled[3]._replace(started=handled[3].started - 0.1)
    run = latency.assess(sent, handled, WORKLOAD, 2.5)
    assert run.is_valid is (not fault), run.line()
    assert {**FAULTS, "unsent": "7 messages of 8", "clock": "clocks"}[fault] in run.line()
    if not fault:
        assert run.samples["from append"] == pytest.approx([2.0] * 5), "those of the first 2.5 s do not count"
        assert run.samples["append"] == pytest.approx([1.0] * 5)
        assert run.single["rate"] == pytest.approx(1.0)


def test_a_producer_that_was_held_up_does_not_hide_it() -> None:
    sent, handled = histories()
    late = [record._replace(started=record.started + 0.5, ended=record.ended + 0.5) for record in sent]
    found = delays(late, [record._replace(started=record.started + 0.5) for record in handled], 0.0)
    assert found.from_append == pytest.approx([2.0] * 8)
    assert found.from_due == pytest.approx([502.0] * 8)
    assert found.behind == pytest.approx([500.0] * 8)


def test_messages_are_due_at_random_or_on_a_beat() -> None:
    workload = Workload(Spread(5), 20_000, 1, seed=3)
    times = due_times(workload, 100.0, is_steady=False)
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) > 0
    assert statistics.mean(gaps) == pytest.approx(0.01, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.01, rel=0.05), "of a Poisson process, as much as the mean"
    assert due_times(Workload(Spread(5), 3, 1, seed=3), 10.0, is_steady=True) == [0.0, 0.1, 0.2]


@given(st.integers(0, 3), st.integers(1, 5))
def test_each_case_comes_first_in_every_other_round(warmup: int, runs: int) -> None:
    rounds = list(turns(warmup, runs))
    assert [turn.index for turn in rounds if not turn.is_warmup] == list(range(1, runs + 1))
    assert [turn.is_warmup for turn in rounds] == [True] * warmup + [False] * runs
    assert [in_turn("ab", turn)[0] for turn in rounds] == [("a", "b")[turn.seed % 2] for turn in rounds]


def test_ratios_are_of_the_same_round_and_of_valid_runs() -> None:
    def made(case: str, index: int, value: float, problem: str = "") -> Run:
        turn = Turn(index, index, index == 0)
        return Run(case=case, turn=turn, messages=1, problem=problem, single={"x": value}, samples={"y": [value]})

    runs = [made("base", 0, 9), made("more", 0, 1), made("base", 1, 10), made("more", 1, 20)]
    runs += [made("more", 2, 60), made("base", 2, 20), made("base", 3, 1, "1 losses"), made("more", 3, 7)]
    base, more = summarise(runs, lambda _run: "base")
    assert more["of_base"]["x"] == {"median": 2.5, "min": 2.0, "max": 3.0}
    assert (base["valid_runs"], base["runs"], more["valid_runs"]) == (2, 3, 3)
    assert base["all_runs"]["y"]["max"] == 20
    assert more["figures"]["y p99"] == {"median": 20, "min": 7, "max": 60}


def test_a_server_of_someone_else_is_not_placed_unasked() -> None:
    assert [chosen_placement(None, None), chosen_placement(None, "redis://there")] == ["apart", "free"]
    assert chosen_placement("together", "redis://there") == "together"
    with pytest.raises(typer.BadParameter):
        chosen_placement("elsewhere", None)


def test_groupmq_is_left_out_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/node")
    assert "not installed" in nodejs.missing(tmp_path)
    (tmp_path / "groupmq" / "node_modules" / "groupmq").mkdir(parents=True)
    assert nodejs.missing(tmp_path) == ""
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert "not on PATH" in nodejs.missing(tmp_path)
