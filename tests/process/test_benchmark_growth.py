"""Scenario `growth` as a person runs it, tiny; its judge, which keeps no history, and what it reads of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kit.rounds import Run, Turn
from benchmarks.kit.server import PERCENTILES, Calls, Gauge, read_calls
from benchmarks.scenarios.growth import report as growth_report
from benchmarks.scenarios.growth import trials as growth
from benchmarks.scenarios.growth.stream import MARKS, Stream
from sequencer import EmbeddedServer
from sequencer.net.link import Link

from ..support.smoke import smoke

pytestmark = pytest.mark.nightly


def test_smoke(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = link.command("CONFIG", "GET", PERCENTILES)
    result = smoke(server, link, tmp_path, monkeypatch, "growth")
    assert link.command("CONFIG", "GET", PERCENTILES) == setting
    titles = [
        "200 messages of one group",
        "1,000 messages of one group",
        "100 messages, each of another group",
        "300 messages, each of another group",
        "400 messages, 1 a group",
        "400 messages, 20 a group",
        "400 messages, 20 a group, beside 0 cold groups",
        "400 messages, 20 a group, beside 480 cold groups",
    ]
    assert [entry["case"] for entry in result["summary"]] == titles
    for place, entry in enumerate(result["summary"]):
        assert entry["base"] == titles[place // 2 * 2], "a row says what was drained, and each kind has its smallest"
        rates = ("append /s", "drain /s", "append us server", "drain us server")
        names = (*rates, *(f"rss {mark} MB" for mark in MARKS))
        assert all(entry["figures"][name]["min"] > 0 for name in names)
        assert entry["of_base"]["drain /s"]["median"] > 0
        assert ("fill /s" in entry["figures"]) is (entry["case"] == titles[-1])
    if setting:  # the server measures its calls itself
        figures = result["summary"][0]["figures"]
        assert figures["drain longest ms"]["min"] >= figures["drain p99.9 ms"]["min"] > 0


def stream(runs: list[tuple[str, int]]) -> Stream:
    found = Stream(len(runs), lambda: 1024)
    for group, number in runs:
        found.see(group, number)
    return found


def test_a_history_in_order_is_fine() -> None:
    found = stream([("g0", 1), ("g1", 1), ("g0", 2), ("g1", 2)])
    assert found.fault(2, 2) == ""
    assert found.rss_kib == {"start": 1024, "middle": 1024, "end": 1024}
    assert found.ended >= found.began > 0


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([("g0", 1), ("g1", 1), ("g0", 2)], "1 groups not handled to their end"),
        ([("g0", 1), ("g0", 2), ("g1", 1), ("g1", 2), ("g0", 2)], "1 messages handled again"),
        ([("g0", 2), ("g0", 1), ("g1", 1), ("g1", 2)], "1 handled before the one before them"),
        ([("g0", 2), ("g1", 1), ("g1", 2)], "for example group g0: 2 after 0"),
        ([("g0", 1), ("g0", 2), ("g1", 1), ("g1", 2), ("c7", 1)], "1 groups that were never appended"),
        ([("g0", 1), ("g0", 2), ("g0", 3), ("g1", 1), ("g1", 2)], "1 groups not handled to their end"),
    ],
)
def test_a_history_with_a_fault_is_not_valid(runs: list[tuple[str, int]], says: str) -> None:
    assert says in stream(runs).fault(2, 2)


def test_loads_differ_only_in_what_else_there_is() -> None:
    loads = growth.USUAL.loads()
    many = [load for load in loads if load.kind == "cold"]
    assert {(load.messages, load.groups) for load in many} == {(100_000, 1000)}
    assert [load.groups + load.cold for load in many] == [1000, 100_000, 1_000_000]
    assert [load.messages for load in loads if load.kind == "messages"] == [10_000, 100_000, 1_000_000]
    each = [load for load in loads if load.kind == "each"]
    assert [(load.messages, load.groups) for load in each] == [(size, size) for size in (10_000, 100_000, 1_000_000)]
    full = [load for load in loads if load.kind == "a group"]
    assert {load.messages for load in full} == {100_000}
    assert [load.messages // load.groups for load in full] == [1, 10, 100, 1_000]
    items = list(growth.load_items(6, 3))
    assert [(item["group"][0], item["body"]["number"]) for item in items][3:] == [("g0", 2), ("g1", 2), ("g2", 2)]
    assert len(list(growth.cold_items(5))) == 5


def test_rates_are_over_the_smallest_of_the_same_round() -> None:
    def made(size: int, index: int, rate: float, problem: str = "") -> Run:
        load = growth.Load("messages", size, size, 1, 0)
        settings = {**load._asdict(), "base": "10 messages of one group"}
        figures = {"drain /s": rate} if not problem else {}
        turn = Turn(index, index, False)
        return Run(case=load.title, turn=turn, messages=size, problem=problem, single=figures, settings=settings)

    runs = [
        made(10, 1, 100),
        made(20, 1, 90),
        made(20, 2, 400),
        made(10, 2, 200),
        made(10, 3, 1, "lost"),
        made(20, 3, 9),
    ]
    small, large = growth_report.summarise(runs)
    assert small["of_base"]["drain /s"]["max"] == 1
    assert large["of_base"]["drain /s"] == {"median": 1.45, "min": 0.9, "max": 2.0}
    assert all(rows for _, _, rows in growth_report.tables([small, large]))
    assert next(iter(growth_report.charts([small, large]))).labels == ["10", "20"]


def test_what_the_server_says_of_its_calls() -> None:
    prefix = "latency_percentiles_usec_"
    said = {f"{prefix}evalsha": "p99.9=1500.5,p100=2500.25", f"{prefix}eval": "p99.9=9000,p100=9000"}
    assert read_calls(said) == Calls(1500.5, 9000.0)
    assert read_calls({}) == Calls(None, None)


def test_the_gauge_sees_what_the_server_does(server: EmbeddedServer, link: Link, namespace: str) -> None:
    with Gauge(f"unix://{server.socket}") as gauge:
        before, used = gauge.cpu_s(), gauge.used_memory()
        link.command("SET", f"{namespace}:big", b"x" * 10**6)
        # The server may release a few kilobytes of its own meanwhile: buffers of clients that left.
        assert 0.9e6 <= gauge.used_memory() - used < 2e6
        for _ in range(200):
            link.command("GETRANGE", f"{namespace}:big", 0, -1)
        assert gauge.cpu_s() > before
