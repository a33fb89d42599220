"""How far a group has come: it never goes back, and a sequence knows what was skipped."""

from __future__ import annotations

import math

import pytest

from sequencer.store.watermark import MAX_SKIPPED, Sequenced, advance, late_below


@pytest.mark.parametrize(
    ("mark", "scores", "after"),
    [
        ("", ["3.0"], "3.0"),
        ("3.0", ["4.0", "5.0"], "5.0"),
        ("5.0", ["3.0"], "5.0"),
        ("10.0", ["9.0"], "10.0"),
        ("#", ["1.0", "2.0"], "#2"),
        ("#2", ["4.0"], "#4 3-3"),
        ("#4 3-3", ["3.0"], "#4"),
        ("#9 3-5", ["3.0"], "#9 4-5"),
        ("#9 3-5", ["4.0"], "#9 3-3 5-5"),
        ("#9 3-5", ["5.0"], "#9 3-4"),
        ("#9 3-5", ["6.0"], "#9 3-5"),
    ],
)
def test_it_goes_ahead_with_what_is_passed_and_never_back(mark: str, scores: list[str], after: str) -> None:
    assert advance(mark, scores) == after


def test_a_redriven_number_fills_a_gap_and_never_goes_ahead() -> None:
    """Its group may have been forgotten: the numbers before it would count as skipped, those behind it as passed."""
    assert advance("#9 3-5", ["4.0"], [True]) == "#9 3-3 5-5"
    assert advance("#3", ["9.0"], [True]) == "#3"
    assert advance("#3", ["9.0", "4.0"], [True, False]) == "#4"


def test_of_too_many_gaps_the_oldest_become_one_that_holds_all_their_numbers() -> None:
    """What was handled between them may be handled again; what was skipped never counts as handled."""
    state = Sequenced()
    for number in range(2, 2 * MAX_SKIPPED + 1, 2):
        state = state.passed(number)
    assert state.skipped == tuple((n, n) for n in range(1, 2 * MAX_SKIPPED, 2))
    assert len(state.skipped) == MAX_SKIPPED
    state = state.passed(2 * MAX_SKIPPED + 2)
    assert state.skipped == ((1, 3), *((n, n) for n in range(5, 2 * MAX_SKIPPED + 2, 2)))
    assert len(state.skipped) == MAX_SKIPPED


@pytest.mark.parametrize(
    ("mark", "below"), [("", -math.inf), ("#", -math.inf), ("5.5", 5.5), ("#5", 6.0), ("#5 2-3", 6.0)]
)
def test_late_is_what_lies_below_it_or_in_a_sequence_is_not_above_it(mark: str, below: float) -> None:
    assert late_below(mark) == below
