"""What `get`, `find`, `explain` and the history say of a message with steps, also while they run."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Message, MessageInfo, StepCall
from sequencer.testing import MemoryQueue

from ..support.handling import got


def queue(**settings: Any) -> MemoryQueue:
    seq = MemoryQueue("events", group_by=["order"], id_by="id", kind_by="code", history_window=3600, **settings)

    @seq.step("paid", order=1)
    def invoice(message: Any) -> None:
        seq.advance(0.25)
        if message.body.get("broken"):
            raise ValueError("no printer")

    @seq.step("paid", order=2, optional=True)
    def mail(message: Any) -> None:
        if not message.body.get("address"):
            raise ValueError("no address")

    return seq


def test_it_says_how_each_step_ended_and_of_which_kind_the_message_was() -> None:
    seq = queue()
    seq.append({"order": 7, "id": "e1", "code": "paid", "address": "ann"})
    seq.append({"order": 8, "id": "e2", "code": "paid"})
    seq.drain()
    well, badly = seq.get(7, "e1"), seq.get(8, "e2")
    assert well is not None
    assert badly is not None
    assert (well.state, well.status, well.kind) == ("finished", "finished", "paid")
    assert well.note == "invoice done in 250 ms, mail done"
    assert badly.state == "failed"
    assert badly.note == "invoice done in 250 ms, mail left (ValueError: no address)"
    assert [info.id for info in seq.history(outcome="failed", kind="paid")] == ["e2"]


def test_attempts_are_the_most_of_a_step() -> None:
    """The record of a message with steps counts leases that ended unanswered, and no attempts."""
    seq = queue(max_attempts=3)

    def third(message: Message, step: StepCall) -> None:
        if step.attempt < 3:
            raise ValueError("not yet")

    seq.step("closed")(third)
    seq.append({"order": 8, "id": "e2", "code": "closed"})
    seq.drain()
    assert [info.attempts for info in seq.history(8)] == [3]


def test_a_message_that_is_dropped_says_which_step_failed() -> None:
    seq = queue(on_failure="drop", max_attempts=1)
    seq.append({"order": 7, "id": "e1", "code": "paid", "broken": True, "address": "ann"})
    seq.drain()
    (info,) = seq.history()
    assert (info.state, info.kind) == ("dropped", "paid")
    assert "no printer" in info.note
    assert info.began_at is not None
    assert info.finished_at == pytest.approx(info.began_at + 0.25, abs=0.01)


def test_it_says_since_when_a_message_runs_who_has_it_and_its_steps_so_far() -> None:
    seq, seen = MemoryQueue("gifts", max_attempts=3), dict[str, MessageInfo]()
    began: list[float] = []

    def look(message: Any, step: Any) -> None:
        began.append(seq.now)
        info = got(seq, "ann", message.id)
        assert seq.find(message.id) == [info]
        seen[f"{step.name} {step.attempt}"] = info
        assert bool(seq.explain("ann").fields["steps"]) == (info.steps is not None)
        seq.advance(2)
        if step.name == "points" and step.attempt == 1:
            raise ValueError("no")

    for order, name in enumerate(("charge", "points", "mail")):
        seq.step(name=name, order=order)(look)
    seq.append({}, "ann", id="g7")
    seq.drain()
    first, second, again = seen["charge 1"], seen["points 1"], seen["points 2"]
    assert (first.state, first.status, first.consumer) == ("leased", "running", "memory")
    assert (first.attempts, first.steps) == (0, None)
    assert first.began_at == pytest.approx(began[0], abs=0.01), "when its group was claimed"
    assert second.steps is not None
    assert second.steps.said == "charge done, points open, mail open"
    assert (again.attempts, again.steps and again.steps.said) == (1, "charge done, points failed, mail done")
    assert again.began_at == pytest.approx(began[3], abs=0.01), "this time"


def test_a_step_that_runs_once_says_when_it_began() -> None:
    seq, seen = MemoryQueue("gifts"), list[Any]()

    @seq.step(once=True)
    def charge(message: Any) -> None:
        seen.extend([seq.now, seq.get("ann", message.id), seq.explain("ann").fields["steps"]])

    seq.append({}, "ann", id="g6")
    seq.append({}, "ann", id="g7")
    seq.drain()
    for began, info, said in (seen[:3], seen[3:]):
        assert info.began_at == pytest.approx(began, abs=0.01)
        (step,) = info.steps.steps
        assert (step.state, step.at, info.steps.questions) == ("started", pytest.approx(began, abs=0.01), ())
        assert said == "charge started"
