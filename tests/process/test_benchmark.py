"""The benchmarks as a person runs them, tiny: they end well, say what they must, and leave nothing; and the judges."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kit.phase import PHASES
from benchmarks.kit.scenario import run as run_scenario
from benchmarks.kit.times import ServerClock, quantiles
from benchmarks.load.judge import Phase, judge
from benchmarks.load.workload import Spread, Workload
from benchmarks.scenarios import ordering
from benchmarks.scenarios.policies import costs
from benchmarks.scenarios.policies import trials as policies
from benchmarks.scenarios.skew import trials as skew
from benchmarks.scenarios.timers import alerts
from benchmarks.scenarios.timers import trials as timers
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import leaves_nothing, run, smoke

pytestmark = pytest.mark.nightly


def test_ordering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with leaves_nothing(monkeypatch):
        done = run("ordering", "--smoke", "--scenarios", "1,zipf", "--output", "out/r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

    for words in (
        "Messages a second",
        "Faults",
        "1 group",
        "5,000 groups, zipf",
        "naive",
        "1 of 1",
        "order violations",
    ):
        assert words in done.stdout
    check_result(json.loads((tmp_path / "out" / "r.json").read_text()))


def check_result(result: dict) -> None:  # type: ignore[type-arg]
    assert result["is_valid"] is True
    assert result["parameters"]["scenarios"] == ["1", "zipf"]
    machine = result["machine"]
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert machine["server"]["version"].startswith(("Valkey", "Redis"))
    assert {"kernel", "python", "redis_py", "hiredis", "sequencer", "git_commit"} <= set(machine)

    assert len(result["runs"]) == 2 * 2, "scenarios, systems"
    for entry in (one for one in result["runs"] if one["system"] == "sequencer"):
        assert entry["is_valid"]
        for phase in entry["phases"].values():
            assert phase["handled"] == phase["messages"] == 400
            assert phase["rate"] > 0
            assert phase["append_rate"] > 0

    by_name = {(entry["scenario"], entry["system"]): entry for entry in result["summary"]}
    for scenario in ("1", "zipf"):
        ours, control = by_name[scenario, "sequencer"], by_name[scenario, "naive"]
        assert ours["valid_runs"] == ours["runs"] == control["runs"] == 1
        assert [counts["total"] for counts in ours["faults"].values()] == [0] * 5
        assert all(ours["rates"][name]["min"] > 0 for name in ("mixed", "drain", "append"))
    ties = by_name["1", "naive"]
    assert ties["faults"]["order_violations"]["total"] > 0, "the negative control must turn the judge red"
    assert ties["valid_runs"] == 0
    assert ties["rates"] == {"mixed": None, "drain": None, "append": None}, "a run with a violation counts for nothing"


def test_a_run_of_sequencer_with_a_loss_counts_for_nothing(
    server: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = Workload(Spread(3), messages=6, producers=2, seed=1)
    all_but_one = [
        Handled(group, message_id, 1.0, 0, 1, 10.0 + number, 10.5 + number)
        for (group, message_id), number in list(workload.numbers().items())[1:]
    ]
    phases = tuple(judge(name, workload, all_but_one, 10.0, 100.0) for name in PHASES)
    broken = ordering.Run(workload.spread, "sequencer", 1, False, phases)
    scenario = replace(ordering.SCENARIO, measure=lambda *_: [broken])

    output = tmp_path / "r.json"
    with pytest.raises(typer.Exit) as done:
        run_scenario(scenario, scenario.smoke, server.url, output, as_json=False)
    assert done.value.exit_code == 1
    assert "NOT VALID: 3 groups, sequencer, run 1: not valid: mixed: 1 losses" in capsys.readouterr().out
    result = json.loads(output.read_text())
    assert result["is_valid"] is False
    assert result["summary"][0]["valid_runs"] == 0
    assert result["summary"][0]["rates"]["drain"] is None
    assert result["runs"][0]["phases"]["drain"]["cases"], "the cases are kept"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--scenarios", "1,many"], 2, "zipf"),
        (["--variants", "audit,all"], 2, "variant 'all' must be one of default,"),
        (["--redis", "http://localhost"], 2, "must begin with"),
        (["--redis", "unix:///nowhere/server.sock"], 3, "is it running"),
    ],
)
def test_wrong_use(tmp_path: Path, words: list[str], status: int, says: str) -> None:
    done = run("policies" if "--variants" in words else "ordering", "--smoke", *words, cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


# -- policies, skew, timers -----------------------------------------------------------------------------------

Smoke = Callable[..., dict[str, Any]]


@pytest.fixture(name="smoke")
def on_the_tests_server(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smoke:
    return partial(smoke, server, link, tmp_path, monkeypatch)


def test_policies(smoke: Smoke) -> None:
    found = smoke("policies", "--variants", "sequence,bodies,audit")["summary"]
    by_variant = {entry["variant"]: entry for entry in found}
    for entry in by_variant.values():
        assert entry["valid_runs"] == entry["runs"] == 1
        assert all(entry["rates"][name]["min"] > 0 for name in ("mixed", "drain", "append"))
        assert all(entry["of_default"][name]["median"] > 0 for name in ("mixed", "drain", "append"))
    kept = {variant: [int(one["entries"]) for one in entry["memory"].values()] for variant, entry in by_variant.items()}
    assert kept == {
        "default": [200, 10, 0, 0, 0],
        "sequence": [200, 10, 0, 0, 0],
        "bodies": [200, 10, 200, 200, 0],
        "audit": [200, 10, 0, 0, 200],
    }
    assert by_variant["default"]["memory"]["ids"]["bytes_each"] > 16, "an id alone is that long"


def test_skew(smoke: Smoke) -> None:
    result = smoke("skew")
    none, half, whole = result["summary"]
    assert [entry["window_s"] for entry in (none, half, whole)] == [0, 0.03, 0.06]
    assert none["inversions"] > 0, "without a window the same scenario goes wrong"
    assert whole["inversions"] <= whole["beyond"], "none of those that arrived within the window"
    assert all(run["inverted_within"] == 0 for run in result["runs"])
    assert whole["after_arrival_ms"]["p50"] >= 50, "the window is waited for"


def test_timers(smoke: Smoke) -> None:
    by_name = {(entry["phase"], entry["system"]): entry for entry in smoke("timers")["summary"]}
    for phase in ("load", "idle"):
        ours = by_name[phase, "sequencer"]
        assert (ours["fired"], ours["lost"], ours["twice"], ours["early"]) == (40, 0, 0, 0)
    assert by_name["load", "sequencer"]["busy"]["median"] > 0
    assert by_name["load", "key expiry"]["fired"] > 0, "events are heard while somebody listens"
    assert by_name["idle", "key expiry"]["lost"] > 0, "and lost while nobody does"


def test_the_setting_for_expiry_events_is_put_back(server: EmbeddedServer, link: Link) -> None:
    name = "notify-keyspace-events"
    link.command("CONFIG", "SET", name, "Kg")
    with pytest.raises(KeyError), alerts.expiry_events(server.url):
        assert set(link.command("CONFIG", "GET", name)[1]) == set(b"gKxE")
        raise KeyError
    assert set(link.command("CONFIG", "GET", name)[1]) == set(b"gK")
    link.command("CONFIG", "SET", name, "")


def handled(group: str, message_id: str, score: float, started: float, *, arrived: float | None = None) -> Handled:
    stamp = round((score if arrived is None else arrived) * 1e6)
    return Handled(group, message_id, score, stamp, 1, started, started + 1e-4)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=30))
def test_inversions_are_those_below_any_before(runs: list[tuple[str, int]]) -> None:
    history = [handled(group, str(n), score, float(n)) for n, (group, score) in enumerate(runs)]
    below = [h.id for n, h in enumerate(history) if any(h.group == o.group and h.score < o.score for o in history[:n])]
    assert [record.id for record in skew.inversions(reversed(history))] == below


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles(values: list[float]) -> None:
    found = quantiles(values)
    assert found is not None
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        below, up_to = (sum(test(value, found[name]) for value in values) for test in (operator.lt, operator.le))
        assert below < share * len(values) <= up_to


CLOCK = ServerClock(offset_s=100.0, error_s=1e-5)
SKEW_FAULTS = [
    ("", 0, ""),
    ("swapped", 1, "1 inverted that arrived within the window"),
    ("swapped", 0, "the server counted 0 late messages, the history shows 1"),
    ("lost", 0, "1 losses"),
    ("twice", 0, "1 duplicates"),
]


@pytest.mark.parametrize(("fault", "late", "says"), SKEW_FAULTS)
def test_a_history_of_skew_with_a_fault_is_not_valid(fault: str, late: int, says: str) -> None:
    parameters = replace(skew.SMOKE, groups=1, skew_s=0.1, seconds=1.0)
    workload = Workload(Spread(1), 10, 2, seed=1)
    events = sorted((e for p in range(2) for e in skew.plan(workload, p, 1.0, 0.1)), key=lambda event: event.true_s)
    assert all(event.true_s <= event.sent_s <= event.true_s + 0.08 for event in events)
    if fault == "swapped":
        events[3], events[4] = events[4], events[3]
    times = [(event.id, 100 + event.true_s, 100 + event.sent_s) for event in events]
    history = [handled("g0", name, score, 2.0 + n, arrived=at) for n, (name, score, at) in enumerate(times)]
    if fault == "lost":
        history.pop()
    if fault == "twice":
        history.append(history[-1]._replace(started=50.0, ended=50.1))
    run = skew.assess(history, workload, parameters, 0.1, CLOCK, late)
    assert run.is_valid is (not fault)
    assert says in run.line()
    assert run.inversions == (fault == "swapped")
    small = skew.assess(history, workload, parameters, 0.001, CLOCK, late)
    assert (small.inversions, small.inverted_within) == (run.inversions, 0), "it arrived beyond this window"


@pytest.mark.parametrize("fault", ["", "lost", "twice", "early", "load lost", "load disordered"])
def test_a_history_of_timers_with_a_fault_is_not_valid(fault: str) -> None:
    parameters = replace(timers.SMOKE, timers=6)
    workload = Workload(Spread(1), 3, 1, seed=1)
    plan = sorted(alerts.plan(1, asdict(parameters)), key=lambda alert: alert.delay_s)
    fired = [handled(alert.group, alert.id, 100 + alert.delay_s, alert.delay_s + 0.02) for alert in plan]
    load = [handled("g0", message.id, 101.0, 1 + message.number) for message in workload.planned(0)]
    if fault.endswith("lost"):
        (load if fault.startswith("load") else fired).pop()
    elif fault == "twice":
        fired.append(fired[-1]._replace(started=50.0, ended=50.1))
    elif fault == "early":
        fired[0] = fired[0]._replace(score=fired[0].score + 0.03)
    elif fault == "load disordered":
        load[0], load[1] = load[0]._replace(id=load[1].id), load[1]._replace(id=load[0].id)
    run = timers.assess([*fired, *load], workload, parameters, "sequencer", CLOCK, 1, None)
    assert run.is_valid is (not fault), run.line()
    assert (run.lost, run.twice, run.early) == (fault == "lost", fault == "twice", fault == "early")
    assert run.fired == 6 - run.lost
    if not fault:
        assert run.lateness == pytest.approx([20] * 6)
        since = timers.assess(fired, Workload(Spread(1), 0, 1, 1), parameters, "sequencer", CLOCK, 1, 100.0)
        assert since.lateness == pytest.approx([1e3 * (alert.delay_s + 0.02) for alert in plan])


def test_cost_is_over_the_default_of_the_same_round() -> None:
    def made(variant: str, index: int, rate: float, losses: int = 0) -> policies.Run:
        phases = tuple(Phase(name, 1, 1, 1.0, rate, rate, 0, 0, losses, 0, 0) for name in PHASES)
        return policies.Run(Spread(1), variant, index, index == 0, phases)

    rounds = [(1.0, 900.0, 0), (100.0, 50.0, 0), (10.0, 5.0, 0), (10.0, 1000.0, 1)]
    runs = [(made("default", n, base, losses), made("audit", n, rate)) for n, (base, rate, losses) in enumerate(rounds)]
    default, audit = costs.summarise([run for pair in runs for run in pair])
    assert audit["of_default"]["drain"] == {"median": 0.5, "min": 0.5, "max": 0.5}
    assert (default["valid_runs"], default["faults"]["losses"], audit["valid_runs"]) == (2, 2, 3)
