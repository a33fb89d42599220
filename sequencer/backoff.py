"""Pure decisions about delays and giving up. Randomness is passed in."""

from __future__ import annotations

from dataclasses import dataclass

MAX_EXPONENT = 30
"""2**30 seconds is 34 years: the cap decides long before, and a float never overflows."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delay with jitter: `base * 2**(n-1)` seconds up to `cap`, then 50 to 100 % of it.

    Half of the delay stays fixed: full jitter, from 0, would retry a head at once about as often as not, and a
    group waits behind it alone, so there is no herd to spread.
    """

    base_s: float = 0.5
    cap_s: float = 60.0

    def delay_s(self, failures: int, random: float) -> float:
        """Seconds to wait after the n-th failure in a row (from 1); `random` lies in [0, 1)."""
        full = min(self.cap_s, self.base_s * 2.0 ** min(max(failures, 1) - 1, MAX_EXPONENT))
        return full * (0.5 + random / 2)


RECONNECT = Backoff(base_s=0.1, cap_s=5.0)
"""A consumer whose server is gone tries again: soon after a restart, and never more than 5 s late."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When the supervisor replaces a consumer that died, and when it gives up.

    A death is fast while no consumer has lived for `fast_s`, neither the dead one nor one beside it. `limit` of them
    in a row mean that no restart will help: a missing right, a crash at each message. A single message that kills its
    consumers is to be parked before that: after one try that is not counted, and the queue's attempts.
    """

    fast_s: float = 5.0
    limit: int = 5
    backoff: Backoff = Backoff(base_s=0.2, cap_s=5.0)

    @classmethod
    def for_attempts(cls, max_attempts: int) -> RestartPolicy:
        """The policy for a queue that parks a message after so many attempts."""
        return cls(limit=max(cls().limit, max_attempts + 2))

    def after_death(self, fast_deaths: int, lived_s: float) -> int:
        """The new count of fast deaths in a row."""
        return fast_deaths + 1 if lived_s < self.fast_s else 0

    def gives_up(self, fast_deaths: int) -> bool:
        return fast_deaths >= self.limit

    def delay_s(self, fast_deaths: int, random: float) -> float:
        """Seconds before the replacement starts: none after a consumer that had lived well."""
        return self.backoff.delay_s(fast_deaths, random) if fast_deaths else 0.0
