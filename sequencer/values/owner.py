"""Who has groups of a queue in hand: the name of a consumer (host, process and a few random characters), whether it has
held one for too long, and that nobody consumes at all. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .commands import command, id_option
from .text import many, moment, plain

_NAME = re.compile(r"(?P<host>.+):(?P<pid>\d{1,10}):[0-9a-f]{6}")


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


def advice(owner: str) -> str:
    """What helps where a consumer has held a group for too long."""
    return f"that is long; {ending(owner)}, and set --handler-timeout"


def ending(owner: str) -> str:
    """What ends a handler that hangs, in a sentence."""
    found = _NAME.fullmatch(owner)
    end = f"end that process (on {found['host']}: {end_command(owner)})" if found else "end that consumer"
    return f"if its handler hangs, {end}; if that is gone already, its lease ends by itself"


def removal(owner: str, id: str, group: Sequence[str], queue: str, namespace: str, *, is_paused: bool = False) -> str:
    """What takes a message away that hangs in the hands of a consumer: commands, in the order to run them in.

    Without the pause another consumer takes the message over, and hangs too. `is_paused`: the group or the queue is.
    """
    found = _NAME.fullmatch(owner)
    end = f"on {found['host']}: {end_command(owner)}" if found else "end that consumer"
    pause, unpause = (command(name, queue, *group, namespace=namespace) for name in ("pause", "unpause"))
    said = f"that message is tried again then; to take {plain(id)} away instead, in this order: "
    said += "" if is_paused else f"{pause}; "
    said += f"{end}; once its lease ran out: {skipping(id, group, queue, namespace)}"
    return said if is_paused else f"{said}; {unpause}"


def skipping(id: str, group: Sequence[str], queue: str, namespace: str) -> str:
    """The command that takes away a message whose lease ran out."""
    return command("skip", queue, *group, namespace=namespace, options=[*id_option(id), "--dead-letter"])


def owner_text(host: str, pid: int, mark: int) -> str:
    """The name of the consumer in this process; `mark` tells it from others there."""
    return f"{host}:{pid}:{mark:06x}"


def end_command(owner: str) -> str:
    """The command that ends the process of a consumer, on its own host; "" for a name that is not one of ours."""
    found = _NAME.fullmatch(owner)
    return f"kill -KILL {found['pid']}" if found else ""


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
    text = f"nobody consumes: {due} since {moment(one.since)} ({one.waits_s:.0f} s), and no consumer has a group in "
    text += "hand"
    if one.last_owner:
        text += f"; the lease of {one.last_owner} ran out at {moment(one.last_until or 0.0)}"
    if one.connections:
        text += f"; connections of consumers that are open, and claim nothing: {one.connections:,} (see their log)"
    elif one.connections == 0:
        text += "; no connection says that it is a consumer's"
    else:
        text += "; who is connected can't be seen (CLIENT LIST is not permitted)"
    return f"{text}; to start consumers: {command('consume', queue, namespace=namespace, options=APP)}"
