"""The parent of n consumer processes: starts them, replaces one that died, recycles, and stops them in stages.

Each consumer is a fresh interpreter (never a fork of this one) in a session of its own, so a terminal's Ctrl-C reaches
the supervisor alone, which decides what it means:

    signal 1   take nothing new; what runs is finished and acknowledged, the rest released
    signal 2   release and stop now, in the middle of a handler if need be; `grace_s` after signal 1 by itself
    signal 3   kill; groups then wait for their leases to end

The stage goes to a consumer by its control pipe, which nothing else can write to: a signal that reaches consumers
too, as systemd's and a terminal's may, never means more than stage 1. If the supervisor itself dies, its consumers see
that pipe end, and stop.

Signal handlers only note; the loop acts. Whatever goes wrong in the loop is told, and the consumers go on.
"""

from __future__ import annotations

import logging
import os
import random
import selectors
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..consume.emitter import EventEmitter
from ..settings.backoff import RestartPolicy
from ..settings.events import Event
from . import service_events
from .consumer_process import ConsumerProcess, Reports, Slot, Totals, reap_strangers
from .handlers.printing import end_torn_line, lock_file, mend_torn_line
from .incidents import Incidents
from .logs import tell_losses
from .signals import SignalPipe, ending_text
from .worker.config import WorkerConfig
from .worker.run import DRAINED, ENDINGS, GAVE_UP, OUTPUT_CLOSED, PLANNED

log = logging.getLogger("sequencer.supervisor")

LINGER_S = 10.0
"""So long may a consumer take to exit after it has ended its work, where no grace was named."""
EXIT_S = 2.0
"""So long may it take in any case: at its exit an application sends its last reports (Sentry)."""
STANDING_S = 60.0
"""A place that stands is tried again so often while others work."""
TROUBLES = 100
"""Rounds of the loop that fail one after the other until the supervisor leaves its consumers, which then stop."""


class Supervisor:
    """Keeps `processes` consumers running until they are drained, told to stop, or none of them gets to work."""

    WORKER = "sequencer.processes.worker.run"

    def __init__(
        self,
        config: WorkerConfig,
        processes: int,
        *,
        policy: RestartPolicy | None = None,
        emitter: EventEmitter | None = None,
    ) -> None:
        self.totals = Totals()
        self._queue, self._config, self._policy = config.queue, config, policy or RestartPolicy()
        self._emitter = emitter or EventEmitter(config.queue, log=log)
        self._slots = [Slot() for _ in range(processes)]
        self._stage, self._stage_at = 0, 0.0
        self._status: int | None = None
        self._signals, self._reports, self._incidents = SignalPipe(), Reports(), Incidents(config.queue, self._emit)
        self._ready, self._connected, self._troubles = threading.Event(), set[int](), 0

    def stop(self) -> None:
        """The next stage of stopping. A note only: safe in a signal handler or any thread."""
        self._signals.request_stop()

    @property
    def pids(self) -> list[int]:
        """The processes of the consumers that run now."""
        return [process.pid for _, process in self._running()]

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait, in another thread, until every first consumer is connected."""
        return self._ready.wait(timeout_s)

    def run(self) -> int:
        """Supervise to the end. Returns 0, 1 when it gave up, 2 or 3 when consumers can't work at all."""
        began, lock = time.monotonic(), lock_file()
        is_printing = not (self._config.app or self._config.command)
        self._config = replace(self._config, lock_fd=lock, report_fd=self._reports.write_fd)
        try:
            if is_printing:
                mend_torn_line(1, lock)
            with self._signals.handlers(), selectors.DefaultSelector() as selector:
                for fd in (self._signals.read_fd, self._reports.read_fd):
                    selector.register(fd, selectors.EVENT_READ)
                while not all(slot.is_done for slot in self._slots) and self._troubles < TROUBLES:
                    self._turn_safely(selector)
        finally:
            for _, process in self._running():  # only after troubles: they stop by themselves
                process.leave()
            self._incidents.tick(0.0, is_last=True)
            self._emitter.close()
            if is_printing:
                end_torn_line(1, lock)
            self._reports.close()
            self._signals.close()
            os.close(lock)
        self.totals.seconds = time.monotonic() - began
        return GAVE_UP if self._troubles >= TROUBLES else self._status or 0

    def _turn_safely(self, selector: selectors.BaseSelector) -> None:
        try:
            self._turn(selector)
            self._troubles = 0
        except Exception as error:
            self._troubles += 1
            if self._troubles in (1, TROUBLES):
                self._emit(service_events.supervisor_trouble(self._queue, error, what="supervising"))
            time.sleep(min(0.01 * self._troubles, 0.5))

    def _turn(self, selector: selectors.BaseSelector) -> None:
        self._start_due()
        selector.select(self._next_wait_s())
        for _ in range(self._signals.take_requests()):
            self._next_stage()
        self._read_reports()
        self._reap()
        self._look()

    def _next_wait_s(self) -> float:
        # SIGCHLD wakes the loop in the main thread; in another thread a short look has to do.
        now, longest = time.monotonic(), 5.0 if threading.current_thread() is threading.main_thread() else 0.02
        times = [slot.start_at for slot in self._slots if slot.process is None and not slot.is_done]
        ended = [process.ended_at for _, process in self._running() if not process.is_killed]
        times += [at + self._linger_s for at in ended if at is not None]
        if self._stage == 1 and self._config.grace is not None:
            times.append(self._stage_at + self._config.grace)
        waits = [longest, *[at - now for at in times], self._incidents.wait_s(now)]
        return max(0.0, min(wait for wait in waits if wait is not None))

    @property
    def _linger_s(self) -> float:
        return LINGER_S if self._config.grace is None else max(self._config.grace, EXIT_S)

    def _running(self) -> list[tuple[Slot, ConsumerProcess]]:
        return [(slot, slot.process) for slot in self._slots if slot.process is not None]

    def _emit(self, event: Event) -> None:
        with suppress(Exception):  # whatever is wrong with the log, the consumers go on
            self._emitter.emit(event)

    # -- starting ---------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        for slot in self._slots:
            now = time.monotonic()
            if slot.process is None and not slot.is_done and slot.start_at <= now:
                try:
                    slot.process = ConsumerProcess(self._config, self.WORKER)
                except OSError as error:  # no more processes; a virtual environment that is being exchanged
                    self._emit(service_events.consumer_cant_start(self._queue, error))
                    self._start_later(slot, lived_s=0.0)  # says nothing of the application: tried for ever
                    continue
                self.totals.started += 1

    # -- stopping ---------------------------------------------------------------------------------------------

    def _next_stage(self) -> None:
        if self._stage < 3:
            self._stage += 1
            self._stage_at = time.monotonic()
            grace_s, count = self._config.grace if self._stage == 1 else None, len(self.pids)
            self._emit(service_events.service_stopping(self._queue, self._stage, count, grace_s))
            self._tell_stage()

    def _tell_stage(self) -> None:
        for slot in self._slots:
            if slot.process is None:
                slot.is_done = True
            elif self._stage < 3:
                slot.process.tell_stage(self._stage)
            else:
                slot.process.kill()

    def _end(self, status: int) -> None:
        """No consumer can go on: stop them all, and end with this status."""
        self._status = status
        if not self._stage:
            self._stage, self._stage_at = 1, time.monotonic()
        self._tell_stage()

    def _look(self) -> None:
        """What time brings: the end of the grace, and of patience with one that has ended and does not exit."""
        now, grace_s = time.monotonic(), self._config.grace
        if self._stage == 1 and grace_s is not None and now >= self._stage_at + grace_s:
            self._next_stage()
        for _, process in self._running():
            if process.ended_at is not None and now >= process.ended_at + self._linger_s and not process.is_killed:
                why = f"it ended its work {self._linger_s:g} s ago and does not exit"
                self._kill(process, f"{why} (threads: {', '.join(process.threads) or 'none'})")
        self._incidents.tick(now)
        self._emitter.tick()
        tell_losses()

    def _kill(self, process: ConsumerProcess, why: str) -> None:
        self._emit(service_events.consumer_killed(self._queue, pid=process.pid, why=why, in_hand=process.in_hand))
        process.kill()

    # -- ends of consumers ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for slot, process in self._running():
            if (returncode := process.returncode) is None:
                continue
            self._read_reports()  # what it had to say comes before its end
            slot.process = None
            process.bury()
            self._incidents.gone(process.pid)
            self.totals.add(process.counts)
            self._decide(slot, process, returncode)
        if os.getpid() == 1:
            reap_strangers(self.pids)

    def _decide(self, slot: Slot, process: ConsumerProcess, returncode: int) -> None:
        """What follows from the end of a consumer.

        Its status is what it announced; a `returncode` without that is the doing of others: a signal, or os._exit in
        a handler.
        """
        status = process.status
        if status in ENDINGS:
            slot.is_done = True
            if status == OUTPUT_CLOSED and self._status is None:
                self._emit(service_events.output_closed(self._queue))
            self._end(ENDINGS[status])
        elif self._stage or status == DRAINED:
            slot.is_done = True
        elif status in PLANNED:
            slot.start_at = 0.0
            slot.fast_deaths = slot.barren_deaths = 0
        else:
            self._replace(slot, process, returncode)
        self.totals.killed += process.is_killed
        if status not in (*PLANNED, *ENDINGS) and not process.is_killed:
            self.totals.died += 1

    def _replace(self, slot: Slot, process: ConsumerProcess, returncode: int) -> None:
        lived_s = time.monotonic() - process.started_at
        why = ending_text(returncode)
        self._emit(
            service_events.consumer_died(
                self._queue, pid=process.pid, ended_by=why, lived_s=lived_s, in_hand=process.in_hand
            )
        )
        self._after_death(slot, lived_s, has_begun=process.has_begun)

    def _after_death(self, slot: Slot, lived_s: float, *, has_begun: bool) -> None:
        policy = self._policy
        slot.barren_deaths = slot.barren_deaths + 1 if policy.is_barren(lived_s, has_begun=has_begun) else 0
        if not policy.stands(slot.barren_deaths):
            self._start_later(slot, lived_s=lived_s)
        elif any(
            other.process is not None or not policy.stands(other.barren_deaths)
            for other in self._slots
            if not other.is_done
        ):
            slot.start_at = time.monotonic() + STANDING_S
            deaths, left = slot.barren_deaths, len(self.pids)
            self._emit(service_events.place_stands(self._queue, deaths=deaths, consumers=left, retry_in_s=STANDING_S))
        else:
            self._emit(service_events.service_gives_up(self._queue, deaths=slot.barren_deaths))
            slot.is_done = True
            self._end(GAVE_UP)

    def _start_later(self, slot: Slot, *, lived_s: float) -> None:
        """The next consumer of this place: the later, the more of them died soon after their start, one by one."""
        slot.fast_deaths = self._policy.after_death(slot.fast_deaths, lived_s)
        delay_s = self._policy.delay_s(slot.fast_deaths, random.random())
        self._emit(service_events.consumer_starts_again(self._queue, retry_in_s=delay_s))
        slot.start_at = time.monotonic() + delay_s

    # -- reports ----------------------------------------------------------------------------------------------

    def _read_reports(self) -> None:
        by_pid = {process.pid: (slot, process) for slot, process in self._running()}
        for report in self._reports.read():
            with suppress(KeyError, TypeError):  # an application wrote something of that shape: the others count
                self._take_report(report, by_pid)
        if len(self._connected) >= len(self._slots):
            self._ready.set()

    def _take_report(self, report: dict[str, Any], by_pid: dict[int, tuple[Slot, ConsumerProcess]]) -> None:
        self._incidents.take(report, time.monotonic())
        if report["event"] == "frozen" and report["holder"] in by_pid:
            self._kill(by_pid[report["holder"]][1], "it stands still and holds the output, for which others wait")
        if report["pid"] in by_pid:
            slot, process = by_pid[report["pid"]]
            process.take(report)
            if process.has_begun:
                slot.barren_deaths = 0
            if process.is_connected:
                self._connected.add(process.pid)
