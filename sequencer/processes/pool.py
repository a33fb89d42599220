"""A pool: the consumers of one queue. It starts them, replaces one that died, recycles, and stops them in stages.

Each consumer is a fresh interpreter in a session of its own, so a terminal's Ctrl-C reaches the supervisor alone, which
decides what it means:

    stage 1   take nothing new; what runs is finished and acknowledged, the rest released
    stage 2   release and stop now, in the middle of a handler if need be; `grace_s` after stage 1 by itself
    stage 3   kill; groups then wait for their leases to end

The stage goes to a consumer by its control pipe: a signal that reaches consumers too, as systemd's may, never means
more than stage 1. If the supervisor itself dies, its consumers see that pipe end, and stop.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..consume.emitter import EventEmitter, ServerAway
from ..texts.events import Event, event
from ..values.durations import RUN_BOUNDS_S
from ..values.pools import PoolNumbers
from .consumer_process import ConsumerProcess, Reports, Totals
from .worker.config import WorkerConfig
from .worker.run import DRAINED, EXIT_BY_ENDING, GAVE_UP, OUTPUT_CLOSED, PLANNED, RECYCLED
from .workers import Worker

log = logging.getLogger("sequencer.supervisor")

EXIT_TIMEOUT_S = 10.0
"""How long a consumer may take to exit after it has ended its work, where no grace was named."""
MIN_EXIT_TIMEOUT_S = 2.0
"""How long it may take in any case: at its exit an application sends its last reports (Sentry)."""
LEAST_SILENCE_S = 5.0
"""A consumer may be silent for this time in any case: it reports once a second."""
MOST_TICK_S = 2.0
"""Where there was no round for this time, the supervisor itself stood still, and no silence is to blame."""


class Pool:
    """Keeps `processes` consumers running until they are drained, stopped, or none of them gets to work."""

    def __init__(self, config: WorkerConfig, processes: int, *, forward: Callable[[Event], bool] | None = None) -> None:
        self.totals, self.recycled = Totals(), 0
        self.runs = [0.0] * (len(RUN_BOUNDS_S) + 2)
        """Of all its consumers, also those that ended."""
        self.queue, self._config = config.queue, config
        self.emitter = EventEmitter(config.queue, log=log, forward=forward)
        self._workers = [Worker() for _ in range(processes)]
        self.stage, self._stage_at = 0, 0.0
        """Of a stop; 0: none."""
        self.status: int | None = None
        """1 when it gave up, 2 or 3 when consumers can't work at all."""
        self._reports, self._away = Reports(), ServerAway(self.emit)
        self._has_torn = False
        self._ticked_at = time.monotonic()

    @property
    def read_fd(self) -> int:
        return self._reports.read_fd

    @property
    def running(self) -> list[tuple[Worker, ConsumerProcess]]:
        return [(worker, worker.process) for worker in self._workers if worker.process is not None]

    @property
    def _empty(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.process is None and not worker.is_done]

    @property
    def pids(self) -> list[int]:
        return [process.pid for _, process in self.running]

    @property
    def is_done(self) -> bool:
        return all(worker.is_done for worker in self._workers)

    @property
    def is_connected(self) -> bool:
        """Whether each consumer that there should be is."""
        return all(one.process is not None and one.process.is_connected for one in self._workers if not one.is_done)

    @property
    def is_ready(self) -> bool:
        return self.is_connected

    @property
    def is_away(self) -> bool:
        """Whether a consumer waits for the server."""
        return self._away.is_away

    @property
    def numbers(self) -> PoolNumbers:
        """For metrics, from any thread."""
        workers, totals = [one for one in self._workers if not one.is_done], self.totals
        return PoolNumbers(
            queue=self.queue,
            namespace=self._config.namespace,
            wanted=len(workers),
            consumers=Counter(map(_state_of, workers)),
            ends={"died": totals.died, "killed": totals.killed, "recycled": self.recycled},
            leases_lost=totals.lost,
            runs=self.runs,
        )

    def close(self) -> None:
        for _, process in self.running:  # only after failed rounds: they stop by themselves
            process.close_control()
        self.emitter.close()
        self._reports.close()

    def run_round(self) -> None:
        self._read_reports()
        self._reap()
        self._on_tick()
        self._start_due()

    def emit(self, name: str, **fields: Any) -> None:
        self.emitter.emit(event(name, self.queue, namespace=self._config.namespace, **fields))

    # -- starting ---------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker in self._empty:
            if worker.start_at > now:
                continue
            try:
                worker.process = self._start(worker)
            except OSError as error:  # no more processes; a virtual environment that is being exchanged
                self.emit("consumer not started", error=error)
                self._start_later(worker, lived_s=0.0)  # says nothing of the application: tried for ever
                continue
            self.totals.started += 1

    def _start(self, _worker: Worker) -> ConsumerProcess:
        has_torn, self._has_torn = self._has_torn, False
        return ConsumerProcess(replace(self._config, after_torn=has_torn, report_fd=self._reports.write_fd))

    def _start_later(self, worker: Worker, *, lived_s: float) -> None:
        delay_s = worker.start_later(lived_s, time.monotonic(), random.random())
        self.emit("consumer restarting", retry_in_s=round(delay_s, 3))

    # -- stopping ---------------------------------------------------------------------------------------------

    def next_stage(self) -> None:
        if self.stage < 3:
            self.stage += 1
            self._stage_at = time.monotonic()
            grace_s, count = self._config.grace_s if self.stage == 1 else None, len(self.pids)
            self.emit("service stopping", stage=self.stage, consumers=count, grace_s=grace_s)
            self._send_stage()

    def _send_stage(self) -> None:
        for worker in self._workers:
            if worker.process is None:
                worker.is_done = True
            elif self.stage < 3:
                worker.process.send_stage(self.stage)
            else:
                worker.process.kill()

    def _stop_all(self, status: int) -> None:
        self.status = status
        if not self.stage:
            self.stage, self._stage_at = 1, time.monotonic()
        self._send_stage()

    def _on_tick(self) -> None:
        now, grace_s = time.monotonic(), self._config.grace_s
        if self.stage == 1 and grace_s is not None and now >= self._stage_at + grace_s:
            self.next_stage()
        stood_still, self._ticked_at = now - self._ticked_at > MOST_TICK_S, now
        for worker, process in self.running:
            worker.forgive(process, now)
            process.heard_at = now if stood_still else process.heard_at
            over = [(why, after_s) for since, after_s, why in self._limits(process) if now >= since + after_s]
            if over and not process.is_killed:
                self._kill(process, *over[0])
        self.emitter.tick()

    def _limits(self, process: ConsumerProcess) -> Iterator[tuple[float, float, str]]:
        """Since when and for how long it may go on as it does, and why it is killed then."""
        grace_s = self._config.grace_s
        timeout_s = EXIT_TIMEOUT_S if grace_s is None else max(grace_s, MIN_EXIT_TIMEOUT_S)
        if process.ended_at is not None:
            yield process.ended_at, timeout_s, "not exited"
            return
        if process.stop_sent_at is not None and not process.is_connected:
            # It ends by itself, unless code in C keeps the interpreter's lock.
            yield process.stop_sent_at, timeout_s, "not stopped"
        if not process.is_loaded:
            yield process.started_at, process.start_timeout_s, "not loaded"
        if process.has_begun and process.is_limited:
            # The first of three leases has ended its right to what it has.
            yield process.heard_at, max(LEAST_SILENCE_S, 3 * self._config.lease_s), "silent"

    def _kill(self, process: ConsumerProcess, why: str, after_s: float | None) -> None:
        fields = {"consumer_pid": process.pid, "why": why, "after_s": after_s, "threads": process.threads}
        self.emit("consumer killed", **fields, **process.begun)
        process.kill()

    # -- ends of consumers ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for worker, process in self.running:
            if process.returncode is None:
                continue
            self._read_reports()  # what it had to say comes before its end
            worker.process = None
            process.clean_up()
            self._away.forget(process.pid)
            self.totals.unreported += process.has_begun and process.status is None
            self._after_end(worker, process)

    def _after_end(self, worker: Worker, process: ConsumerProcess) -> None:
        """Its status is what it announced; without one others ended it: a signal, or os._exit in a handler."""
        status = process.status
        if worker.is_leaving:
            worker.is_done = True
        elif status in EXIT_BY_ENDING:
            self._after_final_end(worker, process)
        elif self.stage or status == DRAINED:
            worker.is_done = True
        elif status in PLANNED:
            worker.free()
        else:
            self._after_death(worker, process)
        self.recycled += status == RECYCLED
        self.totals.killed += process.is_killed
        self.totals.died += status not in PLANNED and not process.is_killed

    def _after_final_end(self, worker: Worker, process: ConsumerProcess) -> None:
        assert process.status is not None
        worker.is_done = True
        if self.status is None and process.status == OUTPUT_CLOSED:
            self.emit("output closed")
        elif self.status is None:
            self.emit("service gave up", deaths=1, is_final=True)
        self._stop_all(EXIT_BY_ENDING[process.status])

    def _after_death(self, worker: Worker, process: ConsumerProcess) -> None:
        lived_s, begun = time.monotonic() - process.started_at, process.begun
        self._has_torn = self._has_torn or bool(begun)
        fields = {"consumer_pid": process.pid, "status": process.returncode, "lived_s": round(lived_s, 1)}
        self.emit("consumer died", **fields, **begun)
        is_final = process.status in EXIT_BY_ENDING
        worker.count_death(lived_s, has_begun=process.has_begun, is_loaded=process.is_loaded, is_final=is_final)
        if any(one.process is not None or not one.is_standing for one in self._workers if not one.is_done):
            self._start_later(worker, lived_s=lived_s)
        else:
            self._give_up(worker)

    def _give_up(self, worker: Worker) -> None:
        self.emit("service gave up", deaths=worker.startup_deaths, is_final=worker.is_final)
        worker.is_done = True
        self._stop_all(GAVE_UP)

    # -- reports ----------------------------------------------------------------------------------------------

    def _read_reports(self) -> None:
        by_pid = {process.pid: process for _, process in self.running}
        for report in self._reports.read():
            with suppress(KeyError, TypeError):  # an application wrote something of that shape: the others count
                self._take_report(report, by_pid)

    def _take_report(self, report: dict[str, Any], by_pid: dict[int, ConsumerProcess]) -> None:
        match report["event"]:
            case "server lost":
                self._away.lost(report["error"], report["code"], time.monotonic(), report["pid"])
            case "server back" | "started":  # who has started is connected
                self._away.back(time.monotonic(), report["pid"])
            case "lease expired":  # within the lines that one emitter logs in a second
                self.emit("lease expired", **{name: report[name] for name in report if name not in ("pid", "event")})
        if process := by_pid.get(report["pid"]):
            counts, runs = process.counts, process.runs or [0.0] * len(self.runs)
            process.apply_report(report)
            if report["event"] == "state":
                self.totals.add(process.counts, counts)
                self.runs = [sum(many) - old for *many, old in zip(self.runs, process.runs, runs, strict=True)]
            if report["event"] == "stuck" and not process.is_killed:
                self._kill(process, "stuck", None)


def _state_of(worker: Worker) -> str:
    process = worker.process
    if process is None:
        return "restarting"
    if worker.is_leaving or process.stop_sent_at is not None or process.ended_at is not None:
        return "stopping"
    return "running" if process.is_connected else "starting"
