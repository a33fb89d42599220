"""Thresholds: from when on a condition of a queue is an incident. 0 turns a condition off."""

from __future__ import annotations

from dataclasses import dataclass

from .option import FLAG, SHARE, Takers, option, read_options, seconds, whole

CLOSES_AT = 0.8
"""A condition is over below this part of its limit, so that a value at the limit does not open and close it."""
LEAST_ATTEMPTS = 20
"""From this number of attempts on, the share of failures counts."""
FAILING_S = 300.0
"""Over this time that share is counted."""
FILE: Takers = ("run",)
_COUNT = whole(0, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Of one queue. Times in seconds. A value at its limit is an incident."""

    parked: int = option(_COUNT, 1, "Parked groups.", FILE)
    dead: int = option(_COUNT, 1, "Dead letters.", FILE)
    backlog: int = option(_COUNT, 10_000, "Pending messages.", FILE)
    wait: float = option(seconds(), 60.0, "Longest time that a due group has waited for a consumer.", FILE)
    lag: float = option(
        seconds(), 600.0, "Age of the oldest head of a group that is neither parked nor paused, from its arrival.", FILE
    )
    no_consumers: float = option(seconds(), 60.0, "How long groups have been due while none is in progress.", FILE)
    failing: float = option(SHARE, 0.2, "Share of failed attempts in five minutes, of at least 20 attempts.", FILE)
    memory: float = option(SHARE, 0.9, "Share of the server's maxmemory in use.", FILE)
    outbox_age: float = option(seconds(), 60.0, "Age of the oldest row of its outbox that is not sent.", FILE)
    outbox_held: int = option(_COUNT, 1, "Rows of its outbox that the queue refused.", FILE)
    away: float = option(seconds(), 30.0, "How long the server has not answered.", FILE)
    unreachable: bool = option(FLAG, True, "Notify of shards that can't be reached.", FILE)
    outage: bool = option(FLAG, True, "Notify of an outage that holds the queue back.", FILE)
    pool: bool = option(FLAG, True, "Notify of a pool whose consumers die before their first message.", FILE)
    history: bool = option(FLAG, True, "Notify of a history cut short by history_cap.", FILE)

    def __post_init__(self) -> None:
        read_options(self)
