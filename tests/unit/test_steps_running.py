"""What `get`, `find` and `explain` say of a message whose steps run just now."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import MessageInfo
from sequencer.testing import MemoryQueue


def test_it_says_since_when_a_message_runs_who_has_it_and_its_steps_so_far() -> None:
    seq, seen = MemoryQueue("gifts", max_attempts=3), dict[str, MessageInfo]()
    began: list[float] = []

    def look(message: Any, step: Any) -> None:
        began.append(seq.now)
        info = seq.get("ann", message.id)
        assert info is not None
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
