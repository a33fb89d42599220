"""How much is in a queue, who uses it, and how it is deleted. Operations over a net."""

from __future__ import annotations

from ...calls.net_protocol import Alone, Net
from ...errors import ConfigurationError
from ...store.keys import ShardKeys, consumer_name, registry_key, shard_keys
from ...store.replies import Reading, scanned, texts
from ...values.views import Usage
from ..session import Session
from .deletion import PAGE, QueueUsers, delete_queue, find_shards, users


async def usage(session: Session) -> Usage:
    """Who uses the queue, and how much is in it. Raises ConfigurationError where there is no such queue."""
    options, net = session.options, session.net
    async with net.alone(registry_key(options.namespace, options.queue)) as alone:
        there = await find_shards(net, alone, options)
        if there is None:
            raise _unknown(session)
        shards = [shard_keys(options.namespace, options.queue, tag) for tag in there.tags]
        found: QueueUsers = await users(net, alone, shards, consumer_name(options.namespace, options.queue))
        sizes = await alone.send([("ZCARD", key) for keys in shards for key in (keys.schedule, keys.dead)])
        messages = sum([await _messages(net, alone, keys) for keys in shards])
    clients = None if found.clients is None else tuple(found.clients)
    return Usage(messages, sum(sizes[::2]), sum(sizes[1::2]), found.leases, tuple(found.owners), clients)


async def _messages(net: Net, alone: Alone, keys: ShardKeys) -> int:
    """How many a shard holds, page by page."""
    count = 0
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await alone.send([("ZSCAN", keys.schedule, cursor, "COUNT", PAGE)])
        with Reading(net.name):
            cursor, words = scanned(page)
            groups = texts(words[::2])
        if groups:
            count += sum(await alone.send([("ZCARD", keys.order(group)) for group in groups]))
    return count


async def delete(session: Session) -> int:
    """Delete the queue for good: its messages, dead letters, policy and name; how many groups had messages.

    A producer that is connected registers it again with its next append, a consumer with its next claim, and each logs
    a WARNING; a handler that runs goes on, and its lease is lost. A deletion that was broken off leaves a queue that
    nobody can use; `delete` again ends it. Raises ConfigurationError where there is no such queue.
    """
    options = session.options
    session.forget()  # else a connection that is new would bring it back first
    async with session.net.alone(registry_key(options.namespace, options.queue)) as alone:
        return await delete_queue(session.net, alone, options)


def _unknown(session: Session) -> ConfigurationError:
    options = session.options
    return ConfigurationError(f"there is no queue {options.queue!r} in namespace {options.namespace!r}")
