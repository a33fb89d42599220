"""A pool whose consumers can be replaced one by one, by those of new code or of a new file.

A new consumer comes first; only when it is connected the old one is told to stop. The first new one is the trial: where
it ends before that, the code or the file is wrong, and everything stays as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import service_events
from ..consumer_process import ConsumerProcess
from ..signals import ending_text
from ..workers import Worker
from .kept_pool import KeptPool
from .plan import PoolPlan


@dataclass(slots=True)
class Replacement:
    """The new plan of a pool, and how far it has come."""

    plan: PoolPlan
    olds: list[tuple[Worker, ConsumerProcess]]
    """Consumers of the old plan that are still to be replaced, each with its place."""
    successor: Worker | None = None
    """The place of the new consumer that is not connected yet."""
    is_adopted: bool = False
    """Whether a new consumer has shown that the new plan works."""

    def next_old(self) -> tuple[Worker, ConsumerProcess] | None:
        """The old consumer to be replaced next. One that ended by itself has a successor already."""
        self.olds = [(worker, old) for worker, old in self.olds if worker.process is old and not worker.is_leaving]
        return self.olds[0] if self.olds else None

    def is_connected(self) -> bool:
        """Whether the new consumer can take over."""
        process = self.successor.process if self.successor else None
        return process is not None and process.is_connected

    def has_failed(self, worker: Worker) -> bool:
        """Whether this place, whose consumer has ended, was the trial."""
        return worker is self.successor and not self.is_adopted


class ReloadingPool(KeptPool):
    """A kept pool that takes a new plan, or the same one again."""

    def __init__(self, *given: Any, is_settled: Callable[[], bool], **more: Any) -> None:
        """`is_settled`: whether no pool of this host is about to exchange a consumer."""
        super().__init__(*given, **more)
        self._is_settled = is_settled
        self._replacement: Replacement | None = None
        self.reload_error = ""
        """Why the last reload left the consumers of before."""

    @property
    def is_replacing(self) -> bool:
        """Whether old consumers are still to be replaced."""
        return self._replacement is not None

    @property
    def is_exchanging(self) -> bool:
        """Whether a new consumer is not connected yet, or one leaves."""
        has_successor = self._replacement is not None and self._replacement.successor is not None
        return has_successor or any(worker.is_leaving for worker in self._workers)

    def _plan_of(self, worker: Worker) -> PoolPlan:
        replacement = self._replacement
        return replacement.plan if replacement is not None and worker is replacement.successor else self.plan

    def _on_tick(self) -> None:
        super()._on_tick()
        if not self._stage:
            self._replace(time.monotonic())

    def replace_all(self, plan: PoolPlan) -> None:
        """Replace each consumer by one of this plan, one by one; the first is the trial."""
        olds = [(worker, process) for worker, process in self._workers.running if not worker.is_leaving]
        if self._replacement is not None and self._replacement.successor is not None:
            olds = [one for one in olds if one[0] is not self._replacement.successor]
            self._drop(self._replacement.successor)
        self.reload_error = ""
        self._replacement = Replacement(plan, olds)
        if self.is_down or not olds:
            self._adopt(plan)
            self._try_all()

    def _replace(self, now: float) -> None:
        replacement = self._replacement
        if replacement is None:
            return
        successor = replacement.successor
        if successor is None:
            if replacement.next_old() is None:
                self._replacement = None
            elif self._room() > 0 or self._is_settled():
                replacement.successor = self._workers.add()
        elif replacement.is_connected():
            self._adopt(replacement.plan)
            if (old := replacement.next_old()) is not None:
                self._leave(*old)
            replacement.successor = None
        elif not replacement.is_adopted:
            self._limit_trial(successor.process, now)

    def _limit_trial(self, process: ConsumerProcess | None, now: float) -> None:
        if process is None or process.is_killed or now - process.started_at <= process.start_timeout_s:
            return
        self._kill(process, f"it is not connected after {process.start_timeout_s:g} s (start_timeout)")

    def _adopt(self, plan: PoolPlan) -> None:
        if self._replacement is not None:
            if self._replacement.is_adopted:
                return
            self._replacement.is_adopted = True
        self.plan, self._config = plan, self._with_descriptors(plan.config)
        self._sizing.adopt(plan)
        self._checks.replace(plan)

    def _drop(self, worker: Worker) -> None:
        """Of a trial that a newer one replaces."""
        worker.is_leaving = True
        if worker.process is None:
            worker.is_done = True
        else:
            worker.process.send_stage(1)

    def _after_end(self, worker: Worker, process: ConsumerProcess, returncode: int) -> None:
        replacement = self._replacement
        if replacement is None or not replacement.has_failed(worker) or self._stage:
            super()._after_end(worker, process, returncode)
            return
        worker.is_done = True
        self._replacement = None
        why = f"the first new consumer ended before it was connected ({ending_text(returncode)})"
        self.reload_error = why
        self.emit(service_events.reload_failed(self.queue, why))
