"""Scenario `consumers`, tiny, and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kit.rounds import Work, server_work
from benchmarks.load.workload import Spread, Workload
from benchmarks.scenarios import consumers
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import FAULTS, broken, row, smoke

pytestmark = pytest.mark.nightly

WORKLOAD = Workload(Spread(2), 10, 1, seed=1)


def test_consumers(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "consumers")
    assert [entry["case"] for entry in result["summary"]] == ["drain, 1", "drain, 3", "stream, 1", "stream, 3"]
    for entry in result["summary"]:
        assert all(entry["figures"][name]["median"] > 0 for name in ("rate", "cpu us", "claims"))
        assert entry["of_base"]["rate"]["median"] > 0
        assert (entry["of_base"]["rate"]["median"] == 1) is (entry["settings"]["consumers"] == 1)


def histories() -> tuple[list[Handled], list[Handled]]:
    plan = list(WORKLOAD.planned(0))
    sent = [row(m.group, m.id, at := float(m.number), at + 0.001, number=m.number) for m in plan]
    return sent, [row(m.group, m.id, m.number + 0.5, m.number + 1.0, "consumer-0") for m in plan]


@pytest.mark.parametrize("fault", [*FAULTS, "unsent"])
def test_a_history_with_a_fault_is_not_valid(fault: str) -> None:
    sent, handled = histories()
    handled = broken(handled, fault)
    if fault == "unsent":
        sent.pop()
    run = consumers.assess(sent, handled, WORKLOAD, "stream", 0.5, Work(0.001, {"evalsha": 30, "blpop": 10}))
    assert run.is_valid is (not fault), run.line()
    assert {**FAULTS, "unsent": "9 messages of 10"}[fault] in run.line()
    if not fault:
        assert run.single["rate"] == pytest.approx(1.0), "from the first append to the end of the last handler"
        assert run.single["cpu us"] == pytest.approx(100)
        drained = consumers.assess([], handled, WORKLOAD, "drain", 1.0, Work(0.001, {"evalsha": 5}))
        assert drained.single["claims"] == 0.5
        assert drained.single["rate"] == pytest.approx(1.0)


def test_a_herd_shows() -> None:
    sent, handled = histories()
    calm = consumers.assess(sent, handled, WORKLOAD, "stream", 0.5, Work(0.001, {"evalsha": 20, "blpop": 10}))
    herd = consumers.assess(
        sent, handled, WORKLOAD, "stream", 0.5, Work(0.009, {"evalsha": 90, "blpop": 80, "eval": 9})
    )
    assert (calm.single["claims"], calm.single["waits"]) == (1, 1)
    assert (herd.single["claims"], herd.single["waits"]) == (8.9, 8)
    assert herd.single["cpu us"] > calm.single["cpu us"]


def test_the_servers_work_is_counted_since_a_look(link: Link, server: EmbeddedServer) -> None:
    url = f"unix://{server.socket}"
    before = server_work(url)
    for _ in range(7):
        link.command("ECHO", "x")
    work = server_work(url).since(before)
    assert work.calls["echo"] == 7
    assert work.cpu_s >= 0
