"""The workers of a service: each holds one consumer process at a time. When an empty one gets its next is decided here.

Pure: the time and the random number are passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..settings.backoff import Backoff
from .consumer_process import ConsumerProcess

STANDING_RETRY_S = 60.0
"""How often a worker is tried in which no consumer gets to work."""


RESTART = Backoff(base_s=0.2, cap_s=5.0)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When the supervisor replaces a consumer that died, and when it gives up.

    A death is one at startup if its app was not imported, or no handler had begun and the consumer had lived for less
    than `startup_s`: what it needs is missing, and a restart does not help. After `limit` of them in a row its worker
    is tried seldom; when that is so of all workers, the service gives up. Any other death is of a message or of this
    machine, and its consumer is replaced, for ever: the message at which consumers die is parked in the end. A rule
    that counts those too would end the service before that, since a message at which a consumer died waits for a
    lease, and fresh ones come before it.
    """

    limit: int = 5
    startup_s: float = 60.0
    fast_s: float = 5.0
    """Who dies sooner makes the next one start later."""
    backoff: Backoff = RESTART

    def is_startup_death(self, lived_s: float, *, has_begun: bool, is_loaded: bool = True) -> bool:
        return not is_loaded or (not has_begun and lived_s < self.startup_s)


@dataclass(slots=True)
class Worker:
    """Keeps one consumer process, and replaces it."""

    process: ConsumerProcess | None = None
    start_at: float = 0.0
    """When to start the next one; only while there is no process and it is not done."""
    is_done: bool = False
    is_leaving: bool = False
    """Whether its consumer was told to stop, and no other follows."""
    fast_deaths: int = 0
    """Deaths in a row, each soon after its start: the delay of the next start follows them."""
    startup_deaths: int = 0
    """Deaths in a row, each before any handler began: for giving up."""
    is_final: bool = False
    """Whether its last consumer ended with what no other could better."""

    def free(self) -> None:
        """Its consumer ended as planned: the next one starts at once, and no death before it counts."""
        self.start_at = 0.0
        self.fast_deaths = self.startup_deaths = 0
        self.is_final = False


class Workers:
    """All workers of a service."""

    def __init__(self, count: int, policy: RestartPolicy) -> None:
        self.policy, self._workers = policy, [Worker() for _ in range(count)]

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers)

    def __len__(self) -> int:
        return len(self._workers)

    def add(self) -> Worker:
        """One more; its first consumer starts at once."""
        self._workers.append(Worker())
        return self._workers[-1]

    def remove_done(self) -> None:
        """Forget those that get no other consumer."""
        self._workers = [worker for worker in self._workers if not worker.is_done]

    @property
    def running(self) -> list[tuple[Worker, ConsumerProcess]]:
        """The consumers that run, each with its worker."""
        return [(worker, worker.process) for worker in self._workers if worker.process is not None]

    @property
    def are_done(self) -> bool:
        """Whether none gets another consumer."""
        return all(worker.is_done for worker in self._workers)

    @property
    def empty(self) -> list[Worker]:
        """Those that wait for their next consumer."""
        return [worker for worker in self._workers if worker.process is None and not worker.is_done]

    def due(self, now: float) -> list[Worker]:
        """Those whose next consumer is to start now."""
        return [worker for worker in self.empty if worker.start_at <= now]

    def start_later(self, worker: Worker, lived_s: float, now: float, random: float) -> float:
        """The more of its consumers died soon after their start, the later comes the next. Returns the delay."""
        worker.fast_deaths = worker.fast_deaths + 1 if lived_s < self.policy.fast_s else 0
        delay_s = self.policy.backoff.delay_s(worker.fast_deaths, random) if worker.fast_deaths else 0.0
        delay_s = STANDING_RETRY_S if self._is_standing(worker) else delay_s
        worker.start_at = now + delay_s
        return delay_s

    def forgive(self, now: float) -> None:
        """Reset the counts of deaths where the running consumer has lived long enough to end the row."""
        for worker, process in self.running:
            lived_s = now - process.started_at
            if process.is_connected and lived_s >= self.policy.fast_s:
                worker.fast_deaths = 0
            began = {"has_begun": process.has_begun, "is_loaded": process.is_loaded}
            if not self.policy.is_startup_death(lived_s, **began):
                worker.startup_deaths = 0

    def can_go_on(
        self, worker: Worker, lived_s: float, *, has_begun: bool, is_loaded: bool = True, is_final: bool = False
    ) -> bool:
        """Count the death of its consumer; whether any consumer may still get to work.

        `has_begun`: whether its first handler began; `is_loaded`: whether its app was imported; `is_final`: it ended
        with what no other consumer could better.
        """
        is_startup = is_final or self.policy.is_startup_death(lived_s, has_begun=has_begun, is_loaded=is_loaded)
        worker.startup_deaths = worker.startup_deaths + 1 if is_startup else 0
        worker.is_final = is_final
        others = (other for other in self._workers if not other.is_done)
        return any(other.process is not None or not self._is_standing(other) for other in others)

    def _is_standing(self, worker: Worker) -> bool:
        return worker.is_final or worker.startup_deaths >= self.policy.limit
