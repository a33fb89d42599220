"""When a consumer that died is replaced, and when the service gives up. Pure; randomness is passed in."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings.backoff import Backoff

RESTART = Backoff(base_s=0.2, cap_s=5.0)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When the supervisor replaces a consumer that died, and when it gives up.

    A death is one at startup if its app was not imported, or no handler had begun and the consumer had lived for less
    than `startup_s`: what it needs is missing, and a restart does not help. After `limit` of them in a row its place
    stands; when all places stand, the service gives up. Any other death is of a message or of this machine, and its
    consumer is replaced, for ever: the message at which consumers die is parked in the end. A rule that counts those
    too would end the service before that, since a message at which a consumer died waits for a lease, and fresh ones
    come before it.
    """

    limit: int = 5
    startup_s: float = 60.0
    fast_s: float = 5.0
    """Who dies sooner makes the next one in its place start later."""
    backoff: Backoff = RESTART

    def is_startup_death(self, lived_s: float, *, has_begun: bool, is_loaded: bool = True) -> bool:
        return not is_loaded or (not has_begun and lived_s < self.startup_s)

    def is_fast(self, lived_s: float) -> bool:
        return lived_s < self.fast_s

    def is_standing(self, startup_deaths: int) -> bool:
        return startup_deaths >= self.limit

    def after_death(self, fast_deaths: int, lived_s: float) -> int:
        """The new count of fast deaths in a row."""
        return fast_deaths + 1 if self.is_fast(lived_s) else 0

    def delay_s(self, fast_deaths: int, random: float) -> float:
        """Seconds before the replacement starts: none after a consumer that had lived well."""
        return self.backoff.delay_s(fast_deaths, random) if fast_deaths else 0.0
