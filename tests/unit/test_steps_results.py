"""Results of steps: the first run gives what a repeat gives, and one that can't be kept repeats nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sequencer.errors import AnswerNeeded, StepResultInvalid
from sequencer.testing import MemoryQueue


def results_of_two_runs() -> list[Any]:
    """What a step gets of the one before it, which returned a tuple, in the first run and in the one behind it."""
    seen: list[Any] = []
    seq = MemoryQueue("gifts")
    first = seq.step(name="first")(lambda message: (1, 2))

    @seq.step(order=2, after=first)
    def second(message: Any, step: Any) -> None:
        seen.append((step.result, dict(step.results), step.attempt))
        if step.attempt == 1:
            raise ValueError("no")

    seq.append({}, "ann", id="g7")
    seq.drain()
    return seen


RESULTS = [([1, 2], {"first": [1, 2]}, 1), ([1, 2], {"first": [1, 2]}, 2)]


def test_results_are_what_json_makes_of_them_also_in_the_first_run() -> None:
    assert results_of_two_runs() == RESULTS


def test_a_raw_result_in_the_first_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sequencer.drain.steps.passes.kept_result", lambda result: result)
    assert results_of_two_runs() == [((1, 2), {"first": (1, 2)}, 1), RESULTS[1]]


@pytest.mark.parametrize(
    "result", [Decimal("1.10"), "x" * 1_000_000, float("nan")], ids=["a decimal", "1 MB", "not a number"]
)
def test_a_result_that_can_not_be_kept_repeats_nothing(result: Any) -> None:
    ran: list[str] = []
    seq = MemoryQueue("gifts")

    @seq.step
    def points(message: Any) -> Any:
        ran.append("points")
        return result

    seq.step(name="mail", order=2)(lambda message: ran.append("mail"))
    seq.append({}, "ann", id="g7")
    done = seq.drain()
    ((_, error),) = done.failed
    assert isinstance(error, StepResultInvalid)
    with pytest.raises(AnswerNeeded):
        seq.resume("ann")
    assert ran == ["points"], "the step took effect"
    seq.resume("ann", done={"points": None})
    assert len(seq.drain().handled) == 1
    assert ran == ["points", "mail"]
