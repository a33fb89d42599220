"""What the cases of the server's own faults found, added up into one Result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys

from ...support.invariants import check_invariants
from ...support.judge.judgement import Judgement
from ..report import Result, Scale
from .host import go_on

COMMAND = "python -m tests.faults server"


@dataclass(slots=True)
class Found:
    """Filled by the cases as they run."""

    seed: int
    scale: Scale = "ci"
    case: str = ""
    runs: int = 0
    messages: int = 0
    losses: int = 0
    order_violations: int = 0
    duplicates: int = 0
    duplicates_allowed: int = 0
    recovery_s: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        self.problems.append(f"{self.case}: {text}; repeat it: {self.command}")

    @property
    def command(self) -> str:
        return f"{COMMAND} --scale {self.scale} --only {self.case} --seed {self.seed}"

    def add(self, judged: Judgement, *, may_lose: bool = False, said: str = "") -> None:
        """Count what a history shows. `may_lose`: losses are this case's figure, not a broken promise."""
        self.messages += judged.messages
        self.order_violations += judged.disorder
        self.duplicates += judged.duplicates
        self.duplicates_allowed += judged.duplicates_allowed
        self.faults.update(judged.effects)
        if judged.recovery_s is not None:
            self.recovery_s.append(judged.recovery_s)
        if not may_lose:
            self.losses += judged.losses
        is_wrong = any(not case.startswith("loss") for case in judged.cases)  # not recovered, say
        wrong = judged.disorder + judged.inventions + judged.unexplained + len(judged.missing)
        if wrong or is_wrong or (judged.losses and not may_lose):
            self.problem(f"{said} {judged.losses} lost; {' / '.join(judged.cases)}".strip())

    def check(self, link: Link, shards: list[ShardKeys], said: str) -> bool:
        """Audit these shards; whether every invariant holds. Raises Interrupted when the fault test is ended."""
        go_on()
        wrong = check_invariants(link, shards)
        if wrong:
            self.problem(f"{said}: {len(wrong)} invariants broken, first: {wrong[0]}")
        return not wrong

    def merge(self, other: Found) -> None:
        """Add what another case found."""
        for name in ("runs", "messages", "losses", "order_violations", "duplicates", "duplicates_allowed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.recovery_s += other.recovery_s
        self.faults.update(other.faults)
        self.figures |= other.figures
        self.problems += other.problems

    def result(self, command: str, seconds: float) -> Result:
        return Result(
            name="server",
            command=command,
            runs=self.runs,
            unit="server faults",
            seeds=str(self.seed),
            messages=self.messages,
            losses=self.losses,
            order_violations=self.order_violations,
            duplicates=self.duplicates,
            duplicates_allowed=self.duplicates_allowed,
            recovery_s=tuple(round(value, 3) for value in self.recovery_s),
            faults=dict(self.faults),
            figures=self.figures,
            problems=self.problems,
            seconds=seconds,
        )
