"""What a case is: a small function that brings something about and asserts what must hold, and its negative control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .scene import Scene

Play = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A case by name. `controls`: the name of each in controls.py, and what the problem says by which it must be
    found.
    """

    name: str
    play: Play
    controls: Mapping[str, str]


def case(cases: list[Case], **controls: str) -> Callable[[Play], Play]:
    """Adds the function to the cases of its file. Its name, and the controls', with hyphens instead of underscores."""

    def add(play: Play) -> Play:
        found = {control.replace("_", "-"): shown for control, shown in controls.items()}
        cases.append(Case(play.__name__.replace("_", "-"), play, found))
        return play

    return add
