"""Times that are compared across processes: the server's clock, and what a list of delays comes to.

Processes of one machine share CLOCK_MONOTONIC; arrivals and due times are by the server's clock. One offset turns the
one into the other, so that a server on another machine gives right delays too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

SAMPLES = 50


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The server's time is CLOCK_MONOTONIC + `offset_s`, and is known to `error_s`."""

    offset_s: float
    error_s: float

    def until(self, later: ServerClock) -> ServerClock:
        """For the time between two looks: the clocks may have been drifting apart."""
        drift_s = abs(later.offset_s - self.offset_s)
        return ServerClock((self.offset_s + later.offset_s) / 2, max(self.error_s, later.error_s) + drift_s)


def server_clock(url: str) -> ServerClock:
    """Of some round trips the quickest, the answer taken for the middle of it. Raises ServerError."""
    link = Link(Endpoint.from_url(url))
    try:
        link.connection()
        found = []
        for _ in range(SAMPLES):
            before = time.monotonic()
            seconds, micros = link.command("TIME")
            after = time.monotonic()
            there = int(seconds) + int(micros) / 1e6
            found.append(ServerClock(there - (before + after) / 2, (after - before) / 2))
    finally:
        link.close()
    return min(found, key=lambda clock: clock.error_s)


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """`p50`, `p99`, `p99.9` and `max`, each a value that occurs (nearest rank); None of nothing."""
    some = sorted(values)
    if not some:
        return None
    return {
        "p50": some[math.ceil(0.5 * len(some)) - 1],
        "p99": some[math.ceil(0.99 * len(some)) - 1],
        "p99.9": some[math.ceil(0.999 * len(some)) - 1],
        "max": some[-1],
    }


def show_quantiles(found: dict[str, float] | None, names: Sequence[str] = ("p50", "p99", "max")) -> list[str]:
    """One cell for each name, with one decimal."""
    return [f"{found[name]:,.1f}" if found else "-" for name in names]
