"""What a walk is about: two versions of an app, how its steps behave, and what goes wrong how often."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from .actions import Event, Raised, Returned
from .declared import App, Step, registration_errors
from .truth import Truth

NAMES = ("charge", "points", "mail", "label")
KINDS = ("gift", "refund")
MOODS = ("well", "well", "well", "fails", "fails", "retry", "outage", "outage by hand", "dies", "mixed", "mixed", "odd")
"""How a step behaves in a walk."""
FAULTS = {
    "death": 0.01,
    "lease ends": 0.01,
    "repeat": 0.05,
    "late note": 0.06,
    "ack refused": 0.03,
    "unconfirmed": 0.05,
    "stop": 0.01,
    "deploy": 0.02,
    "reschedule": 0.008,
    "cancel": 0.004,
    "replace": 0.004,
    "look": 0.02,
    "answer": 0.04,
    "age": 0.004,
    "forget": 0.004,
    "fate": 0.002,
}
"""What may happen at each line, and how likely it is. A walk has a few of them more often, and some not at all."""


def _steps(rng: random.Random) -> tuple[Step, ...]:
    names = rng.sample(NAMES, rng.choice((1, 2, 2, 3, 3, 4)))
    steps: list[Step] = []
    for name in names:
        optional = rng.random() < 0.25
        known = [step.name for step in steps]
        after = " ".join(rng.sample(known, min(len(known), rng.choice((1, 1, 2))))) if rng.random() < 0.25 else ""
        once = rng.random() < 0.45
        order, attempts = rng.choice((1, 1, 5, 10)), rng.choice((None, None, 1, 2))
        steps.append(Step(name, order, once, after, optional, attempts, once and rng.random() < 0.4))
    return _fixed(steps)


def _fixed(steps: list[Step]) -> tuple[Step, ...]:
    """Without what would be refused at registration."""
    names = {step.name: step for step in steps}
    found = [replace(step, after=" ".join(name for name in step.before if name in names)) for step in steps]
    for place, step in enumerate(found):
        if registration_errors(found) and step.after:
            found[place] = replace(step, after="")
    return tuple(found)


def _changed(rng: random.Random, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same steps in another version: added, removed, in another order, with other options."""
    after = list(steps)
    for _ in range(rng.choice((1, 1, 2))):
        what = rng.choice(("remove", "remove", "add", "shuffle", "once", "once", "optional"))
        place = rng.randrange(len(after))
        unused = [name for name in NAMES if name not in {step.name for step in after}]
        if what == "remove" and len(after) > 1:
            del after[place]
        elif what == "add" and unused:
            after.insert(place, Step(rng.choice(unused)))
        elif what == "shuffle":
            rng.shuffle(after)
            after = [replace(step, order=1) for step in after]
        elif what == "once":
            after[place] = replace(after[place], once=not after[place].once, has_check=False)
        elif what == "optional":
            after[place] = replace(after[place], optional=not after[place].optional)
    return _fixed(after)


@dataclass
class Moods:
    """The choices of one walk that last."""

    versions: tuple[App, App]
    steps: dict[str, str]
    """Mood of each step."""
    checks: str
    """honest, raises, dies."""
    fates: dict[str, str]
    rates: dict[str, float]
    truth: Truth
    is_calm: bool = False

    @classmethod
    def chosen(cls, rng: random.Random, truth: Truth) -> Moods:
        kinds = {kind: _steps(rng) for kind in KINDS}
        first = App(
            kinds,
            on_failure=rng.choice(("park", "park", "dead", "drop")),
            on_unknown=rng.choice(("park", "dead", "drop")),
            on_unresolved=rng.choice(("park", "dead")),
            max_attempts=rng.choice((2, 3)),
        )
        later = {kind: _changed(rng, steps) if rng.random() < 0.7 else steps for kind, steps in kinds.items()}
        if rng.random() < 0.15:
            del later["refund"]
        gone = [
            s.name
            for kind, steps in kinds.items()
            for s in steps
            if s.name not in {x.name for x in later.get(kind, ())}
        ]
        second = replace(first, kinds=later, retired=frozenset(gone if rng.random() < 0.6 else ()))
        often = rng.sample(sorted(FAULTS), 5)
        rates = {
            name: rate * (rng.choice((4, 8)) if name in often else rng.choice((0, 1))) for name, rate in FAULTS.items()
        }
        if rng.random() < 0.15:  # persons at dead letters
            first, second = (replace(app, on_failure="dead", on_unresolved="dead") for app in (first, second))
            rates |= {"look": 0.15, "answer": 0.1}
        moods = {name: rng.choice(MOODS) for name in NAMES}
        checks = rng.choice(("honest", "honest", "raises", "dies"))
        fates = {"late": rng.choice(("drop", "dead")), "expired": "drop", "undecodable": "park"}
        return cls((first, second), moods, checks, fates, rates, truth)

    def call(self, rng: random.Random, step: str) -> tuple[Event, bool]:
        """How a call ends, and whether it took effect."""
        mood = "well" if self.is_calm else self.steps[step]
        if mood == "mixed":
            mood = rng.choice(("well", "fails", "retry", "outage", "outage by hand", "dies"))
        elif mood == "odd":
            mood = rng.choice(("well", "park", "set aside", "declined", "result"))
        if mood == "well":
            return Returned({"by": step, "n": rng.randrange(10**9)}), True
        if mood in ("retry", "outage by hand"):
            return Raised(mood, after=1), False
        if mood in ("park", "set aside", "declined"):
            return Raised(mood), False
        if mood == "result":
            return Raised(mood), True
        has_effect = rng.random() < 0.4
        return Raised({"fails": "error", "dies": "death"}.get(mood, mood)), has_effect

    def check(self, rng: random.Random, app: App, uid: int, step: str) -> Event:
        """What the check of a step finds."""
        if self.checks != "honest" and not self.is_calm:
            return Raised("death" if self.checks == "dies" and rng.random() < 0.7 else "error")
        return Returned({"found": step} if self.truth.effect(uid, step) else None)
