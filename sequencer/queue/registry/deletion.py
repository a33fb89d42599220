"""Deletes a queue: from its registration to its last key, so that who stops in between leaves nothing half used.

First a table is made that no client brings the generation of: nobody appends or claims any more, and who was about to
bring
an older table to a shard is refused. Then the groups go by pages, then what else lies in the shards, then the registry.
A deletion that was broken off is gone on with by the next one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...calls.net_protocol import Alone, Net
from ...calls.register import register, sync_shard, unregister
from ...errors import ConfigurationError, SequencerError, ServerUnavailable
from ...settings.options import MAX_SHARDS, QueueOptions
from ...store.keys import ShardKeys, consumer_name, index_key, registry_key, shard_keys
from ...store.record import owner_of
from ...store.registration import Registration, of_shard, plain_tags, registered
from ...store.replies import Reading, field_texts, text, texts
from ...values.views import Usage
from ..pages import scan
from ..session import Session
from ..views import leases_of
from .generation_search import PAUSE_S, ROUNDS, ask
from .index import remove_from_index

PAGE = 500
"""Groups deleted in one round trip."""


class QueueUsers(NamedTuple):
    """Who uses a queue now, as far as can be seen."""

    leases: int
    """Groups that are leased."""
    owners: list[str]
    """Who holds them."""
    clients: list[str] | None
    """Connected consumers that say their names; None where the user may not ask."""


async def users(alone: Alone, shards: list[ShardKeys], name: str) -> QueueUsers:
    """Who holds leases, and who is connected. `name` is what the connections of its consumers are called."""
    found = [lease for keys in shards for lease in (await leases_of(alone, keys)).values()]
    (said,) = await alone.answers([("CLIENT", "LIST")])
    owners = sorted({owner_of(lease) for lease in found})
    if isinstance(said, SequencerError):
        return QueueUsers(len(found), owners, None)
    with Reading(alone.name):
        lines = said.decode("utf-8", "replace").splitlines()
        clients = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return QueueUsers(len(found), owners, sorted({one["addr"] for one in clients if one.get("name") == name}))


async def find_shards(alone: Alone, options: QueueOptions) -> Registration | None:
    """What is registered, or what the first shard says; None where nothing is left of the queue. Changes nothing."""
    first = shard_keys(options.namespace, options.queue, 0)
    registry = registry_key(options.namespace, options.queue)
    fields, shard, has_keys = await alone.read(
        [
            ("HGETALL", registry),
            ("HGETALL", first.policy),
            ("EXISTS", first.clock, first.schedule, first.dead, first.dead_letters, first.stats),
        ]
    )
    with Reading(alone.name):
        policy = field_texts(shard)
        there = registered(field_texts(fields)) or of_shard(policy)
    if there is None and (has_keys or await _is_listed(alone, options)):
        return Registration(0, 0, plain_tags(options.shards or 1), {})
    return there


async def _is_listed(alone: Alone, options: QueueOptions) -> bool:
    """Whether the index still has it, as where a server evicted the rest."""
    (word,) = await alone.answers([("HGET", index_key(options.namespace), options.queue)])
    return isinstance(word, bytes)


async def usage(session: Session) -> Usage:
    """Who uses the queue, and how much is in it. Raises ConfigurationError where there is no such queue."""
    options = session.options
    async with session.net.alone() as alone:
        there = await find_shards(alone, options)
        if there is None:
            raise ConfigurationError("queue_unknown", **session.names)
        shards = [shard_keys(options.namespace, options.queue, tag) for tag in there.tags]
        found = await users(alone, shards, consumer_name(options.namespace, options.queue))
        sizes = await alone.read([("ZCARD", key) for keys in shards for key in (keys.schedule, keys.dead)])
        messages = sum([await _messages(alone, keys) for keys in shards])
    clients = None if found.clients is None else tuple(found.clients)
    return Usage(messages, sum(sizes[::2]), sum(sizes[1::2]), found.leases, tuple(found.owners), clients)


async def _messages(alone: Alone, keys: ShardKeys) -> int:
    """How many a shard holds, page by page."""
    count = 0
    async for words in scan(alone, "ZSCAN", keys.schedule, count=PAGE):
        with Reading(alone.name):
            groups = texts(words[::2])
        if groups:
            count += sum(await alone.read([("ZCARD", keys.order(group)) for group in groups]))
    return count


async def delete(session: Session) -> int:
    """Delete the queue for good: its messages, dead letters, policy and name; how many groups had messages.

    A producer that is connected registers it again with its next append, a consumer with its next claim, and each logs
    a WARNING; a handler that runs goes on, and its lease is lost. A deletion that was broken off leaves a queue that
    nobody can use; `delete` again ends it. Raises ConfigurationError where there is no such queue.
    """
    session.forget()  # else a connection that is new would bring it back first
    async with session.net.alone() as alone:
        return await delete_queue(session.net, alone, session.options)


async def delete_queue(net: Net, alone: Alone, options: QueueOptions) -> int:
    """Delete all of a queue, and say how many groups had messages.

    Raises ConfigurationError where there is none, ServerUnavailable.
    """
    there = await find_shards(alone, options)
    if there is None:
        raise ConfigurationError("queue_unknown", queue=options.queue, namespace=options.namespace)
    gone = await _close(net, alone, options, there)
    shards, count = [shard_keys(options.namespace, options.queue, tag) for tag in there.tags], 0
    for keys in shards:
        count += await _delete_groups(alone, keys)
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
        (fields,) = await alone.read([("HGETALL", registry)])
        with Reading(alone.name):
            seen = registered(field_texts(fields))
        if seen is None or not seen.is_deleted or seen.generation_number < least:
            least = max(least, seen.generation_number if seen else 0)
            wanted = replace(seen or there, is_deleted=True, generation_number=least, version=0)
            (seen,) = await ask(alone, [register(registry, seen, wanted, is_new=True)])
        if seen is not None and seen.is_deleted:
            shards = [shard_keys(options.namespace, options.queue, tag) for tag in seen.tags]
            put = await ask(alone, [sync_shard(keys, seen) for keys in shards])
            pending = [
                (keys, one.fields["pending"]) for keys, one in zip(shards, put, strict=True) if one.status == "pending"
            ]
            await ask(alone, [sync_shard(keys, seen, "confirm", pending=mine) for keys, mine in pending])
            newer = [of_shard(one.fields) for one in put if one.status == "newer"]
            if not newer:
                return seen
            least = max([least, *[one.generation_number for one in newer if one]])
    raise ServerUnavailable("queue_contended", queue=options.queue)


async def _delete_groups(alone: Alone, keys: ShardKeys) -> int:
    """By pages, so that the server is never blocked."""
    count = 0
    while True:
        (page,) = await alone.read([("ZRANGE", keys.schedule, 0, PAGE - 1)])
        with Reading(alone.name):
            groups = texts(page)
        if not groups:
            return count
        names = [name for group in groups for name in (keys.order(group), keys.body(group))]
        await alone.read([("UNLINK", *names), ("ZREM", keys.schedule, *groups)])
        count += len(groups)


async def _delete_rest(alone: Alone, options: QueueOptions, shards: list[ShardKeys]) -> None:
    """What else lies in the shards; the policy last, since it keeps clients off. Also of shards beyond the table."""
    start = shard_keys(options.namespace, options.queue, "").prefix.partition("}")[0]
    own = {shard_keys(options.namespace, options.queue, shard).prefix for shard in range(MAX_SHARDS)}
    policies = {keys.policy for keys in shards}
    async for words in scan(alone, "SCAN", count=1000, options=("MATCH", f"{start}*")):
        with Reading(alone.name):
            found = [name for name in map(text, words) if f"{name.partition('}:')[0]}}}:" in own]
        if some := [name for name in found if name not in policies]:
            await alone.read([("UNLINK", *some)])
    await alone.read([("UNLINK", *sorted(policies))])
