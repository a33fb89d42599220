"""The index of a namespace: the names of its queues, which only lists of queues need. Operations over a net."""

from __future__ import annotations

import logging
from typing import Any

from ...calls.net_protocol import Alone, Command, Net
from ...errors import DataError, SequencerError
from ...settings.options import QueueOptions
from ...store.keys import index_key
from ...store.registration import INDEX_WORD, foreign_index, indexed
from ...store.replies import Reading

log = logging.getLogger("sequencer")


async def queue_names(net: Net, namespace: str) -> list[str]:
    """The names of all queues of a namespace; one with a foreign value is left out. Raises ServerError."""
    key = index_key(namespace)
    try:
        (words,) = await net.read([("HGETALL", key)])
    except DataError as error:
        raise index_error(error, namespace) from error
    with Reading(net.name):
        return sorted(indexed(words))


async def write_index(alone: Alone, options: QueueOptions, *, is_new: bool) -> list[str]:
    """For a new queue, the names of all are read in the same round trip: one like its own may have been meant."""
    index = index_key(options.namespace)
    reading: list[Command] = [("HGETALL", index)] if is_new else []
    answers = await _changed(alone, options, ("HSET", index, options.queue, INDEX_WORD), *reading)
    with Reading(alone.name):
        return [name for words in answers[1:] for name in indexed(words)]


async def remove_from_index(alone: Alone, options: QueueOptions) -> None:
    """Of a queue that is gone."""
    await _changed(alone, options, ("HDEL", index_key(options.namespace), options.queue))


async def _changed(alone: Alone, options: QueueOptions, *commands: Command) -> list[Any]:
    """What these commands answer. Who can't write the index goes on: only lists of queues need it."""
    try:
        return await alone.read(commands)
    except SequencerError as error:
        said = str(index_error(error, options.namespace))
        log.warning("queue %s: %s can't be changed (%s); see doctor", options.queue, index_key(options.namespace), said)
        return []


def index_error(error: SequencerError, namespace: str) -> SequencerError:
    """Where the index is of another type, the error that says so and what fixes it; else the same."""
    is_foreign = error.code == "wrong_type"
    return DataError(foreign_index(index_key(namespace), namespace)) if is_foreign else error
