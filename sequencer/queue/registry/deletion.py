"""Deletes a queue: from its registration to its last key, so that who stops in between leaves nothing half used.

First a table is made that no client brings the generation of: nobody appends or claims any more, and an older table is
refused. Then the groups go by pages, then what else lies in the shards, then the registry. The next deletion goes on
with one that was broken off.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...calls.net_protocol import Alone, Net
from ...calls.register import register, sync_shard, unregister
from ...doctor.leases import clients_named
from ...doctor.rights import SCRATCH
from ...errors import ConfigurationError, ServerUnavailable
from ...settings.options import QueueOptions
from ...store.keys import ShardKeys, consumer_name, index_key, registry_key, shard_keys
from ...store.record import owner_of
from ...store.registration import Registration, of_shard, plain_tags, registered
from ...store.replies import Reading, field_texts, text, texts
from ...values.views import Usage
from ..counts import backlog
from ..pages import read, scan
from ..session import Session
from ..views import leases_of
from .generation_search import PAUSE_S, ROUNDS, answer_pending, ask
from .index import remove_from_index

PAGE = 500


async def find_shards(alone: Alone, options: QueueOptions) -> Registration | None:
    """What is registered, or what the first shard says; None where nothing is left of the queue. Changes nothing."""
    first, names = shard_keys(options.namespace, options.queue, 0), (options.namespace, options.queue)
    fields, shard, has_keys = await alone.read(
        [
            ("HGETALL", registry_key(*names)),
            ("HGETALL", first.policy),
            ("EXISTS", first.clock, first.schedule, first.dead, first.dead_letters, first.stats),
        ]
    )
    with Reading(alone.name):
        # The shard is only read where nothing is registered: one that others damaged can be deleted.
        if there := registered(field_texts(fields)) or of_shard(field_texts(shard)):
            return there
    (word,) = await alone.answers([("HGET", index_key(options.namespace), options.queue)])
    if has_keys or isinstance(word, bytes):  # a server may have evicted the rest
        return Registration(0, 0, plain_tags(options.shards or 1), {})
    return None


async def usage(session: Session) -> Usage:
    """Who uses the queue, and how much is in it. Raises ConfigurationError if there is no such queue."""
    options = session.options
    async with session.net.alone() as alone:
        there = await find_shards(alone, options)
        if there is None:
            raise ConfigurationError("queue_unknown", **session.names)
        messages = groups = dead = leases = 0
        owners = set[str]()
        for keys in there.keys(options):
            held = await leases_of(alone, keys)
            leases, owners = leases + len(held), owners | {owner_of(lease) for lease in held.values()}
            size, died = await alone.read([("ZCARD", keys.schedule), ("ZCARD", keys.dead)])
            groups, dead = groups + size, dead + died
            messages += (await backlog(alone, keys, size, size))[1]
        clients = await clients_named(alone, consumer_name(options.namespace, options.queue))
    addresses = None if clients is None else tuple(sorted({one["addr"] for one in clients}))
    return Usage(messages, groups, dead, leases, tuple(sorted(owners)), addresses)


async def delete(session: Session) -> int:
    """Delete the queue for good: its messages, dead letters, policy and name; returns how many groups had messages.

    A producer that is still connected registers it again with its next append, a consumer with its next claim, and each
    logs a WARNING; a running handler goes on, but its lease is lost. An interrupted deletion leaves a queue that can't
    be used until `delete` is called again. Raises ConfigurationError if there is no such queue.
    """
    session.forget()  # else a connection that is new would bring it back first
    scratch = shard_keys(session.options.namespace, session.options.queue, SCRATCH).order("")
    async with session.net.alone() as alone:
        # Who lacks a right is refused before anything is gone.
        await alone.read([("SCAN", 0, "COUNT", 1), ("UNLINK", scratch), ("ZREM", scratch, "")])
        return await delete_queue(session.net, alone, session.options)


async def delete_queue(net: Net, alone: Alone, options: QueueOptions) -> int:
    """As `delete`. Raises ConfigurationError, ServerUnavailable."""
    there = await find_shards(alone, options)
    if there is None:
        raise ConfigurationError("queue_unknown", queue=options.queue, namespace=options.namespace)
    gone = await _close(net, alone, options, there)
    shards = there.keys(options)
    count = sum([await _delete_groups(alone, keys) for keys in shards])
    await _delete_rest(alone, options, shards)
    await remove_from_index(alone, options)  # while nobody can make it again: else that one would not be listed
    await ask(alone, [unregister(registry_key(options.namespace, options.queue), gone)])
    return count


async def _close(net: Net, alone: Alone, options: QueueOptions, there: Registration) -> Registration:
    """The table that nobody uses, registered and in each shard."""
    registry, least = registry_key(options.namespace, options.queue), there.generation_number
    for number in range(ROUNDS):
        if number:
            await net.sleep(PAUSE_S * number)
        seen = await read(alone, lambda words: registered(field_texts(words)), ("HGETALL", registry))
        if seen is None or not seen.is_deleted or seen.generation_number < least:
            least = max(least, seen.generation_number if seen else 0)
            wanted = replace(seen or there, is_deleted=True, generation_number=least, version=0)
            (seen,) = await ask(alone, [register(registry, seen, wanted, is_new=True)])
        if seen is not None and seen.is_deleted:
            shards = seen.keys(options)
            put = await ask(alone, [sync_shard(keys, seen) for keys in shards])
            await answer_pending(alone, seen, shards, put, "confirm")
            newer = [of_shard(one.fields) for one in put if one.status == "newer"]
            if not newer:
                return seen
            least = max([least, *[one.generation_number for one in newer if one]])
    raise ServerUnavailable("queue_contended", queue=options.queue)


async def _delete_groups(alone: Alone, keys: ShardKeys) -> int:
    count = 0
    while True:
        groups = await read(alone, texts, ("ZRANGE", keys.schedule, 0, PAGE - 1))
        if not groups:
            return count
        names = [name for group in groups for name in (keys.order(group), keys.body(group))]
        await alone.read([("UNLINK", *names), ("ZREM", keys.schedule, *groups)])
        count += len(groups)


async def _delete_rest(alone: Alone, options: QueueOptions, shards: list[ShardKeys]) -> None:
    """What else lies in the shards; the policy last, since it keeps clients off. Also of shards beyond the table."""
    start = shard_keys(options.namespace, options.queue, "").prefix.partition("}")[0]
    is_own = re.compile(re.escape(start) + r"\d{1,4}(\.\d+)?}:").match  # the tag of a shard, and no registry
    policies = {keys.policy for keys in shards}
    for node in await alone.nodes():
        async for words in scan(node, "SCAN", count=1000, options=("MATCH", f"{start}*")):
            with Reading(alone.name):
                found = [name for name in map(text, words) if is_own(name)]
            if some := [name for name in found if name not in policies]:
                await alone.read([("UNLINK", name) for name in some])  # not all need be in one hash slot
    await alone.read([("UNLINK", name) for name in sorted(policies)])
