"""What all consumers report is emitted once: that the server is lost, and that it is back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SharedReports:
    """Takes the consumers' reports, and emits an event when a condition begins and when it is over."""

    def __init__(self, emit: Callable[..., None]) -> None:
        """`emit`: takes the name of an event, and its fields."""
        self._emit = emit
        self._without_server: set[int] = set()
        self._lost_at: float | None = None
        """When the event of a lost server was emitted; None once it is back."""

    def add_report(self, report: dict[str, Any], now: float) -> None:
        """A consumer's report; one of another kind changes nothing."""
        pid = report["pid"]
        match report["event"]:
            case "server lost":
                if self._lost_at is None:
                    self._lost_at = now
                    self._emit("server lost", error=report["error"])
                self._without_server.add(pid)
            case "server back" | "started":  # who has started is connected
                self._without_server.discard(pid)
                if not self._without_server and self._lost_at is not None:
                    self._emit("server back", away_s=round(now - self._lost_at, 3))
                    self._lost_at = None
            case "lease expired":  # within the lines that one emitter logs in a second
                self._emit(
                    "lease expired", **{name: value for name, value in report.items() if name not in ("pid", "event")}
                )

    def forget(self, pid: int) -> None:
        """This consumer ended: it waits for nothing any more."""
        self._without_server.discard(pid)
