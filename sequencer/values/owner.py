"""The name of a consumer, by which a lease says who holds it: host, process and a few random characters; and whether
it has held that for too long. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .commands import command, id_option
from .text import plain

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
