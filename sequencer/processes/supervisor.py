"""The loop over pools of consumers: it waits for signals, reports and time, and lets each pool act.

Signals are only taken note of; the loop acts. What goes wrong in it is logged, and the consumers go on.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Sequence
from typing import Generic, TypeVar

from ..consume.emitter import EventEmitter
from ..texts.events import event
from .consumer_process import reap_orphans
from .pool import Pool, log
from .signals import STOP_SIGNALS, SignalPipe
from .worker.run import GAVE_UP

MAX_FAILED_ROUNDS = 300
"""Rounds that fail one after the other until the consumers are left alone; they stop then."""
ROUND_S = 0.1
"""The loop checks everything at least this often: a round takes some 0.1 ms."""

PoolT = TypeVar("PoolT", bound=Pool)


class Supervisor(Generic[PoolT]):
    """Runs pools to their end."""

    def __init__(self, pools: Sequence[PoolT], *, reloads: bool = False) -> None:
        """`reloads`: SIGHUP asks for a reload, not for a stop."""
        self.pools, self._reloads = list(pools), reloads
        self._asked = b""
        self._signals, self._selector = SignalPipe(), selectors.DefaultSelector()
        self._failed_rounds, self._began = 0, time.monotonic()
        self.turned_at = self._began
        """When the loop last turned."""
        self.emitter = EventEmitter("", log=log)

    def stop(self) -> None:
        """Ask for the next stage of stopping. Safe in a signal handler or any thread."""
        self._signals.ask(signal.SIGTERM)

    @property
    def pids(self) -> list[int]:
        return [pid for pool in self.pools for pid in pool.pids]

    @property
    def is_away(self) -> bool:
        """Whether the server did not answer last."""
        return any(pool.is_away for pool in [*self.pools])

    def run(self) -> int:
        """Supervise to the end. Returns 0, 1 when it gave up, 2 or 3 when consumers can't work at all."""
        try:
            with self._signals.handlers(reloads=self._reloads), self._selector:
                self._selector.register(self._signals.read_fd, selectors.EVENT_READ)
                for pool in self.pools:
                    self._selector.register(pool.read_fd, selectors.EVENT_READ)
                while not self._is_done and self._failed_rounds < MAX_FAILED_ROUNDS:
                    self._run_safely()
        finally:
            for pool in self.pools:
                pool.close()
                pool.totals.seconds = time.monotonic() - self._began
            self._signals.close()
        return GAVE_UP if self._failed_rounds else max(pool.status or 0 for pool in self.pools)

    @property
    def _is_done(self) -> bool:
        return all(pool.is_done for pool in self.pools)

    def _run_safely(self) -> None:
        try:
            self._run_round()
            self._failed_rounds = 0
        except Exception as error:
            self._failed_rounds += 1
            if self._failed_rounds == 1:
                self.emitter.emit(event("supervisor error", "", error=error, what="supervising"))
            time.sleep(ROUND_S)

    def _run_round(self) -> None:
        self.turned_at = time.monotonic()
        self._asked = self._signals.take()
        for number in self._asked:
            if number in STOP_SIGNALS and not (self._reloads and number == signal.SIGHUP):
                self._stop_pools()
        for pool in self.pools:
            pool.run_round()
        if os.getpid() == 1:
            reap_orphans(self.pids)
        if not self._is_done:
            self._selector.select(ROUND_S)

    def _stop_pools(self) -> None:
        for pool in self.pools:
            pool.next_stage()
