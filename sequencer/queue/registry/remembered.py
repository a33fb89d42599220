"""Which fields of a body a queue remembers: they are registered with its policy."""

from __future__ import annotations

import logging

from ...calls.net_protocol import Alone
from ...errors import ConfigurationError
from ...settings.body_fields import BODY_FIELDS, BodyFields, merge_fields, read_fields, write_fields
from ...settings.options import QueueOptions
from ...store.keys import shard_keys
from ...store.registration import Registration
from ...store.replies import Reading

log = logging.getLogger("sequencer")


async def merged_fields(
    alone: Alone, name: str, options: QueueOptions, there: Registration, asked: BodyFields
) -> str | None:
    """The text of a queue's body fields with those asked for; None for none. `name` is that of the server.

    Others than its own are told, or refused once it has been used: before the first message a wrong name was perhaps
    only tried. Raises ConfigurationError.
    """
    queue, stored = options.queue, there.policy.get(BODY_FIELDS)
    with Reading(name):
        known = read_fields(stored)
    try:
        found = merge_fields(queue, known, asked)
    except ConfigurationError:
        shards = [shard_keys(options.namespace, queue, tag) for tag in there.tags]
        counts = await alone.send([("HGET", keys.stats, "appended") for keys in shards])
        if any(count not in (None, b"0") for count in counts):
            raise
        found = merge_fields(queue, known, asked, is_used=False)
        for name, old, new in zip(found._fields, known, found, strict=True):
            if old not in (None, new):
                said = "queue %s: %s was %s, and nothing was appended by it; it is %s now"
                log.warning(said, queue, name, _written(old), _written(new))
    return write_fields(found, stored) if found != known else stored


def _written(names: str | tuple[str, ...] | None) -> str:
    """As the option of a command has it."""
    return names if isinstance(names, str) else ",".join(names or ())
