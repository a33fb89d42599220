"""What people see of messages that ended, and of what is kept of them. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Outcome = Literal["finished", "failed", "skipped", "dropped", "cancelled", "replaced"]
"""How a message ended. "failed": it is finished, but parts of it that need not succeed failed."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
Phase = Literal["pending", "running", "finished", "error"]
"""What a message is at, in one of four words."""


@dataclass(frozen=True, slots=True)
class HistoryInfo:
    """How far back the history of a queue goes."""

    window_s: float
    """How far it shall."""
    reaches_s: float
    """How far it does: less where it is younger, or its cap dropped the oldest part. Of the lane where it is least."""
    messages: int
    """How many it has, in all lanes."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` deleted."""

    history: int
    """Messages of the history that were older than its window, or above its cap."""
    dead: int
    """Dead letters that were older than `dead_window`, or above `dead_cap`."""
