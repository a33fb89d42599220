"""Incidents: opened and closed by checks, sent by the process that has the grant, and listed. Operations over a net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import calls
from ...calls.alerts import AlertTimes, Condition, Grant
from ...store.keys import ShardKeys
from ...store.replies import pairs, text
from ...store.text import loads_words
from ...values.alerts import Incident, NotifiedTarget
from ..pages import read
from ..session import Session


async def take_seen(
    session: Session, seen: Sequence[Condition], targets: Sequence[str], times: AlertTimes
) -> list[Grant]:
    """Say what is seen of the queue; what this caller alone may tell now, while it holds. Raises ServerError."""
    await session.allow("operate")
    return await session.ask(calls.alert(await _first(session), seen, targets, times))


async def sent(session: Session, grant: Grant) -> bool:
    """Record that the target accepted the message. Raises ServerError: then it may be sent again."""
    return await session.ask(calls.alert_sent(await _first(session), grant))


async def alerts(session: Session) -> list[Incident]:
    """The incidents of the queue that are open, or over, with a target still to be notified.

    They are kept up to date by a master (`sequencer run`) or `sequencer watch`. None are known while the first shard,
    which keeps them, is the one in a cluster that can't be reached. Raises ServerError.
    """

    def incidents(words: Sequence[bytes]) -> list[Incident]:
        found = [_incident(session, text(kind), loads_words(record)) for kind, record in pairs(words)]
        return sorted(found, key=lambda one: one.opened_at)

    first = (await session.reachable()).shards[0]
    return await read(session.net, incidents, ("HGETALL", first.alerts)) if first.is_first else []


def key_of(namespace: str, queue: str, kind: str, opened_us: int) -> str:
    """What all messages of an incident have in common."""
    return f"{namespace}:{queue}:{kind}:{opened_us}"


def _incident(session: Session, kind: str, record: dict[str, Any]) -> Incident:
    options, opened_us = session.options, int(record["opened"])
    notified = (NotifiedTarget(name, int(to["n"]), _at(to, "sent")) for name, to in sorted(dict(record["to"]).items()))
    return Incident(
        queue=options.queue,
        kind=kind,
        opened_at=opened_us / 1e6,
        value=str(record.get("value", "")),
        text=str(record.get("text", "")),
        seen_at=int(record.get("seen", opened_us)) / 1e6,
        resolved_at=_at(record, "resolved"),
        notified=tuple(notified),
        key=key_of(options.namespace, options.queue, kind, opened_us),
    )


def _at(record: dict[str, Any], name: str) -> float | None:
    return int(record[name]) / 1e6 if name in record else None


async def _first(session: Session) -> ShardKeys:
    return (await session.shards())[0]
