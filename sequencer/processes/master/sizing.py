"""What a pool looks like for its scaler: its places as numbers, and how busy its consumers are, by their reports."""

from __future__ import annotations

from collections.abc import Sequence

from ...values.views import QueueSnapshot
from ..consumer_process import ConsumerProcess
from ..workers import Worker
from .plan import PoolPlan
from .scaling import PoolSnapshot, Scaler

SMOOTH_S = 5.0
"""Over this time it is smoothed."""


class Sizing:
    """Of one pool."""

    def __init__(self, plan: PoolPlan) -> None:
        self._scaler = Scaler(plan.n, plan.most, plan.wait_s)
        self._handlers_s: dict[int, float] = {}
        """By process: its time in handlers, as it was when it was measured last."""
        self._measured_at: float | None = None
        self._busy = self.busy = 0.0
        """How many consumers' time was spent in handlers: between the last two measurements, and smoothed for people.
        Consumers report each second, so that the first jumps; its mean is right.
        """

    def adopt(self, plan: PoolPlan) -> None:
        """The numbers of another plan; what was seen stays."""
        self._scaler.least, self._scaler.most, self._scaler.wait_s = plan.n, plan.most, plan.wait_s

    def measure(self, running: Sequence[tuple[Worker, ConsumerProcess]], now: float) -> None:
        """How busy they were since the last time."""
        before, self._handlers_s = self._handlers_s, {process.pid: process.busy_s for _, process in running}
        span = 0.0 if self._measured_at is None else now - self._measured_at
        self._measured_at = now
        if span > 0:
            spent_s = sum(max(0.0, seconds - before.get(pid, 0.0)) for pid, seconds in self._handlers_s.items())
            self._busy = spent_s / span
            self.busy += (self._busy - self.busy) * min(1.0, span / SMOOTH_S)

    def change(
        self, workers: Sequence[Worker], snapshot: QueueSnapshot, now: float, *, cpu: float, room: int, is_frozen: bool
    ) -> int:
        """How many consumers to start, or -1: one is to leave."""
        starting = sum(worker.process is None or not worker.process.is_connected for worker in workers)
        return self._scaler.decide(
            PoolSnapshot(
                now=now,
                due=snapshot.due,
                waits_s=snapshot.waits_s,
                processes=len(workers),
                starting=starting,
                leaving=sum(worker.is_leaving for worker in workers),
                busy=self._busy,
                is_frozen=is_frozen,
                cpu=cpu,
                room=room,
            )
        )
