"""That nobody consumes a queue whose messages are due, as data and as a sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from .commands import command
from .text import many

APP = ["--app", "MODULE:NAME"]
"""To be filled in: without it, consume would print the messages, and they would be gone."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Groups of a queue are due, and no consumer has any group of it in hand."""

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


def unserved_text(one: Unserved, queue: str, namespace: str) -> str:
    """What is seen, and the command that begins to consume."""
    due = f"{many(one.groups, 'group')} {'is due,' if one.groups == 1 else 'are due, the first'}"
    text = f"nobody consumes: {due} since {_moment(one.since)} ({one.waits_s:.0f} s), and no consumer has a group in "
    text += "hand"
    if one.last_owner:
        text += f"; the lease of {one.last_owner} ran out at {_moment(one.last_until or 0.0)}"
    if one.connections:
        text += f"; connections of consumers that are open, and claim nothing: {one.connections:,} (see their log)"
    elif one.connections == 0:
        text += "; no connection says that it is a consumer's"
    else:
        text += "; who is connected can't be seen (CLIENT LIST is not permitted)"
    return f"{text}; to start consumers: {command('consume', queue, namespace=namespace, options=APP)}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
