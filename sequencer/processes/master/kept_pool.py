"""A pool of `sequencer run`: it is never given up, changes its size, and ends consumers that hang.

Not here: when to change the size (`scaling.py`), and new code or a new file (`reloading_pool.py`).
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...texts.events import Event
from ...texts.words import many
from ...values.views import QueueSnapshot
from .. import service_events
from ..consumer_process import ConsumerProcess
from ..handlers.exec import REDIS_VARIABLE
from ..pool import Pool
from ..restart_policy import RestartPolicy
from ..workers import STANDING_RETRY_S, Worker
from . import scaling
from .application import CheckProcess
from .plan import PoolPlan
from .sizing import Sizing

AGE_SPREAD = 0.1
"""A consumer's `max_age` is longer or shorter by up to this part, so that not all of them go at once."""
LACKS_S, LACKS_AGAIN_S = 10.0, 3600.0
"""A missing consumer is logged after the first, and again after each of the second."""


class KeptPool(Pool):
    """The consumers of one queue of the file. `room`: how many processes this host may have more."""

    def __init__(
        self,
        plan: PoolPlan,
        room: Callable[[], int],
        *,
        policy: RestartPolicy | None = None,
        forward: Callable[[Event], bool] | None = None,
    ) -> None:
        self._policy = policy or RestartPolicy()
        super().__init__(plan.config, 0, policy=self._policy, forward=forward)
        self.plan, self._room = plan, room
        self._sizing = Sizing(plan)
        self._down_since: float | None = None
        self._checks = CheckProcess(plan, self._reports.write_fd)
        self._lacks_since: float | None = None
        self._lack_logged_at = -math.inf

    def open(self, lock_fd: int) -> None:
        super().open(lock_fd)
        for _ in range(min(self.plan.n, self._room())):
            self._workers.add()

    # -- what the master asks -----------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return bool(self._stage) and super().is_done

    @property
    def is_down(self) -> bool:
        """Whether no consumer gets to work."""
        return self._down_since is not None

    @property
    def down_s(self) -> float:
        """For how long no consumer gets to work; 0: they do."""
        since = self._down_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def check_says(self) -> str | None:
        """What the queue's own check said last, if it has one."""
        return self._checks.says

    @property
    def size(self) -> int:
        """Consumers that run or are about to, those too that were told to leave."""
        return len(self._workers)

    @property
    def is_ready(self) -> bool:
        """Whether each consumer is connected, or can't be."""
        return self.is_down or all(process.is_connected for _, process in self._workers.running)

    @property
    def is_replacing(self) -> bool:
        """Whether consumers are being replaced, so that their number says nothing."""
        return False

    @property
    def stage(self) -> int:
        """Of a stop; 0: none."""
        return self._stage

    @property
    def running(self) -> list[tuple[Worker, ConsumerProcess]]:
        """The consumers that run, each with its place."""
        return self._workers.running

    @property
    def state(self) -> str:
        """In a word."""
        if self._stage:
            return "stopping"
        if self.is_down:
            return "down"
        if self.is_replacing:
            return "reloading"
        running = self._workers.running
        return "starting" if running and not any(one.is_connected for _, one in running) else "running"

    @property
    def handled(self) -> int:
        """Messages handled by all its consumers so far, those that ended too."""
        return self.totals.handled + sum(process.counts.get("handled", 0) for _, process in self._workers.running)

    # -- starting, and the end of old ones ------------------------------------------------------------------------

    def _start(self, worker: Worker) -> ConsumerProcess:
        plan = self._plan_of(worker)
        config = self._with_descriptors(plan.config)
        if config.max_age is not None:
            config = replace(config, max_age=config.max_age * random.uniform(1 - AGE_SPREAD, 1 + AGE_SPREAD))
        redis = plan.env.get(REDIS_VARIABLE, config.url) or os.environ.get(REDIS_VARIABLE)
        process = ConsumerProcess(config, self.WORKER, env={**plan.env, REDIS_VARIABLE: redis}, cwd=plan.cwd)
        if config.max_age is not None and plan.hang_after_s is not None:
            process.longest_s = config.max_age + plan.hang_after_s
        return process

    def _plan_of(self, _worker: Worker) -> PoolPlan:
        """What the next consumer of a place is to do."""
        return self.plan

    def _on_tick(self) -> None:
        super()._on_tick()
        now = time.monotonic()
        for _, process in self._workers.running:
            self._end_overdue(process, now)
        self._look_whether_back(now)
        if self._stage:
            self._checks.close()
            return
        self._checks.tick(now)
        self._workers.remove_done()

    def close(self) -> None:
        self._checks.close()
        super().close()

    def _times(self, now: float) -> list[float]:
        return [*super()._times(now), *(self._overdue_at(process) for _, process in self.running)]

    def _overdue_at(self, process: ConsumerProcess) -> float:
        """When its age is to be acted on next."""
        if process.is_killed or process.ended_at is not None:
            return math.inf
        if process.released_at is not None:
            return process.released_at + self.plan.config.lease
        return process.works_from + process.longest_s

    def _end_overdue(self, process: ConsumerProcess, now: float) -> None:
        if now < self._overdue_at(process):
            return
        lease_s = self.plan.config.lease
        if process.released_at is not None:
            self._kill(process, f"it is too old, was told to end {lease_s:g} s ago, and goes on")
            return
        process.released_at = now
        lived_s, begun = now - process.started_at, process.begun
        self.emit(
            service_events.consumer_overdue(
                self.queue, pid=process.pid, lived_s=lived_s, begun=begun, kill_in_s=lease_s
            )
        )
        process.end_hung()

    # -- down, and back -----------------------------------------------------------------------------------------

    def _after_final_end(self, worker: Worker, process: ConsumerProcess, returncode: int) -> None:
        if self._stage:
            worker.is_done = True
            return
        self.totals.died += 1
        self._after_death(worker, process, returncode, is_final=True)

    def _give_up(self, worker: Worker) -> None:
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
            deaths, why = worker.startup_deaths, worker.why
            self.emit(service_events.pool_down(self.queue, deaths=deaths, why=why, retry_in_s=STANDING_RETRY_S))
        for other in self._workers.empty:
            other.start_at = math.inf
        worker.start_at = now + STANDING_RETRY_S

    def _look_whether_back(self, now: float) -> None:
        if self._down_since is None:
            return
        works = [one for _, one in self._workers.running if self._has_lived(one, now)]
        if works:
            self.emit(service_events.pool_back(self.queue, lasted_s=now - self._down_since))
            self._down_since = None
            self._try_all()

    def _has_lived(self, process: ConsumerProcess, now: float) -> bool:
        lived_s = now - process.started_at
        return process.is_connected and not self._policy.is_startup_death(lived_s, has_begun=process.has_begun)

    def _try_all(self) -> None:
        """Each empty place gets a consumer now."""
        for worker in self._workers.empty:
            worker.free()

    # -- size ---------------------------------------------------------------------------------------------------

    def scale(self, snapshot: QueueSnapshot | None, now: float, cpu: float) -> None:
        """Start consumers, or let one leave, as the look at the queue says; None: the server is away."""
        self._sizing.measure(self.running, now)
        if self._stage or snapshot is None:
            return
        is_frozen = snapshot.is_paused or snapshot.has_outage or self.is_replacing or self._are_dying
        change = self._sizing.change(
            list(self._workers), snapshot, now, cpu=cpu, room=self._room(), is_frozen=is_frozen
        )
        if change:
            self._change(change, snapshot)

    def lacks(self, snapshot: QueueSnapshot | None) -> bool:
        """Whether it has fewer consumers than `n`, or none for what waits."""
        if self._stage:
            return False
        return self._staying < self.plan.n or (not self._staying and snapshot is not None and snapshot.due > 0)

    def note_lack(self, lacks: bool, now: float, most: int) -> None:
        """Log it after a while, then each hour. `most`: the limit of processes that is reached."""
        if not lacks:
            self._lacks_since = None
            return
        self._lacks_since = self._lacks_since or now
        if now - self._lacks_since >= LACKS_S and now - self._lack_logged_at >= LACKS_AGAIN_S:
            self._lack_logged_at = now
            wanted = max(self.plan.n, 1)
            self.emit(service_events.no_room(self.queue, consumers=self._staying, wanted=wanted, most=most))

    def spare(self, now: float) -> int:
        """How many consumers it can give up for a queue that lacks one, asked while none leaves: those above `n`, once
        all are at work.
        """
        if self._stage or self.is_replacing:
            return 0
        processes = [worker.process for worker in self._workers]
        are_settled = all(one and one.is_connected and now - one.started_at >= scaling.REST_S for one in processes)
        return max(0, len(processes) - self.plan.n) if are_settled else 0

    def give_up_one(self, queue: str) -> None:
        """Let one leave, to make room for that queue."""
        before = self._staying
        self._let_youngest_leave()
        why = f"making room for {queue}, as max_processes is reached"
        self.emit(service_events.pool_scaled(self.queue, before=before, now=before - 1, why=why))

    @property
    def _staying(self) -> int:
        return sum(not worker.is_leaving for worker in self._workers)

    @property
    def busy(self) -> float:
        """How many consumers' time was spent in handlers lately."""
        return self._sizing.busy

    @property
    def _are_dying(self) -> bool:
        return self.is_down or any(worker.fast_deaths or worker.startup_deaths for worker in self._workers)

    def _change(self, change: int, snapshot: QueueSnapshot) -> None:
        before = self._staying
        for _ in range(change):
            self._workers.add()
        if change > 0:
            why = f"{many(snapshot.due, 'group')} wait{'s' if snapshot.due == 1 else ''}, the first for {snapshot.waits_s:.1f} s"
        else:
            why = "they have little to do" if before <= self.plan.most else "there are more than the file says"
            self._let_youngest_leave()
        self.emit(service_events.pool_scaled(self.queue, before=before, now=before + change, why=why))

    def _let_youngest_leave(self) -> None:
        staying = [(worker, process) for worker, process in self._workers.running if not worker.is_leaving]
        if self._workers.empty:
            self._workers.empty[-1].is_done = True
        elif staying:
            self._leave(*max(staying, key=lambda one: one[1].started_at))

    @staticmethod
    def _leave(worker: Worker, process: ConsumerProcess) -> None:
        worker.is_leaving = True
        process.send_stage(1)

    # -- reports ------------------------------------------------------------------------------------------------

    def _take_report(self, report: dict[str, Any], by_pid: dict[int, tuple[Worker, ConsumerProcess]]) -> None:
        if not self._checks.take_report(report, self.emit, time.monotonic()):
            super()._take_report(report, by_pid)
