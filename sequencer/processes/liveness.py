"""Which consumers gave no sign of life for too long: code that holds the interpreter's lock stops all their threads.

Pure. Only the time counts in which the supervisor itself was awake: where all stood still, nobody is to blame.
"""

from __future__ import annotations

from collections.abc import Sequence

from .consumer_process import ConsumerProcess

LEASES = 3
"""A consumer may be silent for this number of leases: the first of them has ended its right to what it has in
progress.
"""
LEAST_S = 5.0
"""It may be silent for this time in any case: it reports once a second."""
MOST_TICK_S = 2.0
"""Between two ticks this time counts at most."""


class Liveness:
    """How long each consumer has been silent. Without a `lease_s` nobody is asked for signs of life."""

    def __init__(self, lease_s: float | None) -> None:
        self.limit_s = None if lease_s is None else max(LEAST_S, LEASES * lease_s)
        self._silent_s: dict[int, float] = {}
        self._ticked_at: float | None = None

    @property
    def wait_s(self) -> float | None:
        """Seconds until the next tick, at most."""
        return None if self.limit_s is None else MOST_TICK_S / 2

    @property
    def reason(self) -> str:
        """Why a consumer is killed."""
        silent = f"it gave no sign of life for {self.limit_s:g} s"
        return f"{silent}, as when code in C keeps the interpreter's lock"

    def heard(self, pid: int) -> None:
        """There was a sign of life."""
        self._silent_s[pid] = 0.0

    def tick(self, processes: Sequence[ConsumerProcess], now: float) -> list[ConsumerProcess]:
        """Those that have been silent for too long. They are expected to be heard from their first message to the end
        of their work.
        """
        passed_s = 0.0 if self._ticked_at is None else min(now - self._ticked_at, MOST_TICK_S)
        self._ticked_at = now
        if self.limit_s is None:
            return []
        working = [one for one in processes if one.has_begun and one.ended_at is None and not one.is_killed]
        self._silent_s = {one.pid: self._silent_s.get(one.pid, -passed_s) + passed_s for one in working}
        return [one for one in working if self._silent_s[one.pid] > self.limit_s]
