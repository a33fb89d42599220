"""What is said of groups that are held too long, queues that nobody consumes, and scores in several units. Pure."""

from __future__ import annotations

from ..values.owner import NoConsumers
from ..values.score_units import UNITS, Examples
from .commands import OWNER, command, end_command
from .words import many, moment, named

APP = ["--app", "MODULE:NAME"]
"""To be filled in: without it, consume would print the messages, and they would be gone."""


def advice(owner: str) -> str:
    """What helps where a consumer has held a group for too long."""
    return f"that is long; {ending(owner)}, and set --handler-timeout"


def ending(owner: str) -> str:
    """What ends a handler that hangs, in a sentence."""
    found = OWNER.fullmatch(owner)
    end = f"end that process (on {found['host']}: {end_command(owner)})" if found else "end that consumer"
    return f"if its handler hangs, {end}; if that is gone already, its lease ends by itself"


def no_consumers_text(one: NoConsumers, queue: str, namespace: str) -> str:
    """What is seen, and the command that begins to consume."""
    due = f"{many(one.groups, 'group')} {'is due,' if one.groups == 1 else 'are due, the first'}"
    text = f"nobody consumes: {due} since {moment(one.since)} ({one.waits_s:.0f} s), and no consumer has a group "
    text += "in progress"
    if one.last_owner:
        text += f"; the lease of {one.last_owner} ran out at {moment(one.last_until or 0.0)}"
    if one.connections:
        text += f"; connections of consumers that are open, and claim nothing: {one.connections:,} (see their log)"
    elif one.connections == 0:
        text += "; no connection says that it is a consumer's"
    else:
        text += "; who is connected can't be seen (CLIENT LIST is not permitted)"
    return f"{text}; to start consumers: {command('consume', queue, namespace=namespace, options=APP)}"


def mixed(examples: Examples) -> str:
    """That scores are in these units, each with its example."""
    said = ", ".join(
        f"{name} (group {named(examples[name][0])}: {examples[name][1]:.17g})" for _, name in UNITS if name in examples
    )
    return f"scores look like times in {said}, which do not order each other"
