"""What a supervisor counts of its consumers. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

STATES = ("starting", "running", "stopping", "restarting")
"""Of a consumer process; "restarting": there is none, but there will be."""
ENDS = ("died", "killed", "recycled")


class OutboxBacklog(NamedTuple):
    """Rows of an outbox."""

    unsent: int
    oldest_s: float
    """Age of the oldest row that is not sent, 0.0 without one."""
    held: int


class PoolNumbers(NamedTuple):
    """The consumers of one queue. Their counts are without the last second of one that was killed."""

    queue: str
    namespace: str
    wanted: int
    consumers: Mapping[str, int]
    """By STATES."""
    ends: Mapping[str, int]
    """By ENDS."""
    leases_lost: int
    runs: Sequence[float]
    """How many handlers ended within each of RUN_BOUNDS_S and later, and the time in all of them."""
    outbox: OutboxBacklog | None = None
    """As its relay said last; None without one."""
