"""A worker holds one consumer process at a time. When an empty one gets its next is decided here.

A death is one at startup if its app was not imported, or no handler had begun and the consumer had lived for less than
STARTUP_S: what it needs is missing, and a restart does not help. After LIMIT of them in a row its worker is tried
seldom; when that is so of all workers, the service gives up. Any other death is of a message or of this machine, and
its consumer is replaced, for ever: the message at which consumers die is parked in the end. A rule that counts those
too would end the service before that, since a message at which a consumer died waits for a lease, and fresh ones come
before it.

Pure: the time and the random number are passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..settings.backoff import Backoff
from .consumer_process import ConsumerProcess

LIMIT = 5
STARTUP_S = 60.0
FAST_S = 5.0
"""Who dies sooner makes the next one start later."""
RESTART = Backoff(base_s=0.2, cap_s=5.0)
STANDING_RETRY_S = 60.0
"""How often a worker is tried in which no consumer gets to work."""


def is_startup_death(lived_s: float, *, has_begun: bool, is_loaded: bool = True) -> bool:
    return not is_loaded or (not has_begun and lived_s < STARTUP_S)


@dataclass(slots=True, eq=False)
class Worker:
    """Keeps one consumer process, and replaces it."""

    process: ConsumerProcess | None = None
    plan: Any = None
    """By which it was started, in a pool that exchanges its consumers."""
    start_at: float = 0.0
    """When to start the next one; only while there is no process and it is not done."""
    is_done: bool = False
    is_leaving: bool = False
    fast_deaths: int = 0
    """Deaths in a row, each soon after its start: the delay of the next start follows them."""
    startup_deaths: int = 0
    """Deaths in a row, each before any handler began: for giving up."""
    is_final: bool = False
    """Whether its last consumer ended with what no other could better."""

    @property
    def is_standing(self) -> bool:
        return self.is_final or self.startup_deaths >= LIMIT

    def free(self) -> None:
        """The next one starts at once, and no death before it counts."""
        self.start_at = 0.0
        self.fast_deaths = self.startup_deaths = 0
        self.is_final = False

    def count_death(self, lived_s: float, *, has_begun: bool, is_loaded: bool = True, is_final: bool = False) -> None:
        """`has_begun`: its first handler; `is_final`: it ended with what no other consumer could better."""
        is_startup = is_final or is_startup_death(lived_s, has_begun=has_begun, is_loaded=is_loaded)
        self.startup_deaths = self.startup_deaths + 1 if is_startup else 0
        self.is_final = is_final

    def start_later(self, lived_s: float, now: float, random: float) -> float:
        """The more of its consumers died soon after their start, the later comes the next. Returns the delay."""
        self.fast_deaths = self.fast_deaths + 1 if lived_s < FAST_S else 0
        delay_s = RESTART.delay_s(self.fast_deaths, random) if self.fast_deaths else 0.0
        delay_s = STANDING_RETRY_S if self.is_standing else delay_s
        self.start_at = now + delay_s
        return delay_s

    def forgive(self, process: ConsumerProcess, now: float) -> None:
        """Reset the counts of deaths where its running consumer has lived long enough to end the row."""
        lived_s = now - process.started_at
        if process.is_connected and lived_s >= FAST_S:
            self.fast_deaths = 0
        if not is_startup_death(lived_s, has_begun=process.has_begun, is_loaded=process.is_loaded):
            self.startup_deaths = 0
