"""What a fault test found, how it is shown, and the command that repeats it.

A result hides nothing: how many runs with which seeds, the faults by kind that took effect, what was lost, out of order
or handled again against the number that those faults allow, and how long it took to recover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..support.judge.judgement import Judgement

Scale = Literal["smoke", "ci", "nightly"]
"""How much: seconds in a test, a part of two minutes in CI, everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one fault test found. It passed when it was not skipped and `problems` is empty."""

    name: str
    """As in the command."""
    command: str
    """What repeats the whole of it."""
    runs: int = 0
    """Runs, seeds, or kill points passed: what `unit` says."""
    unit: str = "runs"
    seeds: str = ""
    """First and last seed, like "0..199"."""
    messages: int = 0
    losses: int = 0
    order_violations: int = 0
    """Messages out of order, handlers of one group at once, tokens going back."""
    duplicates: int = 0
    duplicates_allowed: int = 0
    """How many the faults that took effect allow."""
    recovery_s: tuple[float, ...] = ()
    """From the end of the faults until nothing was left to do, one a run."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Kind -> how often it took effect, not how often it was tried."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else was measured, in words that stand for themselves: "lost with appendfsync everysec" -> 12."""
    problems: Sequence[str] = ()
    """What is wrong, each with the command that repeats that case."""
    skipped: str = ""
    """Why nothing was done, and what to install."""
    seconds: float = 0.0

    @property
    def is_passed(self) -> bool:
        return not self.problems and not self.skipped


def totals(judged: Iterable[Judgement]) -> dict[str, Any]:
    """The fields of a result that follow from its histories."""
    some = list(judged)
    return {
        "messages": sum(one.messages for one in some),
        "losses": sum(one.losses + one.inventions for one in some),
        "order_violations": sum(one.disorder for one in some),
        "duplicates": sum(one.duplicates for one in some),
        "duplicates_allowed": sum(one.duplicates_allowed for one in some),
        "recovery_s": tuple(one.recovery_s for one in some if one.recovery_s is not None),
    }
