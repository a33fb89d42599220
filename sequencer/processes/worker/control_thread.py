"""The thread of a supervised consumer that hears from its supervisor, and reports to it. It runs no user code.

The control pipe brings a digit for each stage of stopping; HANGS in front of it: the message in progress hangs.
Stage 2 interrupts the handler: SIGUSR2 to the main thread, since only a signal ends what a handler waits for. The end
of the pipe means that the supervisor is gone: stage 1 then, stage 2 after the grace, if there is one, and an end
ORPHAN_S after that. Without a grace a handler is let finish.
A consumer that is not connected yet holds nothing: it ends at once at any stage, whatever its app does at its import.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ...consume import interruption
from ...consume.emitter import EventEmitter
from ...consume.stop import Report, Stop
from ...consume.threads import Consumer
from ...texts.events import event

TICK_S = 1.0
"""How often the state is reported, and the tick hooks called."""
ORPHAN_S = 10.0
"""Without a supervisor: how long after stage 2, or after the end of its work, a consumer may still be there."""
HANGS = b"h"
LONG_S = 60.0
"""The event comes when a handler has run for this time, and again each time that its time has doubled."""
STOPPING_S = 5.0
"""The same while a stop waits for it, from the beginning of the stop on."""


class ControlThread:
    """Started in the main thread; `consumer` is set when there is one."""

    def __init__(
        self, queue: str, control_fd: int, stop: Stop, report: Report, grace_s: float | None, end: Callable[[], object]
    ) -> None:
        """`end` ends a process whose consumer is not connected."""
        self.consumer: Consumer | None = None
        self.tick_hooks: list[Callable[[float], None]] = []
        self._emitter = EventEmitter(queue)
        self._fd, self._stop, self._report, self._grace_s, self._end = control_fd, stop, report, grace_s, end
        self._orphaned_at: float | None = None
        self._interrupted_at: float | None = None
        self.is_interrupted = False
        """Set by the main thread's signal handler once something was interrupted; until then the signal is repeated."""
        self.ended: tuple[float, int] | None = None
        """When the work ended, and the exit status."""

    def start(self) -> None:
        threading.Thread(target=self._run, name="sequencer-control", daemon=True).start()

    def begin_stop(self) -> None:
        """Stage 1, from wherever it came. Safe in a signal handler."""
        self._stop.request(1)
        if self.consumer is not None:
            self.consumer.stop()
        elif self.ended is None:
            self._end()

    @property
    def state(self) -> dict[str, Any]:
        if (one := self.consumer) is None:
            return {}
        return {"counts": one.counts, "busy_s": one.handlers_s, "runs": one.runs}

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while True:
            if self._orphaned_at is not None:
                time.sleep(0.1)
            elif poll.poll(TICK_S * 1000):
                self._read_stages(os.read(self._fd, 4096))
            now = time.monotonic()
            self.tick(now)
            if self._orphaned_at is not None:
                self._end_orphan(now)
            elif self._interrupted_at is not None and self.ended is None and not self.is_interrupted:
                interruption.send()  # the last one came just before a wait, or just before a handler, and ended nothing

    def tick(self, now: float) -> None:
        """Report the state and call the hooks. Raises no Exception: this thread has to hear of a stop."""
        try:
            if state := self.state:  # where nothing is new, too: it is a sign of life
                self._report({"event": "state", **state})
            for hook in self.tick_hooks:
                hook(now)
        except Exception as error:
            said = event("consumer error", self._emitter.queue, error=error, what="what is done each second")
            self._emitter.emit(said)

    def _read_stages(self, stages: bytes) -> None:
        if not stages:
            self._orphaned_at = time.monotonic()
            self.begin_stop()
        if HANGS in stages and self.consumer is not None:
            self.consumer.hang()
        if b"1" in stages or b"2" in stages:
            self.begin_stop()
        if b"2" in stages:
            self._interrupt()

    def _interrupt(self) -> None:
        self._stop.request(2)
        self._interrupted_at = time.monotonic()
        interruption.send()

    def _end_orphan(self, now: float) -> None:
        assert self._orphaned_at is not None
        if self.ended is not None:
            if now - self.ended[0] > (ORPHAN_S if self._grace_s is None else self._grace_s):
                os._exit(self.ended[1])
        elif self._interrupted_at is not None:
            if now - self._interrupted_at > ORPHAN_S:
                os.kill(os.getpid(), signal.SIGKILL)
        elif self._grace_s is not None and now - self._orphaned_at > self._grace_s:
            self._interrupt()


class SlowHandlerMonitor:
    """Emits an event for a handler that runs long: while it runs, and when a stop waits for it."""

    def __init__(self, consumer: Consumer, stop: Stop) -> None:
        self._consumer, self._stop = consumer, stop
        self._seen: tuple[float | None, bool] = None, False
        """When the handler began, and whether a stop waits for it."""
        self._next_s = LONG_S

    def on_tick(self, now: float) -> None:
        running, stopped_at = self._consumer.running, self._stop.at
        seen = running[1] if running else None, stopped_at is not None
        if seen != self._seen:
            self._seen, self._next_s = seen, LONG_S if stopped_at is None else STOPPING_S
        if running is None:
            return
        message, began = running
        waited_s = now - (began if stopped_at is None else max(began, stopped_at))
        if waited_s >= self._next_s:
            self._next_s = max(self._next_s, 2 * waited_s)
            fields = {"runs_s": round(now - began, 1), "is_stopping": stopped_at is not None}
            self._consumer.events.emit("handler slow", message, **fields)
