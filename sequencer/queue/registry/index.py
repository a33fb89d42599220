"""Writes a queue into the index of its namespace, which only lists of queues need. Operations over a connection."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from ...calls.net_protocol import Alone, Command
from ...errors import DataError, SequencerError
from ...settings.options import QueueOptions
from ...store.keys import index_key, shard_keys
from ...store.registration import INDEX_WORD, foreign_index, indexed
from ...store.replies import Reading

log = logging.getLogger("sequencer")


async def write_index(alone: Alone, server: str, options: QueueOptions, *, is_new: bool) -> list[str]:
    """Who can't write it goes on. For a new queue, the names of all are read in the same round trip: one like its own
    may have been meant.
    """
    index, names = index_key(options.namespace), list[str]()
    refresh: list[Command] = [("HGETALL", index)] if is_new else []
    try:
        _, *answers = await alone.send([("HSET", index, options.queue, INDEX_WORD), *refresh])
        with Reading(server):
            names = [name for words in answers for name in indexed(words)]
    except SequencerError as error:
        said = str(index_error(error, options.namespace))
        log.warning("queue %s: can't be written into %s (%s); see doctor", options.queue, index, said)
    return names


async def most_used(alone: Alone, namespace: str, queues: Sequence[str]) -> str:
    """The queue to which most was appended, by shard 0, which each has; among equals, or where that can't be read, the
    first; "" of none. It costs a round trip where there are several.
    """
    used = list(queues[:1])
    if len(queues) > 1:
        with suppress(SequencerError, ValueError):
            checks: list[Command] = [("HGET", shard_keys(namespace, queue, 0).stats, "appended") for queue in queues]
            counts = [int(count or 0) for count in await alone.send(checks)]
            used = [queues[counts.index(max(counts))]]
    return next(iter(used), "")


async def remove_from_index(alone: Alone, options: QueueOptions) -> None:
    """Of a queue that is gone: where the index can't be written, that is no reason to say that it is still there."""
    index = index_key(options.namespace)
    try:
        await alone.send([("HDEL", index, options.queue)])
    except DataError as error:
        said = str(index_error(error, options.namespace))
        log.warning("queue %s: can't be taken out of %s (%s); see doctor", options.queue, index, said)


def index_error(error: SequencerError, namespace: str) -> SequencerError:
    """Where the index is of another type, the error that says so and what fixes it; else the same."""
    is_foreign = isinstance(error, DataError) and "WRONGTYPE" in str(error)
    return DataError(foreign_index(index_key(namespace), namespace)) if is_foreign else error
