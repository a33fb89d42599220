"""The judge of histories on what is there at the end: in the queue, or among the dead letters."""

from __future__ import annotations

import pytest

from sequencer.testing import Event, judge
from tests.unit.test_judgement import appended, ran

M, X = ("g", "m"), ("g", "x")
STORED = [*appended("m", 0.1, 11), *appended("x", 0.2, 12)]
"""x lies behind m."""
HANDLED = ran("a", "m", 20, 1.0, 11)
KILL = Event("fault", 1.12, "a", kind="kill")
"""Between the end of that run and its acknowledgement."""


def test_a_newer_lease_may_not_pass_a_message_that_waits() -> None:
    """Handled, but for its acknowledgement; its next lease has to begin with it again."""
    assert judge([*STORED, *HANDLED, KILL, *ran("b", "x", 30, 5.0, 12)], pending=[M]).order_violations == 1
    again = [*STORED, *HANDLED, KILL, ran("b", "m", 30, 5.0, 11)[0]]
    assert judge(again, pending=[M, X]).is_clean


def test_the_lease_under_which_it_was_handled_may_pass_it() -> None:
    begun = ran("a", "x", 20, 1.11, 12)[0]
    assert judge([*STORED, *HANDLED, begun, KILL._replace(at=1.18)], pending=[M, X]).is_clean


@pytest.mark.parametrize("where", ["pending", "dead"])
def test_what_nobody_appended_is_an_invention_wherever_it_is(where: str) -> None:
    events = [*STORED, *HANDLED, *ran("a", "x", 20, 1.2, 12)]
    assert judge(events).is_clean
    assert judge(events, **{where: [("g", "z")]}).inventions == 1  # type: ignore[arg-type]


def test_a_dead_letter_was_not_handled_unless_a_fault_kept_its_acknowledgement() -> None:
    assert judge(STORED, dead=[M, X]).is_clean, "given up: not lost"
    assert judge([*STORED, *HANDLED], dead=[M], pending=[X]).order_violations == 1
    assert judge([*STORED, *HANDLED, KILL], dead=[M], pending=[X]).is_clean


def test_a_fault_before_the_message_was_appended_explains_nothing() -> None:
    """b stood still in a time when there was nothing to lease; later it begins under an older token than c's."""
    early = Event("fault", 0.0, "b", kind="stop", until=0.05)
    newer, older = ran("c", "m", 30, 1.0, 11), ran("b", "x", 20, 1.05, 12)
    verdict = judge([early, *STORED, *newer, *older])
    assert (verdict.overlaps, verdict.tokens_back) == (1, 1)
    verdict = judge([early._replace(until=9.0), *STORED, *newer, *older])
    assert (verdict.overlaps, verdict.tokens_back) == (0, 0)
