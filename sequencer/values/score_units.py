"""In what the scores of a queue count, where they are times: seconds of one producer, milliseconds of another. Pure.

By magnitude, never by ratio: a score below 1e11 is in seconds (until the year 5138), below 1e14 in milliseconds, above
that in microseconds. What has no score of its own is scored by its arrival, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

UNITS = ((1e11, "seconds"), (1e14, "milliseconds"), (float("inf"), "microseconds"))
Examples = Mapping[str, tuple[Sequence[str], float]]
"""Unit -> a group, and a score in it that is of this unit."""
SHORT = {"seconds": "s", "milliseconds": "ms", "microseconds": "us"}
"""As scripts call them."""
MIN_TIME = 1e9
"""The least score that counts as a timestamp: September 2001 in seconds."""


def unit_of(score: float) -> str:
    """In what a score counts, if it is a time since 1970."""
    return next(name for limit, name in UNITS if abs(score) < limit or name == UNITS[-1][1])


def is_time(score: float) -> bool:
    """Whether a score may be a timestamp, rather than a number such as 17."""
    return score >= MIN_TIME


def range_of(score: float) -> tuple[float, float]:
    """The lowest score of its unit, without its sign, and the lowest of the next one."""
    limits = [0.0, *(limit for limit, _ in UNITS)]
    return next((low, high) for low, high in pairwise(limits) if abs(score) < high or high == limits[-1])


class UnitsMet:
    """The units of the scores so far, of each an example. All that a claim costs is a look at one group's ends."""

    def __init__(self) -> None:
        self._examples: dict[str, tuple[Sequence[str], float]] = {}
        self._range = (math.inf, 0.0)
        """The scores of which nothing is to be told: those of the unit that was met first; of all, once it was told."""

    def learn(self, group: Sequence[str], first: float, last: float) -> Examples | None:
        """The first and the last score of a group that is in progress; the examples, once, when there is a second
        unit.
        """
        low, high = self._range
        if low <= abs(first) <= high and low <= abs(last) <= high:
            return None
        for score in (first, last):
            self._examples.setdefault(unit_of(score), (group, score))
        is_mixed = len(self._examples) > 1
        self._range = (0.0, math.inf) if is_mixed else range_of(first)
        return self._examples if is_mixed else None
