"""A pool of `sequencer run`: it is never given up, changes its size, ends consumers that hang, and replaces all of them
at a reload.

At a reload a new consumer comes first; only when it is connected an old one is asked to stop. The first new one is the
trial: where it ends before that, the code or the file is wrong, and everything stays as it was.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from ...values.pools import PoolNumbers
from ...values.views import QueueSnapshot
from ..alerts.watcher import Local
from ..consumer_process import ConsumerProcess
from ..pool import Pool
from ..workers import STANDING_RETRY_S, Worker, is_startup_death
from .application import CheckProcess
from .plan import PoolPlan
from .relay_process import RelayProcess
from .scaling import Load, PoolSnapshot, Scaler

if TYPE_CHECKING:
    from .master import Master

AGE_SPREAD = 0.1
"""A consumer's `max_age` is shorter by up to this part, so that not all of them go at once."""


class KeptPool(Pool):
    def __init__(self, plan: PoolPlan, host: Master) -> None:
        super().__init__(plan.config, 0)
        self.plan, self._host = plan, host
        self._scaler, self._load = Scaler(plan.n, plan.most, plan.wait_s), Load()
        self._checks = CheckProcess(plan, self._reports.write_fd)
        self._relay = RelayProcess(plan, self._reports.write_fd)
        self._down_since: float | None = None
        self._target: PoolPlan | None = None
        """The plan of a reload, until all consumers are of it."""
        self._successor: Worker | None = None
        """The worker of its consumer that is not connected yet."""
        self.has_kept_old = False
        """Whether the last reload failed."""

    def fill(self) -> None:
        self._workers = [Worker() for _ in range(min(self.plan.n, self._host.room()))]

    def close(self) -> None:
        self._checks.close()
        self._relay.close()
        super().close()

    # -- what the master asks -----------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return bool(self.stage) and super().is_done and self._relay.is_done

    @property
    def is_down(self) -> bool:
        return self._down_since is not None

    @property
    def local(self) -> Local:
        down_s = time.monotonic() - self._down_since if self._down_since else 0.0
        return Local(down_s, self._checks.says, self._relay.backlog)

    @property
    def numbers(self) -> PoolNumbers:
        return super().numbers._replace(outbox=self._relay.backlog)

    @property
    def size(self) -> int:
        """With those that wait to restart."""
        return len(self._workers)

    @property
    def is_ready(self) -> bool:
        return self.is_down or self.is_connected

    @property
    def is_replacing(self) -> bool:
        return self._target is not None

    @property
    def is_exchanging(self) -> bool:
        """Whether a new consumer is not connected yet, or one leaves."""
        return self._successor is not None or any(worker.is_leaving for worker in self._workers)

    def as_json(self, snapshot: QueueSnapshot | None, now: float) -> dict[str, Any]:
        """For `run --status`."""
        return {
            "queue": self.queue,
            "state": self.state,
            "n": self.plan.n,
            "max": self.plan.most,
            "processes": [_process_as_json(worker, process, now) for worker, process in self.running],
            "busy": round(self._load.busy, 2),
            "handled": self.totals.handled,
            "rate": round(self._load.rate, 2),
            "due": snapshot and snapshot.due,
            "waits_s": snapshot and round(snapshot.waits_s, 3),
            "parked": snapshot and snapshot.parked,
            "dead": snapshot and snapshot.dead,
        }

    @property
    def state(self) -> str:
        if self.stage:
            return "stopping"
        if self.is_down:
            return "down"
        if self.is_replacing:
            return "reloading"
        return "starting" if self._workers and not any(one.is_connected for _, one in self.running) else "running"

    # -- starting, and the end of old ones ------------------------------------------------------------------------

    def _start(self, worker: Worker) -> ConsumerProcess:
        plan = worker.plan = self._target if self._target and worker is self._successor else self.plan
        config = replace(plan.config, report_fd=self._reports.write_fd)
        if config.max_age_s is not None:
            config = replace(config, max_age_s=max(0.1, config.max_age_s * random.uniform(1 - AGE_SPREAD, 1.0)))
        process = ConsumerProcess(config, env=plan.variables, cwd=plan.cwd)
        if config.max_age_s is not None and plan.hang_after_s is not None:
            process.longest_s = config.max_age_s + plan.hang_after_s
        return process

    def _on_tick(self) -> None:
        super()._on_tick()
        now = time.monotonic()
        for _, process in self.running:
            self._end_overdue(process, now)
        self._check_whether_back(now)
        self._relay.tick(now, self.emit, may_start=self.is_ready and not self.stage)
        if self.stage:
            self._relay.stop()
            self._checks.close()
            return
        self._checks.tick(now)
        self._workers = [worker for worker in self._workers if not worker.is_done]
        self._replace()

    def _end_overdue(self, process: ConsumerProcess, now: float) -> None:
        is_ending = process.is_killed or process.ended_at is not None or process.released_at is not None
        if is_ending or now < process.works_from + process.longest_s:
            return
        process.released_at = now
        lived_s, lease_s = round(now - process.started_at, 1), self.plan.config.lease_s
        fields = {"consumer_pid": process.pid, "lived_s": lived_s, "kill_in_s": lease_s}
        self.emit("consumer overdue", **fields, **process.begun)
        process.end_hung()

    def _limits(self, process: ConsumerProcess) -> Iterator[tuple[float, float, str]]:
        yield from super()._limits(process)
        if process.ended_at is not None:
            return
        if process.released_at is not None:
            yield process.released_at, self.plan.config.lease_s, "overdue"
        trial = self._trial
        if trial and trial.process is process and not process.is_connected:
            yield process.started_at, process.start_timeout_s, "not connected"

    # -- down, and back -----------------------------------------------------------------------------------------

    def _after_final_end(self, worker: Worker, process: ConsumerProcess) -> None:
        if self.stage:
            worker.is_done = True
        else:
            self._after_death(worker, process)

    def _give_up(self, worker: Worker) -> None:
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
            deaths, is_final = worker.startup_deaths, worker.is_final
            self.emit("pool down", deaths=deaths, is_final=is_final, retry_in_s=STANDING_RETRY_S)
        for other in self._empty:
            other.start_at = math.inf
        worker.start_at = now + STANDING_RETRY_S

    def _check_whether_back(self, now: float) -> None:
        if self._down_since is not None and any(
            one.is_connected and not is_startup_death(now - one.started_at, has_begun=one.has_begun)
            for _, one in self.running
        ):
            self.emit("pool back", lasted_s=round(now - self._down_since, 1))
            self._down_since = None
            self._try_all()

    def _try_all(self) -> None:
        for worker in self._empty:
            worker.free()

    # -- size ---------------------------------------------------------------------------------------------------

    def scale(self, snapshot: QueueSnapshot | None, now: float, cpu: float) -> None:
        """None: the server is away."""
        self._load.measure({process.pid: process.busy_s for _, process in self.running}, self.totals.handled, now)
        if self.stage or snapshot is None:
            return
        workers = self._workers
        are_dying = self.is_down or any(worker.fast_deaths or worker.startup_deaths for worker in workers)
        seen = PoolSnapshot(
            now=now,
            due=snapshot.due,
            waits_s=snapshot.waits_s,
            processes=len(workers),
            starting=sum(worker.process is None or not worker.process.is_connected for worker in workers),
            leaving=sum(worker.is_leaving for worker in workers),
            busy=self._load.busy_now,
            is_frozen=snapshot.is_paused or snapshot.has_outage or self.is_replacing or are_dying,
            cpu=cpu,
            room=self._host.spare_room(),
        )
        if change := min(self._scaler.decide(seen), max(0, self._host.room())):
            self._change(change, snapshot)

    def _change(self, change: int, snapshot: QueueSnapshot) -> None:
        before = sum(not worker.is_leaving for worker in self._workers)
        self._workers += [Worker() for _ in range(change)]
        if change > 0:
            why: dict[str, Any] = {"why": "waiting", "due": snapshot.due, "waits_s": snapshot.waits_s}
        else:
            is_file = before > self.plan.most or self._host.spare_room() < 0
            why = {"why": "too many" if is_file else "idle"}
            staying = [(process.started_at, worker) for worker, process in self.running if not worker.is_leaving]
            if self._empty:
                self._empty[-1].is_done = True
            elif staying:
                self._leave(max(staying, key=itemgetter(0))[1])
        self.emit("pool scaled", before=before, now=before + change, **why)

    @staticmethod
    def _leave(worker: Worker) -> None:
        worker.is_leaving = True
        if worker.process is not None:
            worker.process.send_stage(1)

    # -- a reload -----------------------------------------------------------------------------------------------

    @property
    def _trial(self) -> Worker | None:
        return None if self.plan is self._target else self._successor

    @property
    def _olds(self) -> list[Worker]:
        return [one for one, _ in self.running if one.plan is not self._target and not one.is_leaving]

    def replace_all(self, plan: PoolPlan) -> None:
        """Replace each consumer by one of this plan, one by one; the first is the trial."""
        if (successor := self._successor) is not None:
            successor.is_done = successor.process is None
            self._leave(successor)
        self.has_kept_old, self._target, self._successor = False, plan, None
        if self.is_down or not self._olds:
            self._adopt(plan)
            self._try_all()

    def _replace(self) -> None:
        target, successor, olds = self._target, self._successor, self._olds
        if target is None:
            return
        if successor is None:
            if not olds:
                self._adopt(target)
                self._target = None
            elif self._host.may_exchange():
                self._successor = Worker()
                self._workers.append(self._successor)
        elif successor.process and successor.process.is_connected:
            self._adopt(target)
            if olds:
                self._leave(olds[0])
            self._successor = None

    def _adopt(self, plan: PoolPlan) -> None:
        if plan is not self.plan:
            self.plan, self._config = plan, plan.config
            self._scaler.least, self._scaler.most, self._scaler.wait_s = plan.n, plan.most, plan.wait_s
            self._checks.replace(plan)
            self._relay.replace(plan)

    def _after_end(self, worker: Worker, process: ConsumerProcess) -> None:
        if worker is not self._trial or self.stage:
            super()._after_end(worker, process)
            return
        worker.is_done = True
        self._target = self._successor = None
        self.has_kept_old = True
        self.emit("reload failed", error=ConfigurationError("first_consumer_ended", status=process.returncode))

    # -- reports ------------------------------------------------------------------------------------------------

    def _take_report(self, report: dict[str, Any], by_pid: dict[int, ConsumerProcess]) -> None:
        is_taken = self._relay.take_report(report) or self._checks.take_report(report, self.emit, time.monotonic())
        if not is_taken:
            super()._take_report(report, by_pid)


def _process_as_json(worker: Worker, process: ConsumerProcess, now: float) -> dict[str, Any]:
    state = "leaving" if worker.is_leaving else "working" if process.is_connected else "starting"
    return {
        "pid": process.pid,
        "age_s": round(now - process.started_at, 1),
        "state": state,
        "handled": process.counts.get("handled", 0),
        "in_progress": process.begun,
    }
