"""Scores in several units: what a unit is, and what a consumer that meets two of them tells, once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from sequencer.values.score_units import UnitsMet, range_of, unit_of

SECONDS, MILLISECONDS = 1_795_000_000.0, 1_795_000_000_000.0
SCORES = st.floats(allow_nan=False) | st.sampled_from([0.0, 1e11, 1e14, SECONDS, MILLISECONDS, math.inf])


@given(SCORES, SCORES)
def test_scores_of_one_range_are_of_one_unit(one: float, other: float) -> None:
    low, high = range_of(one)
    assert low <= abs(one) <= high
    if low <= abs(other) < high:
        assert unit_of(one) == unit_of(other)


@given(st.lists(st.lists(SCORES, min_size=1, max_size=4), max_size=8))
@example([[0.0], [1e11 + 1]])
def test_two_units_are_told_once_and_one_never(claims: list[list[float]]) -> None:
    met, seen, told = UnitsMet(), set[str](), 0
    for scores in claims:
        seen |= {unit_of(scores[0]), unit_of(scores[-1])}
        examples = met.learn(("a",), scores[0], scores[-1])
        told += examples is not None
        if examples:
            assert {unit_of(score) for _, score in examples.values()} == {*examples} <= seen
    assert told <= 1
    if len({unit_of(score) for score in _away_from_limits(claims)}) > 1:
        assert told == 1


def _away_from_limits(claims: Sequence[Sequence[float]]) -> list[float]:
    """A score that is the limit of two units may count as either."""
    return [one for scores in claims for one in (scores[0], scores[-1]) if abs(one) not in (1e11, 1e14)]
