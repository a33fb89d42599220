"""Scenario `pools`, tiny, and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load.workload import Planned
from benchmarks.scenarios import pools
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import FAULTS, broken, row, smoke

pytestmark = pytest.mark.nightly


def test_pools(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "pools")
    asked = {entry["case"]: entry["figures"]["requests"]["median"] for entry in result["summary"]}
    assert list(asked) == ["consume", "beside", "hangs"]
    assert asked["hangs"] >= 1
    assert asked["consume"] == 0


def history(groups: int = 4, each: int = 10) -> tuple[list[Handled], list[Planned]]:
    """Two consumers, each a message a second; the second one begins 5 s later, and the first takes over its work."""
    plan = [Planned(f"g{number % groups}", f"m{number}", number + 1) for number in range(groups * each)]
    handled = []
    for number, one in enumerate(plan):
        at = number if number < 5 else 5 + (number - 5) // 2
        handled.append(row(one.group, one.id, at, at + 1, f"c{number % 2 if number >= 5 else 0}"))
    return handled, plan


def test_the_rate_is_that_of_the_time_in_which_all_consumers_could_be_busy() -> None:
    run = pools.assess(*history(), consumers=2, asked=[1.0, 6.0, 99.0])
    assert run.is_valid, run.line()
    assert run.single == {"rate": pytest.approx(2.0, rel=0.1), "requests": 2}


def test_who_never_began_is_missed() -> None:
    assert "2 of 3 consumers" in pools.assess(*history(), consumers=3, asked=[]).line()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_history_with_a_fault_is_not_valid(fault: str) -> None:
    handled, plan = history()
    run = pools.assess(broken(handled, fault), plan, consumers=2, asked=[])
    assert run.is_valid is (not fault), run.line()
    assert FAULTS[fault] in run.line()
