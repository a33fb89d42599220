"""Who has groups of a queue in progress: a consumer's name, whether it held one too long, or that nobody does. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LONG_LEASES = 10
"""A group that is leased for longer than this number of leases, about, is named: its handler may hang."""
LEAST_LEFT_US = 2_000_000
"""What is left of a lease counts as this much at least, so that a short one that nobody renews is not named."""


def is_held_long(now_us: float, since_us: float, until_us: float) -> bool:
    """Whether a lease has lasted for about LONG_LEASES leases or more.

    The server does not know how long one is. It is renewed at a third of its time, so that at least two thirds are
    left: it is 1.5 times of that at most.
    """
    return now_us - since_us > LONG_LEASES * 1.5 * max(until_us - now_us, LEAST_LEFT_US)


def owner_text(host: str, pid: int, mark: int) -> str:
    """The name of the consumer in this process; `mark` tells it from others there."""
    return f"{host}:{pid}:{mark:06x}"


@dataclass(frozen=True, slots=True)
class NoConsumers:
    """Groups of a queue are due, and no consumer has any group of it in progress."""

    groups: int
    """How many are due."""
    since: float
    """Since when the one that waits longest is due, in seconds since 1970 by the server's clock."""
    waits_s: float
    """For how long that is by now."""
    last_owner: str
    """The consumer whose lease ran out last; "" where no lease is left."""
    last_until: float | None
    """When that ran out, in seconds since 1970 by the server's clock."""
    connections: int | None
    """How many connections say that they are a consumer's of this queue; a consumer without the right to CLIENT SETNAME
    does not say so. None where the user may not ask (CLIENT LIST)."""
