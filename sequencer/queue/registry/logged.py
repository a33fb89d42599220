"""Events of a queue's registration: no consumer emits them, so they go into the log at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ...texts.commands import command, move_all, moving
from ...texts.events import Event, event
from ...texts.words import many

log = logging.getLogger("sequencer")


def policy_changed(queue: str, policy: str, before: Any, now: Any) -> Event:
    """A client set another policy than the server had."""
    fields = {"policy": policy, "before": before, "now": now}
    return event("policy changed", queue, f"{policy} from {before!r} to {now!r}", fields)


def queue_restored(queue: str, shards: int, *, from_shard: bool = False) -> Event:
    """The server had lost what it knew of the queue, or only its registration, which the first shard has too."""
    lost = "its registration was lost" if from_shard else "the server did not know it any more"
    return event("queue restored", queue, f"{lost}; registered again, with {many(shards, 'shard')}", {"shards": shards})


def queue_new(queue: str, near: str, namespace: str) -> Event:
    """A client made a queue; `near`: the one that was perhaps meant, or ""."""
    said, first, fix = "", "", ""
    if near:
        first, fix = command("pause", near, namespace=namespace), move_all(queue, near, namespace)
        said = f"; there is {near!r}; if that was meant, {moving(queue, near, namespace)}"
    fields = {"near": near, "first": first, "fix": fix}
    return event("queue new", queue, f"queue {queue!r} is new{said}", fields)


def tell(told: Event) -> None:
    """Log an event that no consumer emits."""
    log.log(told.level, told.text, extra={"event": told.name, "queue": told.queue, **told.fields})


def tell_changes(queue: str, asked: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Log each option that was asked for, and was another before."""
    for name in asked:
        if name in before and before[name] != now[name]:
            tell(policy_changed(queue, name, before[name], now[name]))
