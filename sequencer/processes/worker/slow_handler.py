"""Emits an event for a handler that runs long: while it runs, and when a stop waits for it. Checked once a second."""

from __future__ import annotations

from ...consume.stop import Stop
from ...consume.threads import Consumer

LONG_S = 60.0
"""The event comes when a handler has run for this time, and again each time that its time has doubled."""
STOPPING_S = 5.0
"""The same while a stop waits for it, from the beginning of the stop on."""


class SlowHandlerMonitor:
    """The handler in progress of one consumer."""

    def __init__(self, consumer: Consumer, stop: Stop) -> None:
        self._consumer, self._stop = consumer, stop
        self._since: float | None = None
        self._next_s = LONG_S
        """How long it has run, or been waited for, at the next event."""
        self._is_stopping = False

    def on_tick(self, now: float) -> None:
        """Emit what is due at `now`, by `time.monotonic`."""
        running, stopped_at = self._consumer.running, self._stop.at
        since, is_stopping = running[1] if running else None, stopped_at is not None
        if (since, is_stopping) != (self._since, self._is_stopping):
            self._since, self._is_stopping = since, is_stopping
            self._next_s = STOPPING_S if is_stopping else LONG_S
        if running is None:
            return
        message, began = running
        waited_s = now - (began if stopped_at is None else max(began, stopped_at))
        if waited_s >= self._next_s:
            self._next_s = max(self._next_s, 2 * waited_s)
            fields = {"runs_s": round(now - began, 1), "is_stopping": is_stopping}
            self._consumer.events.emit("handler slow", message, **fields)
