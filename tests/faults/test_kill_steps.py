"""Steps with a kill at each of their points: a slice, and broken twins that it must find."""

from __future__ import annotations

import pytest

from .steps.proof import POINTS, killed, run

pytestmark = pytest.mark.slow


@pytest.mark.timeout(300)
def test_a_slice_of_the_proof() -> None:
    """All of it: `python -m tests.faults steps --scale nightly`."""
    result = run("smoke")
    assert result.is_passed, result.problems
    assert result.faults == {"kill": 9}
    assert result.figures["automatic: questions"] == result.figures["checked: questions"] == 0
    assert result.figures["once: questions"] == 3, "behind each start that was noted"


@pytest.mark.parametrize(
    ("variant", "twin", "point", "said"),
    [
        ("automatic", "note dropped", "step:b:after", "x1 ran ['a', 'b', 'a', 'b', 'c', 'd', 'e']"),
        ("automatic", "note not waited for", "step:b:after", "x1 ran ['a', 'b', 'a', 'b', 'c', 'd', 'e']"),
        ("once", "start noted after the call", "step:b:after", "x1/b took effect 2 times"),
        ("once", "once handled as automatic", "step:b:after", "x1/b took effect 2 times"),
    ],
)
def test_a_broken_twin_is_found(variant: str, twin: str, point: str, said: str) -> None:
    assert point in POINTS
    assert said in str(killed(variant, [point], 1, twin).report.problems)
