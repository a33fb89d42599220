"""What `sequencer run` is to do: the file as it was read, with every value checked. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..alerts.settings import QueueAlerts
from ..alerts.targets.table import Target
from ..worker.config import WorkerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One queue of the file. Times in seconds."""

    config: WorkerConfig
    """What each of its consumers does."""
    n: int
    """How many consumers there are normally; 0: none until something is due."""
    most: int
    """How many there may be while groups wait."""
    wait_s: float
    """A due group should wait no longer."""
    hang_after_s: float | None
    """A consumer that is older than `max_age` by this time is ended, whatever it does."""
    cwd: Path
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables of its consumers beside those of the master; None leaves one out."""
    check: str | None = None
    """`module:function` that looks at the queue."""
    check_every_s: float = 2.0
    alerts: QueueAlerts | None = None
    """What is told of it, and to whom; None: nothing."""

    @property
    def queue(self) -> str:
        return self.config.queue


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The whole file. Times in seconds."""

    path: Path
    url: str | None
    """The server; None: SEQUENCER_REDIS, else the embedded one."""
    namespace: str
    environment: str
    """What people call this deployment: "production"."""
    check_every_s: float
    run_for_s: float
    """How long the master lives; 0: until it is told to stop."""
    max_processes: int
    """Of all pools, on this host."""
    pools: tuple[PoolPlan, ...]
    targets: tuple[Target, ...] = ()
    """To whom alerts go."""

    def on(self, url: str | None) -> RunPlan:
        """The same for the server at `url`."""
        pools = tuple(replace(pool, config=pool.config.on(url)) for pool in self.pools)
        return replace(self, url=url, pools=pools)
