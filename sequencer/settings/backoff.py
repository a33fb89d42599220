"""Delays after failures. Pure; randomness is passed in."""

from __future__ import annotations

from dataclasses import dataclass

MAX_EXPONENT = 30  # 2**30 seconds is 34 years: the cap decides long before, and a float never overflows


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

    def longest_s(self, random: float) -> float:
        """Seconds to wait at most, with this `random`."""
        return self.cap_s * (0.5 + random / 2)


RECONNECT = Backoff(base_s=0.1, cap_s=5.0)
"""A consumer whose server is gone retries: soon after a restart, and never more than 5 s late."""
