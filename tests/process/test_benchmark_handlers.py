"""Scenario `handlers`, tiny, and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load.workload import Planned
from benchmarks.scenarios import handlers
from sequencer import EmbeddedServer
from sequencer.net.link import Link
from sequencer.testing import Handled

from ..support.smoke import FAULTS, broken, row, smoke

pytestmark = pytest.mark.nightly


def test_handlers(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "handlers")
    assert [entry["case"] for entry in result["summary"]] == ["1 ms, 3 groups", "20 ms, 3 groups"]
    for entry in result["summary"]:
        assert 0 < entry["figures"]["busy"]["median"] <= 1
        assert entry["figures"]["sleep"]["median"] >= 1, "no sleep is shorter than asked"


def history(consumers: int, groups: int, each: int, step: float) -> tuple[list[Planned], list[Handled]]:
    """Handlers of 1 s, one every `step` s by each consumer, the groups shared out evenly."""
    plan = [Planned(f"g{n % groups}", f"m{n}", n + 1) for n in range(groups * each)]
    place = dict.fromkeys(range(consumers), 0)
    rows = []
    for message in plan:
        consumer = int(message.group[1:]) % consumers
        at, place[consumer] = place[consumer] * step, place[consumer] + 1
        rows.append(row(message.group, message.id, at, at + 1.0, f"consumer-{consumer}"))
    return plan, rows


@pytest.mark.parametrize(("step", "busy"), [(1.0, 1.0), (2.0, 0.5), (1.25, 0.8)])
def test_time_between_handlers_shows(step: float, busy: float) -> None:
    run = handlers.assess((made := history(2, 4, 20, step))[1], made[0], 2, 1.0)
    assert run.is_valid, run.line()
    assert run.single["busy"] == pytest.approx(busy, rel=0.02)
    assert run.single["ideal"] == pytest.approx(busy, rel=0.02)


def test_a_consumer_that_stands_still_while_messages_wait_shows() -> None:
    plan, rows = history(2, 4, 20, 1.0)
    late = [r._replace(started=r.started + 40, ended=r.ended + 40) if r.consumer.endswith("1") else r for r in rows]
    run = handlers.assess(late, plan, 2, 1.0)
    assert run.single["busy"] == pytest.approx(0.5, rel=0.05)


def test_the_steady_part_ends_when_order_alone_keeps_handlers_idle() -> None:
    plan, rows = history(2, 2, 10, 1.0)
    slow = [r._replace(started=r.started * 3, ended=r.ended * 3) if r.group == "g1" else r for r in rows]
    assert handlers.steady_part(slow, plan, 2) == (0.0, 9.0), "g0 has nothing left that was not begun"
    assert handlers.steady_part(rows[:-1], plan, 2) is None, "a group whose end is not known"


def test_long_sleeps_are_not_taken_for_work_done() -> None:
    plan, rows = history(2, 4, 20, 1.0)
    run = handlers.assess(rows, plan, 2, 0.5)
    assert run.single["busy"] == pytest.approx(1.0)
    assert run.single["ideal"] == pytest.approx(0.5, rel=0.05)
    assert run.single["sleep"] == pytest.approx(2.0)


@pytest.mark.parametrize("fault", [*FAULTS, "idle"])
def test_a_history_with_a_fault_is_not_valid(fault: str) -> None:
    plan, rows = history(2, 4, 5, 1.0)
    rows = broken(rows, fault)
    if fault == "idle":
        rows = [record._replace(consumer="consumer-0") for record in rows]
    run = handlers.assess(rows, plan, 2, 1.0)
    assert run.is_valid is (not fault), run.line()
    assert {**FAULTS, "idle": "1 of 2 consumers"}[fault] in run.line()
