"""The thread that looks at the queues, so that a server which does not answer halts no pool; and the host's CPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...client import Sequencer
from ...errors import ServerUnavailable
from ...values.views import QueueSnapshot
from .plan import RunPlan

_STAT = Path("/proc/stat")


class Snapshots:
    """The last look at each queue."""

    def __init__(self, plan: RunPlan, on_trouble: Callable[[str, Exception], object]) -> None:
        """`on_trouble` is called with a queue and an error, once until that is another."""
        self._every_s, self._on_trouble = plan.check_every_s, on_trouble
        self._troubles: dict[str, str] = {}
        self._clients = [Sequencer(pool.queue, plan.url, namespace=plan.namespace) for pool in plan.pools]
        self._found: dict[str, tuple[float, QueueSnapshot]] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sequencer-looks", daemon=True)
        self._thread.start()

    def last(self, queue: str, now: float) -> QueueSnapshot | None:
        """The last look; None where it is too old to say anything: the server is away."""
        at, found = self._found.get(queue, (0.0, None))
        return found if now - at < 3 * self._every_s + 1.0 else None

    def close(self) -> None:
        """It ends by itself, after the look that it is at."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            for client in self._clients:
                self._snapshot(client)
            self._ends.wait(self._every_s)
        for client in self._clients:
            client.close()

    def _snapshot(self, client: Sequencer) -> None:
        try:
            self._found[client.queue] = (time.monotonic(), client.snapshot())
            self._troubles.pop(client.queue, None)
        except ServerUnavailable:  # its consumers say so
            pass
        except Exception as error:
            text = str(error)
            if text != self._troubles.get(client.queue):
                self._on_trouble(client.queue, error)
            self._troubles[client.queue] = text


class HostCpu:
    """The share of this host's processors that was in use since the last question."""

    def __init__(self) -> None:
        self._last = self._read()

    def share(self) -> float:
        """From 0 to 1."""
        now, last = self._read(), self._last
        self._last = now
        if now is None or last is None or now[1] <= last[1]:
            return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) if now is None else 0.0
        return 1.0 - (now[0] - last[0]) / (now[1] - last[1])

    @staticmethod
    def _read() -> tuple[int, int] | None:
        """Ticks without work, and all; None where the system does not tell."""
        with suppress(OSError, ValueError, IndexError):
            ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
            return ticks[3] + ticks[4], sum(ticks)
        return None
