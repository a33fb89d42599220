"""The negative control by name: each brings back what was wrong once, in the supervisor, its consumers, or both.

A few names are no controls but conditions that a case needs in these processes (`hurried`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from .settings import CONTROLS

Changes = Mapping[str, Callable[[], None]]


def by_name(*changes: Callable[[], None]) -> Changes:
    """Each under the name of its function, with hyphens."""
    return {change.__name__.replace("_", "-"): change for change in changes}


def put(where: Any, name: str, value: Any) -> None:
    """Put it there. Raises AttributeError for what is not there: a control that changes nothing is none."""
    getattr(where, name)
    setattr(where, name, value)


def apply(changes: Changes) -> None:
    """Change this process as the environment says; a name of the other kind of process changes nothing here."""
    for name in os.environ.get(CONTROLS, "").split(","):
        if name in changes:
            changes[name]()
