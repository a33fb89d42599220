"""The renewer thread of a consumer: it runs beside a handler, and never runs user code.

It renews leases, sends acks that would wait for the handler, claims ahead of its end, releases groups not begun, and
interrupts a handler that runs too long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ..errors import ServerUnavailable
from ..settings.backoff import RECONNECT
from ..settings.pace import TICK_S
from ..values.message import Message
from .emitter import ConsumerEvents
from .in_flight import InFlight
from .time_limit import TimeLimit

T = TypeVar("T")
Running = tuple[Message, float]  # the message whose handler runs now, and since when


class Renewer:
    """The lock guards what is held and the link: the thread that runs handlers uses both, too."""

    def __init__(
        self, in_flight: InFlight, events: ConsumerEvents, limit: TimeLimit, running: Callable[[], Running | None]
    ) -> None:
        self.lock = threading.Lock()
        self.on_stuck: Callable[[Message], object] | None = None
        """Called when a handler ignores the end of its time: it has to end this process."""
        self._held, self._link, self._in_flight = in_flight.held, in_flight.link, in_flight
        self._events, self._limit, self._running = events, limit, running
        self._busy, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sequencer-renewer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._busy.set()

    def rest(self) -> None:
        self._busy.clear()

    def end(self) -> None:
        self._ended.set()
        self._busy.set()
        with suppress(RuntimeError):  # interrupted before it began
            if self._thread is not None:
                self._thread.join(timeout=1.0)

    def tell_refusals(self) -> None:
        """Not under the lock: a log that takes nothing must not keep the other thread from renewing leases."""
        if refusals := self._taken(self._held.refusals):
            self._link.invalidate()
            self._events.refused(refusals)

    def tell_halted(self) -> None:
        """By the thread that runs handlers, and no other: it calls observers, with parked groups and outages."""
        self._events.halted(self._taken(self._in_flight.halted))
        self._events.outages(self._taken(self._held.outages))

    def _taken(self, some: list[T]) -> list[T]:
        """What the list holds, which is then empty."""
        if not some:
            return []
        with self.lock:
            found = some[:]
            some.clear()
        return found

    def _run(self) -> None:
        pause_s = min(RECONNECT.base_s, self._held.lease_s / 20)
        while self._busy.wait() and not self._ended.is_set():
            time.sleep(TICK_S)  # an Event's wait costs five times as much
            if self._ended.is_set():
                return
            stuck = self._running() if self._limit.check(time.monotonic()) else None
            try:
                self._check(stuck)
            except ServerUnavailable as error:
                self._events.unreachable(error)
                self._ended.wait(pause_s)
            except Exception as error:
                self._events.emit("renewal failed", error=error)
                self._ended.wait(pause_s)
            if stuck:
                self._tell_stuck(*stuck)

    def _check(self, stuck: Running | None) -> None:
        with self.lock:
            if stuck:
                self._held.stuck_since = stuck[1]
            is_sending = self._held.has_due(time.monotonic())
            link = self._link
            may_check, link.may_check = link.may_check, False  # a lease is renewed whatever a check would show
            try:
                with self._in_flight.in_one_piece():
                    self._in_flight.on_tick(time.monotonic())
            finally:
                link.may_check = may_check
        if is_sending:
            self._events.reached()
        self.tell_refusals()

    def _tell_stuck(self, message: Message, since: float) -> None:
        """Once its lease was renewed for the last time: that this process ends must count as an attempt."""
        runs_s, is_killed = round(time.monotonic() - since, 1), self.on_stuck is not None
        self._events.emit("handler stuck", message, runs_s=runs_s, is_killed=is_killed)
        if self.on_stuck is not None:
            self.on_stuck(message)
