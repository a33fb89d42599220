"""The index of a namespace: the names of its queues, which only lists of queues need. Operations over a net."""

from __future__ import annotations

from typing import Any

from ...calls.net_protocol import Alone, Command, Net
from ...errors import SequencerError
from ...settings.options import QueueOptions
from ...store.keys import index_key
from ...store.registration import INDEX_WORD, indexed
from ...store.replies import Reading
from ...texts.events import event, log_event
from ..pages import read


async def queue_names(net: Net, namespace: str) -> list[str]:
    """The names of all queues of a namespace. Raises ServerError."""
    return sorted(await read(net, indexed, ("HGETALL", index_key(namespace))))


async def write_index(alone: Alone, options: QueueOptions, *, is_new: bool) -> list[str]:
    """For a new queue, the names of all are read in the same round trip: one like its own may have been meant."""
    index = index_key(options.namespace)
    reading: list[Command] = [("HGETALL", index)] if is_new else []
    answers = await _changed(alone, options, ("HSET", index, options.queue, INDEX_WORD), *reading)
    with Reading(alone.name):
        return [name for words in answers[1:] for name in indexed(words)]


async def remove_from_index(alone: Alone, options: QueueOptions) -> None:
    await _changed(alone, options, ("HDEL", index_key(options.namespace), options.queue))


async def _changed(alone: Alone, options: QueueOptions, *commands: Command) -> list[Any]:
    """What these commands answer. Who can't write the index goes on."""
    try:
        return await alone.read(commands)
    except SequencerError as error:
        log_event(event("queue not listed", options.queue, namespace=options.namespace, error=error))
        return []
