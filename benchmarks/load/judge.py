"""What one phase of a run achieved, and whether it counts.

A figure of a phase that lost, repeated or disordered messages would reward the fault, so it counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .order_check import Handled, check_history
from .workload import Workload

FAULTS = ("order_violations", "overlaps", "losses", "inventions", "duplicates")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: how fast, and what the checker found. Rates in messages a second, None where nothing was handled."""

    name: str
    messages: int
    handled: int
    seconds: float
    rate: float | None
    append_rate: float | None
    order_violations: int
    overlaps: int
    losses: int
    inventions: int
    duplicates: int
    problem: str = ""
    cases: list[str] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        return not self.problem and not any(getattr(self, name) for name in FAULTS)

    def faults(self) -> list[str]:
        """What is wrong, in words: counts, and one case. Empty when it is valid."""
        counts = [f"{getattr(self, name)} {name.replace('_', ' ')}" for name in FAULTS if getattr(self, name)]
        case = [f"for example {self.cases[0]}"] if self.cases else []
        return [*([self.problem] if self.problem else []), *counts, *case]

    def as_json(self) -> dict[str, Any]:
        names = [name for name in self.__slots__ if name != "name"]
        return {"is_valid": self.is_valid, **{name: getattr(self, name) for name in names}}


def judge(
    name: str, workload: Workload, handled: list[Handled], began: float, append_rate: float | None, problem: str = ""
) -> Phase:
    """Judge what consumers wrote down. The clock of the rate runs from `began` to the end of the last handler."""
    numbers = workload.numbers()
    # Not the stamp that the system gave, but the order in which the producer appended: a system that gave
    # stamps in a wrong order, and then kept to them, would look fine by its own word.
    known = [record._replace(stamp=numbers.get((record.group, record.id), 0)) for record in handled]
    verdict = check_history(numbers, known)
    seconds = max((record.ended for record in handled), default=began) - began
    done = len({(record.group, record.id) for record in handled})
    return Phase(
        name=name,
        messages=verdict.messages,
        handled=done,
        seconds=seconds,
        rate=done / seconds if done and seconds > 0 else None,
        append_rate=append_rate,
        order_violations=verdict.order_violations,
        overlaps=verdict.overlaps,
        losses=verdict.losses,
        inventions=verdict.inventions,
        duplicates=verdict.duplicates,
        problem=problem,
        cases=verdict.cases,
    )
