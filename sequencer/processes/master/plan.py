"""What `sequencer run` is to do: the file as it was read, with every value checked. Data only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ...settings.options import OutboxOptions, PoolOptions, RunOptions
from ..alerts.settings import QueueAlerts
from ..alerts.targets import Target
from ..handlers.exec import REDIS_VARIABLE
from ..worker.config import WorkerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan(PoolOptions):
    """One queue of the file. In `env`, None leaves a variable of the master out."""

    config: WorkerConfig
    check_every_s: float = 2.0
    alerts: QueueAlerts | None = None
    outbox: OutboxOptions | None = None

    @property
    def queue(self) -> str:
        return self.config.queue

    @property
    def variables(self) -> dict[str, str | None]:
        """What its processes get beside the master's; that of the server, where one is named."""
        env = dict(self.env or {})
        url = env.pop(REDIS_VARIABLE, self.config.url)
        return {**env, REDIS_VARIABLE: url} if url else env


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan(RunOptions):
    """The whole file."""

    path: Path
    pools: tuple[PoolPlan, ...]
    targets: tuple[Target, ...] = ()

    def on(self, url: str | None) -> RunPlan:
        pools = tuple(replace(pool, config=replace(pool.config, url=url)) for pool in self.pools)
        return replace(self, redis=url, pools=pools)
