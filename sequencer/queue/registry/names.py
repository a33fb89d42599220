"""The names of all queues, as the index has them: an operation over a net."""

from __future__ import annotations

import logging

from ...calls.net_protocol import SERVER, Net
from ...doctor.server import parse_info
from ...errors import DataError, ServerNotUsable
from ...store.keys import index_key
from ...store.registration import indexed
from ...store.replies import Reading
from ...texts.commands import command
from ...texts.words import many
from .index import index_error

log = logging.getLogger("sequencer")


async def queue_names(net: Net, namespace: str) -> list[str]:
    """The names of all queues of a namespace; one with a foreign value is left out. Raises ServerError.

    A server that has evicted keys may have evicted the index: then a client that is in use writes its own queue into a
    new one, and a WARNING says that others may be missing.
    """
    key = index_key(namespace)
    try:
        (words,) = await net.read(key, [("HGETALL", key)])
    except DataError as error:
        raise index_error(error, namespace) from error
    with Reading(net.name):
        names = sorted(indexed(words))
    if count := await _evicted(net):
        said = "the server has evicted %s since it began: queues may be missing from %s, and so from this list; "
        said += "to list them again: %s; then, so that it is not said again, send CONFIG RESETSTAT to the server"
        log.warning(said, many(count, "key"), key, command("doctor", options=["--repair"], namespace=namespace))
    return names


async def _evicted(net: Net) -> int:
    """How many keys, where they may be some of ours: `volatile-*` takes none without a time to live."""
    try:
        (text,) = await net.read(SERVER, [("INFO",)])
    except ServerNotUsable:  # fakeredis has no INFO
        return 0
    with Reading(net.name):
        info = parse_info(text.decode("utf-8", "replace"))
        is_of_others = info.get("maxmemory_policy", "").startswith("volatile-")
        return 0 if is_of_others else int(info.get("evicted_keys", "0"))
