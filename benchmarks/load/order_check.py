"""A checker of handler runs alone, of any system: each group in order, one at a time, with nothing lost.

What faults there were, and what they allow, is the business of `tests/support/judge`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_CASES = 5


class Handled(NamedTuple):
    """One handler run that ended well. Times in seconds of one clock shared by all processes (CLOCK_MONOTONIC)."""

    group: str
    id: str
    score: float
    stamp: int
    token: int
    started: float
    ended: float
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history shows. `cases` names the first few problems."""

    messages: int
    order_violations: int
    overlaps: int
    losses: int
    inventions: int
    duplicates: int
    cases: list[str] = field(default_factory=list)

    def is_clean(self, allowed_duplicates: int = 0) -> bool:
        """No violation of any kind, and no more duplicates than the faults of the run allow."""
        wrong = self.order_violations + self.overlaps + self.losses + self.inventions
        return wrong == 0 and self.duplicates <= allowed_duplicates


def check_history(expected: Iterable[tuple[str, str]], handled: Iterable[Handled]) -> Verdict:
    """Judge a run whose messages, (group, id) each, all arrived in the order of their scores or before it began.

    Order: within a group, a message handled for the first time lies above all handled before it by (score, stamp),
    and a message handled again carries a greater token than before. Overlap: a run began before another of its group
    ended. Linear but for sorting each group by start.
    """
    cases: list[str] = []
    counts = {"order": 0, "overlap": 0, "duplicate": 0}

    def note(kind: str, text: str) -> None:
        counts[kind] += 1
        if kind != "duplicate" and len(cases) < MAX_CASES:
            cases.append(text)

    by_group: defaultdict[str, list[Handled]] = defaultdict(list)
    for record in handled:
        by_group[record.group].append(record)
    done: set[tuple[str, str]] = set()
    for group, records in by_group.items():
        records.sort(key=lambda record: (record.started, record.ended))
        top: tuple[float, int] | None = None
        token, ended = -1, float("-inf")
        for record in records:
            key = (record.score, record.stamp)
            if record.started < ended:
                note(
                    "overlap",
                    f"group {group}: {record.id} began {ended - record.started:.6f} s before another run ended",
                )
            if record.token < token:
                note("order", f"group {group}: {record.id} was handled with token {record.token} after {token}")
            if (group, record.id) in done:
                note("duplicate", "")
            elif top is not None and key <= top:
                note("order", f"group {group}: {record.id} at {key} was handled after {top}")
            done.add((group, record.id))
            top = key if top is None else max(top, key)
            token, ended = max(token, record.token), max(ended, record.ended)
    wanted = set(expected)
    losses, inventions = wanted - done, done - wanted
    cases += [f"lost: group {group}, id {message_id}" for group, message_id in sorted(losses)[:MAX_CASES]]
    cases += [f"never appended: group {group}, id {message_id}" for group, message_id in sorted(inventions)[:MAX_CASES]]
    return Verdict(
        messages=len(wanted),
        order_violations=counts["order"],
        overlaps=counts["overlap"],
        losses=len(losses),
        inventions=len(inventions),
        duplicates=counts["duplicate"],
        cases=cases,
    )
