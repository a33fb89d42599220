"""Open incidents, and who was notified. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotifiedTarget:
    """The messages of an incident that a target was sent."""

    target: str
    messages: int
    """How many it accepted."""
    sent_at: float | None
    """When the last one was sent, in seconds since 1970 by the server's clock."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A condition that holds, until it is resolved. Times in seconds since 1970 by the server's clock."""

    queue: str
    kind: str
    """parked, dead, backlog, wait, lag, no_consumers, failing, outage, history, memory; and of one host pool@HOST and
    check@HOST."""
    opened_at: float
    value: str
    """A number, as text; "" where it has none."""
    text: str
    seen_at: float
    """When it was last checked."""
    resolved_at: float | None
    """When it was over, if a target has not been notified of that yet."""
    notified: tuple[NotifiedTarget, ...]
    key: str
    """The same in all messages about it: NAMESPACE:QUEUE:KIND:us when it opened."""
