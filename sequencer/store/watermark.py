"""How far a group has come: the highest score handled, or for a sequence the last number and the ranges skipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SKIPPED = 16
"""Ranges of skipped numbers that a group's watermark tells apart; beyond, the oldest become one, and what was handled
between them is handled again if it comes again."""


@dataclass(frozen=True, slots=True)
class Sequenced:
    """How far a sequence has come: the highest number passed, and the ranges below it that were skipped."""

    number: int = 0
    skipped: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, mark: str) -> Sequenced:
        """From the text that the server keeps, `#57 6-6 9-12`; "" for a group of which nothing is known."""
        words = mark.removeprefix("#").split()
        ranges = (word.partition("-") for word in words[1:])
        return cls(int(words[0]) if words else 0, tuple((int(first), int(last)) for first, _, last in ranges))

    def text(self) -> str:
        return " ".join([f"#{self.number}", *[f"{first}-{last}" for first, last in self.skipped]])

    def missing_before(self, number: int) -> tuple[int, int] | None:
        """The numbers that are missing before this one: first and last."""
        return (self.number + 1, number - 1) if number > self.number + 1 else None

    def passed(self, number: int) -> Sequenced:
        """After this number was handled, dead, dropped or skipped: those missing before it count as skipped."""
        if number > self.number:
            gap = self.missing_before(number)
            return Sequenced(number, _merged([*self.skipped, gap] if gap else self.skipped))
        kept: list[tuple[int, int]] = []
        for first, last in self.skipped:
            parts = ((first, number - 1), (number + 1, last)) if first <= number <= last else ((first, last),)
            kept += [(low, high) for low, high in parts if low <= high]
        return Sequenced(self.number, _merged(kept))

    def gap_skipped(self, missing: tuple[int, int]) -> Sequenced:
        """With these numbers skipped: as if they had been passed."""
        return Sequenced(missing[1], _merged([*self.skipped, missing]))


def _merged(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """At most MAX_SKIPPED ranges: the two oldest become one, so that no number that was skipped counts as handled."""
    kept = list(ranges)
    while len(kept) > MAX_SKIPPED:
        kept[:2] = [(kept[0][0], kept[1][1])]
    return tuple(kept)


def advance(mark: str, scores: Sequence[str], redriven: Sequence[bool] = ()) -> str:
    """The watermark after messages with these scores, in order, were passed. A mark with "#" is that of a sequence.

    A redriven number has passed before, or its group was forgotten: it fills a skipped range, but never goes ahead.
    """
    if not mark.startswith("#"):
        last = scores[-1]
        return mark if mark and float(mark) > float(last) else last
    state = Sequenced.parse(mark)
    for position, score in enumerate(scores):
        if not math.isfinite(float(score)):
            continue  # no client of ours wrote it
        number = int(float(score))
        if not (redriven and redriven[position] and number > state.number):
            state = state.passed(number)
    return state.text()


def late_below(mark: str) -> float:
    """Messages with a score under this are late."""
    if mark in ("", "#"):
        return -math.inf
    return Sequenced.parse(mark).number + 1 if mark.startswith("#") else float(mark)
