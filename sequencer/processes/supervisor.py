"""The parent of n consumer processes: starts them, replaces one that died, recycles, and stops them in stages.

Each consumer is a fresh interpreter (never a fork of this one) in a session of its own, so a terminal's Ctrl-C reaches
the supervisor alone, which decides what it means:

    signal 1   take nothing new; what runs is finished and acknowledged, the rest released
    signal 2   release and stop now, in the middle of a handler if need be; `grace_s` after signal 1 by itself
    signal 3   kill; groups then wait for their leases to end

The stage goes to a consumer by its control pipe, which nothing else can write to: a signal that reaches consumers
too, as systemd's may, never means more than stage 1. If the supervisor itself dies, its consumers see that pipe end,
and stop.

Signal handlers only count requests; the loop acts. What goes wrong in the loop is logged, and the consumers go on.
"""

from __future__ import annotations

import logging
import os
import random
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..consume.emitter import EventEmitter
from ..settings.events import Event
from . import service_events
from .consumer_process import ConsumerProcess, Reports, Totals, reap_orphans
from .handlers.printing import end_torn_line, lock_file, mark_torn_line
from .incidents import Incidents
from .logs import report_lost_lines
from .places import STANDING_RETRY_S, Place, Places
from .restart_policy import RestartPolicy
from .signals import SignalPipe, ending_text
from .silence import Silence
from .worker.config import WorkerConfig
from .worker.run import DRAINED, EXIT_BY_ENDING, GAVE_UP, OUTPUT_CLOSED, PLANNED

log = logging.getLogger("sequencer.supervisor")

EXIT_TIMEOUT_S = 10.0
"""How long a consumer may take to exit after it has ended its work, where no grace was named."""
MIN_EXIT_TIMEOUT_S = 2.0
"""How long it may take in any case: at its exit an application sends its last reports (Sentry)."""
MAX_FAILED_ROUNDS = 100
"""Rounds of the loop that fail one after the other until the supervisor leaves its consumers, which then stop."""


class Supervisor:
    """Keeps `processes` consumers running until they are drained, stopped, or none of them gets to work."""

    WORKER = "sequencer.processes.worker.run"

    def __init__(
        self,
        config: WorkerConfig,
        processes: int,
        *,
        policy: RestartPolicy | None = None,
        forward: Callable[[Event], bool] | None = None,
    ) -> None:
        self.totals = Totals()
        self._queue, self._config = config.queue, config
        self._emitter = EventEmitter(config.queue, log=log, forward=forward)
        self._places = Places(processes, policy or RestartPolicy())
        self._stage, self._stage_at = 0, 0.0
        self._status: int | None = None
        self._signals, self._reports, self._incidents = SignalPipe(), Reports(), Incidents(config.queue, self._emit)
        self._ready, self._connected, self._failed_rounds = threading.Event(), set[int](), 0
        self._silence = Silence(None if config.handler_timeout is None else config.lease)

    def stop(self) -> None:
        """Ask for the next stage of stopping. Safe in a signal handler or any thread."""
        self._signals.request_stop()

    @property
    def pids(self) -> list[int]:
        """The processes of the consumers that run now."""
        return [process.pid for _, process in self._places.running]

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait, in another thread, until every first consumer is connected."""
        return self._ready.wait(timeout_s)

    def run(self) -> int:
        """Supervise to the end. Returns 0, 1 when it gave up, 2 or 3 when consumers can't work at all."""
        began, lock = time.monotonic(), lock_file()
        is_printing = not (self._config.app or self._config.runs_commands)
        self._config = replace(self._config, lock_fd=lock, report_fd=self._reports.write_fd)
        try:
            if is_printing:
                mark_torn_line(1, lock)
            with self._signals.handlers(), selectors.DefaultSelector() as selector:
                for fd in (self._signals.read_fd, self._reports.read_fd):
                    selector.register(fd, selectors.EVENT_READ)
                while not self._places.are_done and self._failed_rounds < MAX_FAILED_ROUNDS:
                    self._run_round_safely(selector)
        finally:
            for _, process in self._places.running:  # only after failed rounds: they stop by themselves
                process.close_control()
            self._incidents.tick(0.0, is_last=True)
            self._emitter.close()
            if is_printing:
                end_torn_line(1, lock)
            self._reports.close()
            self._signals.close()
            os.close(lock)
        self.totals.seconds = time.monotonic() - began
        return GAVE_UP if self._failed_rounds >= MAX_FAILED_ROUNDS else self._status or 0

    def _run_round_safely(self, selector: selectors.BaseSelector) -> None:
        try:
            self._run_round(selector)
            self._failed_rounds = 0
        except Exception as error:
            self._failed_rounds += 1
            if self._failed_rounds in (1, MAX_FAILED_ROUNDS):
                self._emit(service_events.supervisor_trouble(self._queue, error, what="supervising"))
            time.sleep(min(0.01 * self._failed_rounds, 0.5))

    def _run_round(self, selector: selectors.BaseSelector) -> None:
        self._start_due()
        selector.select(self._next_wait_s())
        for _ in range(self._signals.take_requests()):
            self._next_stage()
        self._read_reports()
        self._reap()
        self._on_tick()

    def _next_wait_s(self) -> float:
        # SIGCHLD wakes the loop in the main thread; in another thread a short wait has to do.
        now, longest = time.monotonic(), 5.0 if threading.current_thread() is threading.main_thread() else 0.02
        times = [place.start_at for place in self._places.empty]
        ended = [process.ended_at for _, process in self._places.running if not process.is_killed]
        times += [at + self._exit_timeout_s for at in ended if at is not None]
        if self._stage == 1 and self._config.grace is not None:
            times.append(self._stage_at + self._config.grace)
        waits = [longest, *[at - now for at in times], self._incidents.wait_s(now), self._silence.wait_s]
        return max(0.0, min(wait for wait in waits if wait is not None))

    @property
    def _exit_timeout_s(self) -> float:
        return EXIT_TIMEOUT_S if self._config.grace is None else max(self._config.grace, MIN_EXIT_TIMEOUT_S)

    def _emit(self, event: Event) -> None:
        with suppress(Exception):  # whatever is wrong with the log, the consumers go on
            self._emitter.emit(event)

    # -- starting ---------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        for place in self._places.due(time.monotonic()):
            try:
                place.process = ConsumerProcess(self._config, self.WORKER)
            except OSError as error:  # no more processes; a virtual environment that is being exchanged
                self._emit(service_events.consumer_cant_start(self._queue, error))
                self._start_later(place, lived_s=0.0)  # says nothing of the application: tried for ever
                continue
            self.totals.started += 1

    def _start_later(self, place: Place, *, lived_s: float) -> None:
        delay_s = self._places.start_later(place, lived_s, time.monotonic(), random.random())
        self._emit(service_events.consumer_starts_again(self._queue, retry_in_s=delay_s))

    # -- stopping ---------------------------------------------------------------------------------------------

    def _next_stage(self) -> None:
        if self._stage < 3:
            self._stage += 1
            self._stage_at = time.monotonic()
            grace_s, count = self._config.grace if self._stage == 1 else None, len(self.pids)
            self._emit(service_events.service_stopping(self._queue, self._stage, count, grace_s))
            self._send_stage()

    def _send_stage(self) -> None:
        for place in self._places:
            if place.process is None:
                place.is_done = True
            elif self._stage < 3:
                place.process.send_stage(self._stage)
            else:
                place.process.kill()

    def _stop_all(self, status: int) -> None:
        """No consumer can go on: stop them all, and end with this status."""
        self._status = status
        if not self._stage:
            self._stage, self._stage_at = 1, time.monotonic()
        self._send_stage()

    def _on_tick(self) -> None:
        """What time brings: the end of the grace, and of patience with one that has ended and does not exit."""
        now, grace_s, timeout_s = time.monotonic(), self._config.grace, self._exit_timeout_s
        if self._stage == 1 and grace_s is not None and now >= self._stage_at + grace_s:
            self._next_stage()
        for _, process in self._places.running:
            if process.ended_at is not None and now >= process.ended_at + timeout_s and not process.is_killed:
                why = f"it ended its work {timeout_s:g} s ago and does not exit"
                self._kill(process, f"{why} (threads: {', '.join(process.threads) or 'none'})")
        for process in self._silence.tick([process for _, process in self._places.running], now):
            self._kill(process, self._silence.reason)
        self._incidents.tick(now)
        self._emitter.tick()
        report_lost_lines()

    def _kill(self, process: ConsumerProcess, why: str) -> None:
        self._emit(service_events.consumer_killed(self._queue, pid=process.pid, why=why, in_hand=process.in_hand))
        process.kill()

    # -- ends of consumers ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for place, process in self._places.running:
            if (returncode := process.returncode) is None:
                continue
            self._read_reports()  # what it had to say comes before its end
            place.process = None
            process.clean_up()
            self._incidents.forget(process.pid)
            self.totals.add(process.counts)
            self.totals.unreported += process.has_begun and process.status is None
            self._after_end(place, process, returncode)
        if os.getpid() == 1:
            reap_orphans(self.pids)

    def _after_end(self, place: Place, process: ConsumerProcess, returncode: int) -> None:
        """What follows from the end of a consumer.

        Its status is what it announced; a `returncode` without that is the doing of others: a signal, or os._exit in
        a handler.
        """
        status = process.status
        if status in EXIT_BY_ENDING:
            place.is_done = True
            if status == OUTPUT_CLOSED and self._status is None:
                self._emit(service_events.output_closed(self._queue))
            self._stop_all(EXIT_BY_ENDING[status])
        elif self._stage or status == DRAINED:
            place.is_done = True
        elif status in PLANNED:
            place.free()
        else:
            self._after_death(place, process, returncode)
        self.totals.killed += process.is_killed
        if status not in (*PLANNED, *EXIT_BY_ENDING) and not process.is_killed:
            self.totals.died += 1

    def _after_death(self, place: Place, process: ConsumerProcess, returncode: int) -> None:
        now = time.monotonic()
        lived_s, in_hand, why = now - process.started_at, process.in_hand, ending_text(returncode)
        self._emit(
            service_events.consumer_died(self._queue, pid=process.pid, ended_by=why, lived_s=lived_s, in_hand=in_hand)
        )
        match self._places.after_death(place, lived_s, has_begun=process.has_begun):
            case "restart":
                self._start_later(place, lived_s=lived_s)
            case "stand":
                place.start_at = now + STANDING_RETRY_S
                deaths, left = place.startup_deaths, len(self.pids)
                self._emit(
                    service_events.place_stands(self._queue, deaths=deaths, consumers=left, retry_in_s=STANDING_RETRY_S)
                )
            case "give up":
                self._emit(service_events.service_gives_up(self._queue, deaths=place.startup_deaths))
                place.is_done = True
                self._stop_all(GAVE_UP)

    # -- reports ----------------------------------------------------------------------------------------------

    def _read_reports(self) -> None:
        by_pid = {process.pid: (place, process) for place, process in self._places.running}
        for report in self._reports.read():
            with suppress(KeyError, TypeError):  # an application wrote something of that shape: the others count
                self._take_report(report, by_pid)
        if len(self._connected) >= len(self._places):
            self._ready.set()

    def _take_report(self, report: dict[str, Any], by_pid: dict[int, tuple[Place, ConsumerProcess]]) -> None:
        self._incidents.add_report(report, time.monotonic())
        if report["event"] == "frozen" and report["holder"] in by_pid:
            self._kill(by_pid[report["holder"]][1], "it stands still and holds the output, for which others wait")
        if report["pid"] in by_pid:
            place, process = by_pid[report["pid"]]
            process.apply_report(report)
            self._silence.heard(process.pid)
            if report["event"] == "stuck" and not process.is_killed:
                self._kill(process, "its handler ignored the end of its time (--handler-timeout)")
            if process.has_begun:
                place.startup_deaths = 0
            if process.is_connected:
                self._connected.add(process.pid)
