"""Steps with a kill at each of their points: negative control that must be found. The CI run has a slice of the
fault test.
"""

from __future__ import annotations

import pytest

from sequencer.testing.kill_everywhere import KillReport

from .steps.fault_test import POINTS, Killed, killed

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.mark.parametrize(
    ("variant", "control", "point", "said"),
    [
        ("automatic", "note dropped", "step:b:after", "x1 ran ['a', 'b', 'a', 'b', 'c', 'd', 'e']"),
        ("once", "once handled as automatic", "step:b:after", "x1/b took effect 2 times"),
    ],
)
def test_a_broken_control_is_found(variant: str, control: str, point: str, said: str) -> None:
    assert point in POINTS
    assert said in str(killed(variant, [point], 1, control).report.problems)


def test_a_question_that_must_not_be_asked_is_a_problem_and_so_is_one_that_was_not() -> None:
    def of(questions: int) -> Killed:
        return Killed(KillReport(questions=questions))

    assert of(0).problems("automatic") == of(0).problems("checked") == of(3).problems("once") == []
    assert of(1).problems("automatic") == of(1).problems("checked") == ["1 questions were asked"]
    assert of(0).problems("once") == ["0 questions were asked"]
