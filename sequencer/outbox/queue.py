"""The queue to which a relay sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import calls
from ..client import Sequencer
from ..errors import SequencerError
from ..net.blocking import finish
from ..queue.append import refusal
from ..queue.pages import read
from ..store.group import shard_of
from ..store.item import Item


class Numbered(NamedTuple):
    """A batch of messages of one shard, all or none of which is stored."""

    shard: int
    number: int
    before: int
    """The number of the batch that this relay stored there last."""
    items: Sequence[Item]


class RelayQueue:
    """Of a Sequencer. Raises ServerError."""

    def __init__(self, client: Sequencer) -> None:
        self._session, self.name = client._session, client.queue

    def shards_of(self, groups: Sequence[str]) -> list[int]:
        """The shard of each encoded group."""
        count = len(finish(self._session.shards("append")))
        return [shard_of(group, count) for group in groups]

    def last_batches(self, relay: str) -> list[int]:
        """The number of the batch that this relay stored last, by shard; 0 where it stored none."""
        commands = [("HGET", keys.relays, relay) for keys in finish(self._session.shards())]
        return finish(read(self._session.net, lambda *found: [int(one or 0) for one in found], *commands))

    def send_batches(self, relay: str, batches: Sequence[Numbered]) -> list[int | SequencerError | None]:
        """Send batches in one round trip. None: stored now; a number: nothing stored, as that is the last one in the
        shard already; an error: nothing stored, because of what the error names. After QueueFull, repeat.
        """
        shards = finish(self._session.shards("append"))
        todo = [
            calls.append_batch(shards[one.shard], one.items, calls.RelayBatch(relay, one.number, one.before))
            for one in batches
        ]
        answer = finish(self._session.net.ask_all(todo))
        return [_outcome(one, found) for one, found in zip(batches, answer.value, strict=True)]


def _outcome(batch: Numbered, found: list[calls.ItemOutcome] | int) -> int | SequencerError | None:
    if isinstance(found, int):
        return found
    outcomes = zip(batch.items, found, strict=True)
    return next((refusal(item, one) for item, one in outcomes if one.outcome in calls.REFUSALS), None)
