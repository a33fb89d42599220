"""What a consumer process was told of stopping, and how it tells its supervisor. Nothing here waits.

stage 1   take nothing new; what runs is finished and acknowledged
stage 2   release and stop now, in the middle of a handler if need be
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Report = Callable[[dict[str, Any]], None]
"""Sends one event to the supervisor. Never raises; nobody may be listening."""


def ignore(_event: dict[str, Any]) -> None:
    """A Report where there is no supervisor."""


class Stop:
    """The stage of stopping that was told last, and when the first was. Signal handlers and threads may write it."""

    __slots__ = ("at", "stage")

    def __init__(self) -> None:
        self.stage = 0
        self.at: float | None = None
        """When stage 1 was told, by `time.monotonic`."""

    def note(self, stage: int) -> None:
        """This stage was told; one that was told before stays."""
        if self.at is None:
            self.at = time.monotonic()
        self.stage = max(self.stage, stage)
