"""What concerns all consumers is emitted once, though each reports it: a lost server, leases of dead ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..drain import consumer_events
from ..texts.events import Event
from . import service_events

GATHER_S = 1.0
"""Leases that expire within it become one event."""


class SharedReports:
    """Takes the consumers' reports, and emits an event when a condition begins and when it is over."""

    def __init__(self, queue: str, emit: Callable[[Event], None]) -> None:
        self._queue, self._emit = queue, emit
        self._without_server: set[int] = set()
        self._lost_at: float | None = None
        """When the event of a lost server was emitted; None once it is back."""
        self._blocked: set[int] = set()
        """Consumers that can't print, since nobody reads."""
        self._expired: dict[str, list[tuple[int, str]]] = {}
        """By the owner of the leases: the attempts and the name of each group's first message."""
        self._expired_at = 0.0

    def add_report(self, event: dict[str, Any], now: float) -> None:
        """A consumer's report; one of another kind changes nothing."""
        pid = event["pid"]
        match event["event"]:
            case "server lost":
                if self._lost_at is None:
                    self._lost_at = now
                    self._emit(consumer_events.server_lost(self._queue, event["error"]))
                self._without_server.add(pid)
            case "server back" | "started":  # who has started is connected
                self._without_server.discard(pid)
                self._is_back(now)
            case "lease expired":
                if not self._expired:
                    self._expired_at = now
                one = event["attempt"], consumer_events.name_of(tuple(event["group"]), event["id"])
                self._expired.setdefault(event["expired_owner"], []).append(one)
            case "output blocked":
                if not self._blocked:
                    self._emit(service_events.output_blocked(self._queue))
                self._blocked.add(pid)
            case "output read":
                self._blocked.discard(pid)

    def forget(self, pid: int) -> None:
        """This consumer ended: it waits for nothing any more."""
        self._without_server.discard(pid)
        self._blocked.discard(pid)

    def _is_back(self, now: float) -> None:
        if not self._without_server and self._lost_at is not None:
            self._emit(consumer_events.server_back(self._queue, now - self._lost_at))
            self._lost_at = None

    def wait_s(self, now: float) -> float | None:
        """Seconds until `tick` has something to emit; None when nothing is gathered."""
        return max(0.0, self._expired_at + GATHER_S - now) if self._expired else None

    def tick(self, now: float, *, is_last: bool = False) -> None:
        """Emit the leases that expired, once no more of them are waited for."""
        if self._expired and (is_last or now >= self._expired_at + GATHER_S):
            for owner, heads in self._expired.items():
                attempts, tried = max(heads, key=lambda one: one[0])
                self._emit(
                    service_events.expired_leases(
                        self._queue, owner=owner, groups=len(heads), tried=tried if attempts else "", attempts=attempts
                    )
                )
            self._expired.clear()
