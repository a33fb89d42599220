"""How a queue ends, and how it comes to a newer protocol: what people ask for by hand. Operations over a net."""

from __future__ import annotations

from dataclasses import replace

from ...calls.net_protocol import Alone, Net
from ...calls.register import register
from ...errors import ConfigurationError, GroupBusy
from ...store.keys import LaneKeys, consumer_name, lane_keys, registry_key
from ...store.registration import FIRST, NEWEST, registered
from ...store.replies import Reading, field_texts, scanned, texts
from ...values.text import many
from ...values.views import Usage
from ..session import Session
from .deletion import PAGE, QueueUsers, delete_queue, find_lanes, users
from .put_off import ask
from .route_search import find_route


async def usage(session: Session) -> Usage:
    """Who uses the queue, and how much is in it. Raises ConfigurationError where there is no such queue."""
    options, net = session.options, session.net
    async with net.alone(registry_key(options.namespace, options.queue)) as alone:
        there = await find_lanes(net, alone, options)
        if there is None:
            raise _unknown(session)
        lanes = [lane_keys(options.namespace, options.queue, tag) for tag in there.tags]
        found: QueueUsers = await users(net, alone, lanes, consumer_name(options.namespace, options.queue))
        sizes = await alone.send([("ZCARD", key) for keys in lanes for key in (keys.schedule, keys.dead)])
        messages = sum([await _messages(net, alone, keys) for keys in lanes])
    clients = None if found.clients is None else tuple(found.clients)
    return Usage(messages, sum(sizes[::2]), sum(sizes[1::2]), found.leases, tuple(found.owners), clients)


async def _messages(net: Net, alone: Alone, keys: LaneKeys) -> int:
    """How many a lane holds, page by page."""
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


async def upgrade(session: Session, to: int = NEWEST, *, force: bool = False) -> int:
    """Raise the protocol of the queue: your word that no program older than this one uses it. Returns the protocol.

    Older programs are refused from then on. `force`: also while consumers hold leases. Raises GroupBusy for those,
    ConfigurationError for a protocol that is none, or lower than that of the queue; DataError where the server lost how
    many lanes it has.
    """
    options, net = session.options, session.net
    if not isinstance(to, int) or isinstance(to, bool) or not FIRST <= to <= NEWEST:
        raise ConfigurationError(f"to={to!r} must be a protocol from {FIRST} to {NEWEST}")
    held = await usage(session)
    registry = registry_key(options.namespace, options.queue)
    async with net.alone(registry) as alone:
        there = await find_lanes(net, alone, options)
        if there is None:
            raise _unknown(session)
        await find_route(net, alone, options, registers=True)  # where the number of lanes was lost it refuses to guess
        if there.protocol > to:
            raise ConfigurationError(f"queue {options.queue!r} has protocol {there.protocol}, which is above {to}")
        if there.protocol < to:
            if held.leases and not force:
                who, queue = ", ".join(held.owners[:5]), options.queue
                raise GroupBusy(
                    f"queue {queue!r} has {many(held.leases, 'leased group')} ({who}); stop its consumers, or force it"
                )
            (fields,) = await alone.send([("HGETALL", registry)])
            with Reading(net.name):
                seen = registered(field_texts(fields))
            wanted = replace(there, protocol=to, version=0)
            await ask(alone, net.name, [register(registry, seen, wanted, is_new=True)])
            await find_route(net, alone, options, registers=True)
    return to


def _unknown(session: Session) -> ConfigurationError:
    options = session.options
    return ConfigurationError(f"there is no queue {options.queue!r} in namespace {options.namespace!r}")
