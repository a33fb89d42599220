"""What all consumers report is emitted once: that the server is lost, and that it is back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..consume.emitter import ServerAway


class SharedReports:
    """Takes the consumers' reports, and emits an event when a condition begins and when it is over."""

    def __init__(self, emit: Callable[..., None]) -> None:
        """`emit`: takes the name of an event, and its fields."""
        self._emit, self._away = emit, ServerAway(emit)

    def add_report(self, report: dict[str, Any], now: float) -> None:
        """A consumer's report; one of another kind changes nothing."""
        match report["event"]:
            case "server lost":
                self._away.lost(report["error"], now, report["pid"])
            case "server back" | "started":  # who has started is connected
                self._away.back(now, report["pid"])
            case "lease expired":  # within the lines that one emitter logs in a second
                self._emit(
                    "lease expired", **{name: value for name, value in report.items() if name not in ("pid", "event")}
                )

    def forget(self, pid: int) -> None:
        """This consumer ended: it waits for nothing any more."""
        self._away.forget(pid)
