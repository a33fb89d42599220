"""What concerns all consumers is emitted once, though each reports it: a lost server, leases of dead ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GATHER_S = 1.0
"""Leases that expire within it become one event."""


class SharedReports:
    """Takes the consumers' reports, and emits an event when a condition begins and when it is over."""

    def __init__(self, emit: Callable[..., None]) -> None:
        """`emit`: takes the name of an event, and its fields."""
        self._emit = emit
        self._without_server: set[int] = set()
        self._lost_at: float | None = None
        """When the event of a lost server was emitted; None once it is back."""
        self._expired: dict[str, list[dict[str, Any]]] = {}
        """By the owner of the leases: the reports."""
        self._expired_at = 0.0

    def add_report(self, event: dict[str, Any], now: float) -> None:
        """A consumer's report; one of another kind changes nothing."""
        pid = event["pid"]
        match event["event"]:
            case "server lost":
                if self._lost_at is None:
                    self._lost_at = now
                    self._emit("server lost", error=event["error"])
                self._without_server.add(pid)
            case "server back" | "started":  # who has started is connected
                self._without_server.discard(pid)
                self._is_back(now)
            case "lease expired":
                if not self._expired:
                    self._expired_at = now
                self._expired.setdefault(event["expired_owner"], []).append(event)

    def forget(self, pid: int) -> None:
        """This consumer ended: it waits for nothing any more."""
        self._without_server.discard(pid)

    def _is_back(self, now: float) -> None:
        if not self._without_server and self._lost_at is not None:
            self._emit("server back", away_s=round(now - self._lost_at, 3))
            self._lost_at = None

    def wait_s(self, now: float) -> float | None:
        """Seconds until `tick` has something to emit; None when nothing is gathered."""
        return max(0.0, self._expired_at + GATHER_S - now) if self._expired else None

    def tick(self, now: float, *, is_last: bool = False) -> None:
        """Emit the leases that expired, once no more of them are waited for."""
        if self._expired and (is_last or now >= self._expired_at + GATHER_S):
            for owner, heads in self._expired.items():
                first = max(heads, key=lambda one: one["attempt"])
                begun = {name: first[name] for name in ("group", "id", "attempt")} if first["attempt"] else {}
                self._emit("leases expired", expired_owner=owner, groups=len(heads), **begun)
            self._expired.clear()
