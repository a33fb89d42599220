"""Scenario `fairness`, tiny, and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load.arrivals import HOT
from benchmarks.load.workload import Spread, Workload
from benchmarks.scenarios import fairness
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import FAULTS, broken, row, smoke

pytestmark = pytest.mark.nightly

WORKLOAD = Workload(Spread(2), 10, 1, seed=1)


def test_fairness(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "fairness")
    alone, beside = result["summary"]
    assert [alone["case"], beside["case"]] == ["2 consumers, alone", "2 consumers, beside"]
    assert alone["figures"]["hot share"]["median"] == 0
    assert beside["figures"]["hot share"]["median"] > 0
    assert beside["messages"] > alone["messages"] == 240
    assert alone["settings"]["rate"] == beside["settings"]["rate"] == 400
    assert beside["base"] == alone["case"]
    assert beside["of_base"]["wait p99"]["median"] > 0


def histories() -> tuple[list[Handled], list[Handled], list[Handled]]:
    """The others at 1, 2, ... s, each handled 5 ms later for 0.1 s; the hot group filled twice, handled in between."""
    plan = list(WORKLOAD.planned(0))
    sent = [row(m.group, m.id, at := float(m.number), at + 0.001, number=m.number) for m in plan]
    filled = [row(HOT, f"hot-{n}", 0.5 if n < 4 else 5.0, 5.1, number=n)._replace(score=n // 4) for n in range(1, 7)]
    handled = [row(m.group, m.id, m.number + 0.005, m.number + 0.105) for m in plan]
    return sent, filled, [*handled, *(row(HOT, f"hot-{n}", n + 0.5, n + 0.7) for n in range(1, 7))]


@pytest.mark.parametrize("fault", [*FAULTS, "other lost", "empty", "never filled"])
def test_a_history_with_a_fault_is_not_valid(fault: str) -> None:
    sent, filled, handled = histories()
    handled = handled[1:] if fault == "other lost" else broken(handled, fault)
    if fault == "empty":
        filled = [record._replace(score=0) for record in filled]
    if fault == "never filled":
        filled, handled = [], [record for record in handled if record.group != HOT]
    run = fairness.assess(sent, filled, handled, WORKLOAD, 1.0, 2, "beside")
    assert run.is_valid is (not fault), run.line()
    says = {**FAULTS, "other lost": "1 losses", "empty": "found empty 1 times", "never filled": "never filled"}
    assert says[fault] in run.line()
    if not fault:
        assert run.messages == 16
        assert run.samples["wait"] == pytest.approx([5.0] * 9), "of the others alone, and not of the first second"
        assert run.single["hot share"] == pytest.approx(5 / 13)
        assert run.single["busy"] == pytest.approx((8 * 0.1 + 5 * 0.2) / (2 * 8))
