"""The master of `sequencer run`: many pools under one loop, and what concerns all of them.

It checks the queues and changes the size of pools, has alerts sent and old data swept, reads its file again at
SIGHUP, ends after `run_for`, answers `--status`, and notifies systemd.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ...client import find_server
from ...errors import ConfigurationError, SequencerError, ServerUnavailable
from ...texts.events import event
from ...texts.explanations import service_text
from ...texts.words import error_text, type_name
from ...values.version import VERSION
from ..alerts.server_away import AwayIncident
from ..alerts.watcher import END_S, Local, Watcher
from ..supervisor import Supervisor
from .kept_pool import KeptPool
from .plan import RunPlan
from .scaling import HostCpu
from .status import VARIABLE, StatusSocket, ask, notify

READY_S = 30.0
"""systemd is notified that the service is ready when all consumers are connected, or after this time in any case."""


class Master(Supervisor[KeptPool]):
    """Runs a plan; `read` reads the file again, `cpu` says what share of the host's processors is in use."""

    def __init__(self, plan: RunPlan, read: Callable[[], RunPlan], *, cpu: Callable[[], float] | None = None) -> None:
        self.plan, self._read = plan, read
        super().__init__([KeptPool(pool, self) for pool in plan.pools], reloads=True)
        self._stage = 0
        self._cpu = cpu or HostCpu().share
        self._away = AwayIncident()
        self._watcher = self._new_watcher(plan)
        self._scales_at = 0.0
        self._is_ready = self._is_reloading = False
        self._status = self._status_socket()
        self._notify = partial(notify, os.environ.pop(VARIABLE, ""))  # consumers are not to speak for the master

    def reload(self) -> None:
        """Read the file again, and replace all consumers. Safe in a signal handler or any thread."""
        self._signals.ask(signal.SIGHUP)

    def room(self) -> int:
        return self.plan.max_processes - sum(pool.size for pool in self.pools)

    def spare_room(self) -> int:
        """How many a pool may have above its `n`; below 0: there are too many. Each queue has room for its `n`, and for
        one consumer at least, whatever the others have.
        """
        staying = {pool: pool.size - pool.is_exchanging for pool in self.pools}
        taken = sum(count if pool.stage else max(count, pool.plan.n, 1) for pool, count in staying.items())
        return self.plan.max_processes - taken

    def may_exchange(self) -> bool:
        """Whether a pool may start a consumer in place of another now."""
        return self.room() > 0 or not any(pool.is_exchanging for pool in self.pools)

    @property
    def is_away(self) -> bool:
        return isinstance(self._watcher.trouble, ServerUnavailable) or super().is_away

    def _status_socket(self) -> StatusSocket | None:
        try:
            with suppress(ConfigurationError):
                other = int(ask(self.plan.path)["pid"])
                self.emitter.emit(event("already running", "", file=str(self.plan.path), other_pid=other))
                return None
            return StatusSocket(self.plan.path)
        except (OSError, ConfigurationError) as error:
            self.emitter.emit(event("supervisor error", "", error=error, what="making the socket of run --status"))
        return None

    def _new_watcher(self, plan: RunPlan) -> Watcher:
        return Watcher(plan, emit=self.emitter.emit, local=self._known_of, away=self._away)

    def _known_of(self, queue: str) -> Local:
        """What no server knows of a queue; asked by the watcher, in its thread."""
        return next((pool.local for pool in list(self.pools) if pool.queue == queue and not pool.stage), Local())

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> int:
        for pool in self.pools:
            self._fill(pool)
        self._watcher.start()
        try:
            return super().run()
        finally:
            self._watcher.close(END_S)
            if self._status is not None:
                self._status.close()

    def _fill(self, pool: KeptPool) -> None:
        pool.fill()
        config, server = pool.plan.config, find_server(self.plan.redis).name
        fields = {"app": config.handles, "processes": pool.plan.n, "lease_s": config.lease_s}
        pool.emit("service started", server=server, version=VERSION, **fields)

    @property
    def _is_done(self) -> bool:
        return bool(self._stage) and super()._is_done

    def _run_round(self) -> None:
        super()._run_round()
        now = time.monotonic()
        if signal.SIGHUP in self._asked:
            self._reload()
        if self.plan.run_for_s and now - self._began >= self.plan.run_for_s and not self._stage:
            self._stop_pools()
        if now >= self._scales_at and not self._stage:
            self._scales_at = now + self.plan.check_every_s
            self._scale(now)
        self._forget_removed()
        self._notify_systemd(now)
        if self._status is not None:
            self._status.answer(self._status_as_json)

    def _stop_pools(self) -> None:
        self._stage = min(3, self._stage + 1)
        if self._stage == 1:
            self._notify("STOPPING=1")
        for pool in self.pools:
            while pool.stage < self._stage:
                pool.next_stage()

    # -- sizes ----------------------------------------------------------------------------------------------------

    def _scale(self, now: float) -> None:
        """Those whose groups wait longest first: there may not be room for all."""
        cpu = self._cpu()
        snapshots = [(pool, self._watcher.last_snapshot(pool.queue, now)) for pool in self.pools]
        for pool, snapshot in sorted(snapshots, key=lambda one: -one[1].waits_s if one[1] else 0.0):
            pool.scale(snapshot, now, cpu)

    def _status_as_json(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "file": str(self.plan.path),
            "environment": self.plan.environment,
            "state": "stopping" if self._stage else "reloading" if self._is_reloading else "running",
            "age_s": round(now - self._began, 1),
            "processes": len(self.pids),
            "max_processes": self.plan.max_processes,
            "pools": [pool.as_json(self._watcher.last_snapshot(pool.queue, now), now) for pool in self.pools],
        }

    def _notify_systemd(self, now: float) -> None:
        is_ready = all(pool.is_ready for pool in self.pools) or now - self._began >= READY_S
        if not self._is_ready and is_ready and not self._stage:
            self._is_ready = True
            self._notify_ready()
        if self._is_reloading and not any(pool.is_replacing for pool in self.pools):
            self._is_reloading = False
            self._notify_ready()
            if not any(pool.has_kept_old for pool in self.pools):
                self.emitter.emit(event("service reloaded", "", file=str(self.plan.path)))

    def _notify_ready(self) -> None:
        down = [pool.queue for pool in self.pools if pool.is_down]
        self._notify("READY=1", f"STATUS={service_text(len(self.pools), len(self.pids), down)}")

    # -- a reload -----------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        if self._stage:
            return
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        self._is_reloading = True
        self.emitter.emit(event("service reloading", "", file=str(self.plan.path)))
        try:
            self._take(self._read())
        except Exception as error:  # whatever is wrong with the file
            self._is_reloading = False
            kind = "" if isinstance(error, SequencerError) else f"{type_name(error)}: "
            self.emitter.emit(event("reload failed", "", error=kind + error_text(error)))
            self._notify_ready()

    def _take(self, plan: RunPlan) -> None:
        pools = {pool.queue: pool for pool in self.pools if not pool.stage}
        watcher = self._new_watcher(plan)  # what may fail comes first
        made = [KeptPool(one, self) for one in plan.pools if one.queue not in pools]
        self.plan = plan
        self._watcher.close()
        self._watcher = watcher
        self._watcher.start()
        for one in plan.pools:
            if one.queue in pools:
                pools.pop(one.queue).replace_all(one)
        for pool in pools.values():  # the file does not name them any more
            pool.next_stage()
        for pool in made:
            self.pools.append(pool)
            self._selector.register(pool.read_fd, selectors.EVENT_READ)
            self._fill(pool)

    def _forget_removed(self) -> None:
        if self._stage:
            return
        for pool in [pool for pool in self.pools if pool.stage and pool.is_done]:
            self.pools.remove(pool)
            self._selector.unregister(pool.read_fd)
            pool.close()
