"""The scenario `usual` as a person runs it, tiny and without peers; its judges, and what a trial of a promise says."""

from __future__ import annotations

import inspect
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.kit.rounds import Run, Turn
from benchmarks.usual import promises, rates, report, seed, streams
from benchmarks.usual.crew import Happened, plan
from benchmarks.usual.faults import cut_short, faults, repeats
from benchmarks.usual.promises import Trial
from benchmarks.usual.remains import is_held
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import COMMAND, FAULTS, broken, leaves_nothing, row

pytestmark = pytest.mark.nightly


@pytest.mark.slow
def test_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("--systems", "sequencer,streams", "--parts", "rates", "--cases", "each,one,busy")
    words = [*COMMAND, "usual", "--smoke", *parts, "--output", "r.json"]
    with leaves_nothing(monkeypatch):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["is_valid"]
    found = {(entry["case"], entry["system"]): entry for entry in result["summary"]}
    cases = ("one each", "one by one", "5 ms, -n 2")
    assert set(found) == {(case, system) for case in cases for system in ("sequencer", "streams")}
    for (case, system), entry in found.items():
        if system == "sequencer":
            assert entry["valid_runs"] == entry["runs"] == 1
            assert entry["figures"]["scripts"]["median"] > 0
        assert entry["figures"]["server us"]["median"] > 0
        assert ("delay ms p50" in entry["figures"]) is (case == "one by one")
        assert ("of ideal" in entry["figures"]) is (case == "5 ms, -n 2")
    assert found["one each", "streams"]["over_streams"]["median"] == 1
    assert "streams" in done.stdout


@pytest.mark.slow
def test_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("--systems", "sequencer,seed", "--parts", "promises", "--claims", "equal scores,same id three times")
    words = [*COMMAND, "usual", "--smoke", *parts, "--output", "r.json"]
    with leaves_nothing(monkeypatch):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    found = {(entry["claim"], entry["system"]): entry for entry in result["summary"]}
    assert found["equal scores", "sequencer"]["is_kept"]
    assert found["same id three times", "sequencer"]["is_kept"]
    assert "out of order" in found["equal scores", "seed"]["faults"][0], "the trial is not blind"
    assert found["same id three times", "seed"]["faults"] == ["handled 2 times"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--systems", "kafka"], "'kafka' must be one of sequencer, streams, seed, celery, rq"),
        (["--cases", "many"], "'many' must be one of each, one, group, busy, long"),
        (["--claims", "speed"], "'speed' must be one of equal scores"),
        (["--parts", "all"], "'all' must be one of rates, promises"),
    ],
)
def test_wrong_use(words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["usual", "--smoke", *words], terminal_width=200)
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())


# -- judging --------------------------------------------------------------------------------------------------

CASE = rates.Case("busy", 2, 8, 2, 0.005)
MESSAGES = plan(2, 8, 1)


def history() -> list[Handled]:
    """Two consumers, each with a group of its own, without a pause."""
    return [
        row(one.group, one.id, 0.005 * (place // 2), 0.005 * (place // 2 + 1), one.group)
        for place, one in enumerate(MESSAGES)
    ]


def test_the_share_of_the_ideal() -> None:
    run = rates.assess(CASE, "sequencer", MESSAGES, Happened(history(), [], []), [])
    assert run.is_valid
    assert run.figures["of ideal"] == pytest.approx(1.0)
    assert run.figures["rate"] == pytest.approx(400)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_with_a_fault_counts_for_nothing(fault: str) -> None:
    run = rates.assess(CASE, "streams", MESSAGES, Happened(broken(history(), fault), [], []), [])
    assert run.is_valid is not bool(fault)
    assert FAULTS[fault] in run.problem


def test_disorder_is_counted_where_no_order_is_promised() -> None:
    happened = Happened(broken(history(), "swapped"), [], [])
    run = rates.assess(CASE, "celery", MESSAGES, happened, [])
    assert run.is_valid
    assert run.figures["disorder"] == 1
    assert not rates.assess(CASE, "celery", MESSAGES, Happened(history()[1:], [], []), []).is_valid


def test_a_delay_is_from_the_append_and_the_first_do_not_count() -> None:
    sent = [["ran", one.group, one.id, float(one.number), one.number + 0.5] for one in MESSAGES]
    handled = [row(one.group, one.id, one.number + 0.25, one.number + 0.3) for one in MESSAGES]
    run = rates.assess(rates.Case("one", 8, 8, pace=1.0), "sequencer", MESSAGES, Happened(handled, [], []), sent)
    assert run.samples["delay ms"] == pytest.approx([250.0] * 6)


@pytest.mark.parametrize(
    ("fault", "says"), [("", ""), ("lost", "1 not handled"), ("twice", ""), ("swapped", "1 out of order")]
)
def test_faults_of_a_trial(fault: str, says: str) -> None:
    found = broken(history(), fault)
    assert faults(MESSAGES, found) == says
    assert repeats(found) == (1 if fault == "twice" else 0)


def test_a_run_that_a_kill_ended_overlaps_and_handles_nothing() -> None:
    whole = history()
    victim = whole[-1]
    happened = Happened(whole[:-1], [], [(victim.group, victim.id, victim.started, victim.consumer)])
    begun = cut_short(happened, {victim.consumer: 99.0})
    assert [(one.id, one.ended) for one in begun] == [(victim.id, 99.0)]
    assert faults(MESSAGES, happened.handled, begun=begun) == "1 not handled"
    again = victim._replace(started=50.0, ended=50.1, consumer="other")
    assert faults(MESSAGES, [*happened.handled, again], begun=begun) == "1 overlap"
    assert cut_short(happened, {}) == []


def test_the_order_of_each_producer_by_itself() -> None:
    """Between producers nothing is promised: their messages come in any order."""
    halves = [plan(1, 3, 1, name) for name in ("a", "b")]
    owner = {one.id: name for name, half in zip("ab", halves, strict=True) for one in half}
    mixed = [message for pair in zip(*halves, strict=True) for message in pair]
    handled = [row(one.group, one.id, float(place), place + 0.5) for place, one in enumerate(mixed)]
    messages = [*halves[0], *halves[1]]
    assert faults(messages, handled, of=lambda one: owner[one.id]) == ""
    swapped = [handled[2]._replace(started=-1.0, ended=-0.5), *handled[:2], *handled[3:]]
    assert faults(messages, swapped, of=lambda one: owner[one.id]) == "1 out of order"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (["", ""], "kept (2 handled again)"),
        (["", "1 lost"], "NOT: 1 of 2: 1 lost (2 handled again)"),
        (["1 lost", "2 lost, 1 overlaps"], "NOT: 2 lost, 1 overlaps (2 handled again)"),
    ],
)
def test_a_cell_says_what_happened(found: list[str], says: str) -> None:
    trials = [Trial("poison", "seed", index, fault, index) for index, fault in enumerate(found, 1)]
    assert report.verdict(report.cell("poison", "seed", trials)) == says


def test_a_rate_is_beside_that_of_streams_in_the_same_round() -> None:
    def made(system: str, index: int, rate: float, problem: str = "") -> Run:
        turn = Turn(index, index, False)
        return Run(case="one each", turn=turn, messages=1, system=system, single={"rate": rate}, problem=problem)

    runs = [made("streams", 1, 100.0), made("sequencer", 1, 50.0), made("streams", 2, 10.0)]
    more = [*runs, made("sequencer", 2, 6.0), made("streams", 3, 1.0, "lost"), made("sequencer", 3, 9.0)]
    entry = report.summarise(more)[-1]
    assert entry["system"] == "sequencer"
    assert entry["over_streams"] == {"median": 0.55, "min": 0.5, "max": 0.6}


def test_all_cells_have_a_trial_and_the_usual_run_all_cases() -> None:
    assert len(promises.CLAIMS) == 8
    names = [case.name for case in rates.USUAL.chosen()]
    assert names[:3] == ["one each", "one by one", "5 ms, 1 group"]
    assert names[3:] == ["5 ms, -n 1", "5 ms, -n 2", "5 ms, -n 4", "5 ms, -n 8", "long groups"]
    assert rates.USUAL.chosen()[0].messages_for("sequencer") == 20_000
    assert rates.USUAL.chosen()[-1].messages == 50_000
    fewer = replace(rates.USUAL, cases=("each",)).chosen()
    assert [case.groups for case in fewer] == [20_000]


def test_the_peers_are_as_short_as_is_said() -> None:
    """A team's own lines, docstrings and all: who wants to judge the figures reads the whole of it."""
    for module, most in ((streams, 60), (seed, 90)):
        text = inspect.getsource(module)
        assert len([line for line in text.splitlines() if line.strip()]) <= most


def test_what_a_server_still_holds(server: EmbeddedServer, link: Link, namespace: str) -> None:
    tag, url = f"{{{namespace}:x:0}}", f"unix://{server.socket}"
    values = {
        "string": ("SET", "x-held-1-x"),
        "list": ("RPUSH", "x", "held-2"),
        "set": ("SADD", "held-3"),
        "zset": ("ZADD", "1", "held-4"),
        "hash": ("HSET", "f", "held-5", "held-6", "v"),
        "stream": ("XADD", "*", "id", "held-7"),
    }
    for kind, (command, *words) in values.items():
        link.command(command, f"{tag}:{kind}", *words)
    link.command("SET", f"{tag}:held-8", "")
    try:
        assert [n for n in range(1, 10) if is_held(url, f"held-{n}")] == [1, 2, 3, 4, 5, 6, 7, 8]
    finally:
        link.command("DEL", f"{tag}:held-8", *(f"{tag}:{kind}" for kind in values))
