"""Emits an event for a handler that runs long: while it runs, and when a stop waits for it. Checked once a second."""

from __future__ import annotations

from ...consume.stop import Stop
from ...consume.threads import Consumer

UNUSUAL_S, TIMES = 10.0, 3
"""The event comes when a handler without a time limit has run for this time, and for TIMES as long as any that this
consumer has seen end: handlers that are all slow are told of once, and not each of them.
"""
LONG_S = 60.0
"""It comes when a handler has run for this time in any case, and again each time that its time has doubled."""
STOPPING_S = 5.0
"""The same while a stop waits for it, from the beginning of the stop on."""


class SlowHandlerMonitor:
    """The handler in progress of one consumer."""

    def __init__(self, consumer: Consumer, stop: Stop, *, has_limit: bool = False) -> None:
        """`has_limit`: a time limit ends a handler that hangs, so that nobody need look after it early."""
        self._consumer, self._stop, self._has_limit = consumer, stop, has_limit
        self._since: float | None = None
        self._ran_s = self._longest_s = 0.0
        """How long the handler in progress had run when it was seen last, and the longest one of those that ended."""
        self._emitted_s = 0.0
        """How long it had run, or been waited for, at the last event."""
        self._is_stopping = False

    def on_tick(self, now: float) -> None:
        """Emit what is due at `now`, by `time.monotonic`."""
        running = self._consumer.running
        since = running[1] if running else None
        if since != self._since:
            self._since, self._emitted_s = since, 0.0
            self._longest_s, self._ran_s = max(self._longest_s, self._ran_s), 0.0
        if running is None:
            return
        message, began = running
        self._ran_s = now - began
        if self._stop.at is not None and not self._is_stopping:
            self._is_stopping, self._emitted_s = True, 0.0
        waited_s = now - (began if self._stop.at is None else max(began, self._stop.at))
        if waited_s >= self._next_s():
            self._emitted_s = waited_s
            self._consumer.events.runs_long(message, now - began, is_stopping=self._is_stopping)

    def _next_s(self) -> float:
        """The time at which the next event is due."""
        if self._is_stopping:
            return max(STOPPING_S, 2 * self._emitted_s)
        if self._emitted_s or self._has_limit:
            return max(LONG_S, 2 * self._emitted_s)
        return min(LONG_S, max(UNUSUAL_S, TIMES * self._longest_s))
