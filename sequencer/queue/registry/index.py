"""The index of a namespace: the names of its queues, which only lists of queues need. Operations over a net."""

from __future__ import annotations

import logging

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
    """Who can't write it goes on. For a new queue, the names of all are read in the same round trip: one like its own
    may have been meant.
    """
    index, names = index_key(options.namespace), list[str]()
    reading: list[Command] = [("HGETALL", index)] if is_new else []
    try:
        _, *answers = await alone.read([("HSET", index, options.queue, INDEX_WORD), *reading])
        with Reading(alone.name):
            names = [name for words in answers for name in indexed(words)]
    except SequencerError as error:
        said = str(index_error(error, options.namespace))
        log.warning("queue %s: can't be written into %s (%s); see doctor", options.queue, index, said)
    return names


async def remove_from_index(alone: Alone, options: QueueOptions) -> None:
    """Of a queue that is gone: where the index can't be written, that is no reason to say that it is still there."""
    index = index_key(options.namespace)
    try:
        await alone.read([("HDEL", index, options.queue)])
    except DataError as error:
        said = str(index_error(error, options.namespace))
        log.warning("queue %s: can't be taken out of %s (%s); see doctor", options.queue, index, said)


def index_error(error: SequencerError, namespace: str) -> SequencerError:
    """Where the index is of another type, the error that says so and what fixes it; else the same."""
    is_foreign = error.code == "wrong_type"
    return DataError(foreign_index(index_key(namespace), namespace)) if is_foreign else error
