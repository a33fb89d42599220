"""The models that are searched: sizes of the good ones, and each mutant with the check that it must fail at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..report import Scale

Search = Literal["states", "shortest", "cycles"]
"""Every state, depth first; every state, breadth first, for the shortest trace; every cycle."""
Size = Literal["small", "medium", "large"]


@dataclass(frozen=True, slots=True)
class Model:
    """One model to search: a file with its macros, and the check it must fail at, "" where it must hold."""

    name: str
    file: str = "lease.pml"
    macros: tuple[str, ...] = ()
    breaks: str = ""
    search: Search = "states"
    size: Size = "small"

    @property
    def flags(self) -> list[str]:
        return [f"-D{macro}" for macro in self.macros]


def _mutant(name: str, breaks: str, faults: int, *more: str, file: str = "lease.pml") -> Model:
    """The fewest faults with which it can fail; fewer states, and a trace without anything beside the point."""
    return Model(name, file, (f"MUTANT={name}", f"FAULTS={faults}", *more), breaks, "shortest")


STEPS = "steps.pml"


MUTANTS = (
    _mutant("ACK_WITHOUT_TOKEN", "EXCLUSIVE", 1),
    _mutant("ACK_BY_POSITION", "LOST_MESSAGE", 0),
    _mutant("RELEASE_WITHOUT_TOKEN", "EXCLUSIVE", 1),
    _mutant("RELEASE_WITHOUT_LOOK", "SCHEDULED", 0),
    _mutant("RENEW_WITHOUT_TOKEN", "WAITS_FOR_NOTHING", 1),
    _mutant("RENEW_RECREATES", "SCHEDULED", 1),
    _mutant("APPEND_WITHOUT_SCHEDULE", "SCHEDULED", 0),
    _mutant("APPEND_WITHOUT_NX", "HELD", 0),
    _mutant("APPEND_FORGETS", "ONCE", 1),
    _mutant("APPEND_WAKES_PARKED", "RESUMED", 1, "MAX_ATTEMPTS=1"),
    _mutant("TOKEN_STAYS", "TOKEN_GROWS", 0),
    _mutant("CLAIM_KEEPS_TOKEN", "TOKEN_GROWS", 1),
    _mutant("CLAIM_TAKES_OUT", "SCHEDULED", 0),
    _mutant("CLAIM_INVENTS", "INVENTED", 0),
    _mutant("HINT_IS_TRUTH", "STUCK", 1),
    _mutant("NACK_KEEPS_LEASE", "ENDED", 1),
    _mutant("TAKE_KEEPS_LEASE", "ENDED", 2),
    _mutant("NACK_BEFORE_ACK", "NEEDLESS_REPEAT", 1),
    _mutant("NACK_IGNORES_ACK", "NEEDLESS_REPEAT", 2),
    _mutant("SKIPS_FAILED", "ORDER", 1),
    _mutant("START_AFTER_CALL", "SETTLED", 1, file=STEPS),
    _mutant("NOTE_NOT_WAITED", "AHEAD", 1, file=STEPS),
    _mutant("NOTE_WITHOUT_TOKEN", "SETTLED", 1, file=STEPS),
    _mutant("NOTE_WITHOUT_SERIAL", "SETTLED", 2, file=STEPS),
    _mutant("NOTE_WITHOUT_BEFORE", "AHEAD", 1, file=STEPS),
    _mutant("ONCE_AS_AUTOMATIC", "TWICE", 1, file=STEPS),
    _mutant("ACK_OF_AN_OPEN_STEP", "UNFINISHED", 0, file=STEPS),
    _mutant("QUESTION_DROPPED", "UNFINISHED", 1, file=STEPS),
)
NAIVE = (
    Model("NAIVE_WAKE_UP", "naive.pml", (), "STUCK", "shortest"),
    Model("NAIVE_CRASH", "naive.pml", ("CRASHES=1", "MESSAGES=1"), "STUCK", "shortest"),
)


def _good(groups: int, messages: int, faults: int, size: Size, *, equal: bool = False, cycles: bool = False) -> Model:
    name = f"groups {groups}, messages {messages}, faults {faults}"
    macros: tuple[str, ...] = (f"GROUPS={groups}", f"MESSAGES={messages}", f"FAULTS={faults}")
    if equal:
        name, macros = f"{name}, equal scores", (*macros, "EQUAL_SCORES")
    return Model(
        f"{name}, cycles" if cycles else name, macros=macros, search="cycles" if cycles else "states", size=size
    )


def _steps(faults: int, size: Size, *, cycles: bool = False) -> Model:
    name = f"steps, faults {faults}"
    return Model(
        f"{name}, cycles" if cycles else name,
        STEPS,
        (f"FAULTS={faults}",),
        search="cycles" if cycles else "states",
        size=size,
    )


_SMOKE = (_good(1, 2, 2, "small"), _good(1, 2, 1, "small", cycles=True), _steps(2, "small"))
_CI = (
    _steps(4, "medium"),
    _steps(2, "small", cycles=True),
    _good(1, 3, 2, "medium"),
    _good(1, 3, 2, "medium", equal=True),
    _good(2, 3, 2, "medium"),
    _good(1, 2, 3, "medium"),
    _good(1, 2, 2, "medium", cycles=True),
)
_NIGHTLY = (
    _steps(6, "large"),
    _good(1, 3, 3, "large"),
    _good(1, 3, 3, "large", equal=True),
    _good(1, 2, 4, "large"),
    _good(1, 3, 2, "large", equal=True, cycles=True),
    _good(2, 3, 2, "large", cycles=True),
)
GOOD: dict[Scale, tuple[Model, ...]] = {"smoke": _SMOKE, "ci": _SMOKE + _CI, "nightly": _SMOKE + _CI + _NIGHTLY}
FEW = (
    "ACK_WITHOUT_TOKEN",
    "ACK_BY_POSITION",
    "RENEW_RECREATES",
    "APPEND_WAKES_PARKED",
    "CLAIM_INVENTS",
    "SKIPS_FAILED",
    "ONCE_AS_AUTOMATIC",
)
"""Of the mutants those that the smallest scale attempts; the CI run attempts all."""
_FEW = tuple(mutant for mutant in MUTANTS if mutant.name in FEW)
BROKEN: dict[Scale, tuple[Model, ...]] = {"smoke": _FEW + NAIVE, "ci": MUTANTS + NAIVE, "nightly": MUTANTS + NAIVE}
