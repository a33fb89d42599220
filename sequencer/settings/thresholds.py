"""Thresholds: from when on a condition of a queue is an incident. 0 turns a condition off."""

from __future__ import annotations

from dataclasses import dataclass

CLOSES_AT = 0.8
"""A condition is over below this part of its limit, so that a value at the limit does not open and close it."""
LEAST_ATTEMPTS = 20
"""Of so many attempts on, the share of those that failed says something."""
FAILING_S = 300.0
"""Over this time that share is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Of one queue. Times in seconds, shares from 0 to 1. A value at its limit is an incident."""

    parked: int = 1
    """Groups."""
    dead: int = 1
    """Dead letters."""
    backlog: int = 10_000
    """Messages that wait."""
    wait: float = 60.0
    """How long the longest due group waits for a consumer."""
    lag: float = 600.0
    """Age of the oldest head of a group that is neither parked nor paused, counted from its arrival."""
    no_consumers: float = 60.0
    """For how long something is due while no consumer has a group in progress."""
    failing: float = 0.2
    """Share of the attempts in five minutes that failed, from 20 attempts on."""
    memory: float = 0.9
    """Share of the server's maxmemory in use."""
    away: float = 30.0
    """For how long the server has not answered."""
    outage: bool = True
    """Whether an outage that holds the queue back is told."""
    pool: bool = True
    """Whether a pool is told in which no consumer gets to work."""
    history: bool = True
    """Whether a history is told that its cap cuts short."""
