"""What people see of alerts. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToldTarget:
    """What a target was told of an incident."""

    target: str
    messages: int
    """How many it took."""
    told_at: float | None
    """When the last one was sent, in seconds since 1970 by the server's clock."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A condition that holds, from its first telling to "resolved". Times in s since 1970 by the server's clock."""

    queue: str
    kind: str
    """parked, dead, backlog, wait, lag, no_consumers, failing, outage, history, memory; and of one host pool@HOST and
    check@HOST."""
    opened_at: float
    value: str
    """A number, as text; "" where it has none."""
    text: str
    seen_at: float
    """When somebody looked at it last."""
    resolved_at: float | None
    """When it was over, where a target has yet to be told of that."""
    told: tuple[ToldTarget, ...]
    key: str
    """The same for all that is told of it: NAMESPACE:QUEUE:KIND:us when it opened."""
