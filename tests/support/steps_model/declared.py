"""What a program declares: its steps, and what it wants done with a message that can't be finished. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_STEPS = 64


@dataclass(frozen=True)
class Step:
    """One named part of what is done with a message, as `@seq.step` declares it."""

    name: str
    order: int = 1
    once: bool = False
    after: str = ""
    """Names, with blanks between them."""
    optional: bool = False
    attempts: int | None = None
    """None for the limit of the app, or 1 if the step is optional."""
    has_check: bool = False

    @property
    def before(self) -> list[str]:
        """The steps that it comes after."""
        return self.after.split()


@dataclass(frozen=True)
class App:
    """One version of a program, with its policies."""

    kinds: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    """The steps of each kind of message, as they were registered."""
    retired: frozenset[str] = frozenset()
    max_attempts: int = 3
    on_failure: str = "park"
    """park, dead or drop; the next two likewise."""
    on_unknown: str = "park"
    on_unresolved: str = "park"
    """park or dead."""

    def steps(self, kind: str) -> tuple[Step, ...]:
        """The steps of a kind in the order in which a pass looks at them."""
        return tuple(sorted(self.kinds.get(kind, ()), key=lambda step: step.order))

    def limit(self, step: Step) -> int:
        """How often a step may be tried until it is given up."""
        if step.attempts is not None:
            return step.attempts
        return 1 if step.optional else self.max_attempts


def registration_errors(steps: Sequence[Step]) -> list[str]:
    """What is wrong with a list of steps of one kind, a sentence each; an app is refused with the first of them."""
    found = [f"there are two steps {name}" for name, count in Counter(step.name for step in steps).items() if count > 1]
    if len(steps) > MOST_STEPS:
        found.append(f"there are {len(steps)} steps, and at most {MOST_STEPS} are allowed")
    by_name = {step.name: step for step in steps}
    for step in steps:
        for name in step.before:
            before = by_name.get(name)
            if before is None:
                found.append(f"step {step.name} is after {name}, which is no step")
            elif before.optional and not step.optional:
                found.append(f"step {step.name} is required and comes after {name}, which is optional")
        if _leads_to_itself(step, by_name):
            found.append(f"step {step.name} comes after itself")
    return found


def _leads_to_itself(step: Step, by_name: Mapping[str, Step]) -> bool:
    reached, todo = set[str](), step.before
    while todo:
        if (name := todo.pop()) in by_name and name not in reached:
            reached.add(name)
            todo += by_name[name].before
    return step.name in reached
