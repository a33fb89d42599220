"""What a relay of an outbox sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import calls
from ..errors import SequencerError
from ..store.group import shard_of
from ..store.item import Item
from .append import refusal
from .pages import read
from .session import Session


class Numbered(NamedTuple):
    """A batch of messages of one shard, all or none of which is stored."""

    shard: int
    number: int
    before: int
    """The number of the batch that this relay stored there last."""
    items: Sequence[Item]


async def shards_of(session: Session, groups: Sequence[str]) -> list[int]:
    """The shard of each encoded group."""
    count = len(await session.shards("append"))
    return [shard_of(group, count) for group in groups]


async def last_batches(session: Session, relay: str) -> list[int]:
    """The number of the batch that this relay stored last, by shard; 0 where it stored none."""
    commands = [("HGET", keys.relays, relay) for keys in await session.shards()]
    return await read(session.net, lambda *found: [int(one or 0) for one in found], *commands)


async def send_batches(session: Session, relay: str, batches: Sequence[Numbered]) -> list[int | SequencerError | None]:
    """Send batches in one round trip. None: stored now; a number: nothing stored, as that is the last one in the shard
    already; an error: nothing stored, because of what the error names. Raises ServerError, QueueFull; then repeat.
    """
    shards = await session.shards("append")
    todo = [
        calls.append_batch(shards[one.shard], one.items, calls.RelayBatch(relay, one.number, one.before))
        for one in batches
    ]
    answer = await session.net.ask_all(todo)
    return [_outcome(one, found) for one, found in zip(batches, answer.value, strict=True)]


def _outcome(batch: Numbered, found: list[calls.ItemOutcome] | int) -> int | SequencerError | None:
    if isinstance(found, int):
        return found
    outcomes = zip(batch.items, found, strict=True)
    return next((refusal(item, one) for item, one in outcomes if one.outcome in calls.REFUSALS), None)
