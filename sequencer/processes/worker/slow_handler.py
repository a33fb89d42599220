"""Emits an event for a handler that runs long: while it runs, and when a stop waits for it. Checked once a second."""

from __future__ import annotations

from ...consume.stop import Report, Stop
from ...consume.threads import Consumer
from ...drain import consumer_events

LONG_S = 60.0
"""The event comes when a handler has run for this time, and again each time that its time has doubled."""
STOPPING_S = 5.0
"""The same while a stop waits for it, from the beginning of the stop on."""
SEEN_S = 0.5
"""After this time a handler is reported to the supervisor, which names it if the consumer dies."""


class SlowHandlerMonitor:
    """The handler in hand of one consumer."""

    def __init__(self, consumer: Consumer, stop: Stop, report: Report) -> None:
        self._consumer, self._stop, self._report = consumer, stop, report
        self._since: float | None = None
        self._emitted_s = 0.0
        """How long it had run, or been waited for, at the last event."""
        self._is_stopping = self._is_reported = False

    def on_tick(self, now: float) -> None:
        """Emit and report what is due at `now`, by `time.monotonic`."""
        running = self._consumer.running
        since = running[1] if running else None
        if since != self._since:
            self._since, self._emitted_s = since, 0.0
            if self._is_reported:
                self._report({"event": "running", "what": ""})
                self._is_reported = False
        if running is None:
            return
        message, began = running
        if now - began >= SEEN_S and not self._is_reported:
            self._is_reported = True
            self._report({"event": "running", "what": consumer_events.message_name(message)})
        if self._stop.at is not None and not self._is_stopping:
            self._is_stopping, self._emitted_s = True, 0.0
        waited_s = now - (began if self._stop.at is None else max(began, self._stop.at))
        if waited_s >= max(STOPPING_S if self._is_stopping else LONG_S, 2 * self._emitted_s):
            self._emitted_s = waited_s
            self._consumer.events.runs_long(message, now - began, is_stopping=self._is_stopping)
