"""Who consumes a queue: from the leases of all shards, and the names of connections. Nothing here writes."""

from __future__ import annotations

from ..doctor.leases import clients_named
from ..store.group import decode_group
from ..store.keys import consumer_name
from ..store.record import number_of, owner_of
from ..store.replies import Reading, text
from ..values.owner import is_held_long
from ..values.views import ConsumerInfo, Consumers
from .session import Session
from .views import Held, held_leases, leases_of, now_of


async def consumers(session: Session) -> Consumers:
    """Consumers that have groups in progress, what each holds longest, and how many are connected. Raises ServerError.

    It reads all leases: about a millisecond per thousand.
    """
    options, net, (shards, unreachable) = session.options, session.net, await session.reachable()
    now, held = await now_of(net), dict[bytes, Held]()
    for keys in shards:
        held |= await held_leases(net, keys, await leases_of(net, keys), now)
    clients = None
    if not unreachable:
        async with net.alone() as alone:
            clients = await clients_named(alone, consumer_name(options.namespace, options.queue))
    with Reading(net.name):
        by_owner: dict[str, list[tuple[int, bytes, float]]] = {}
        for group, (lease, until_us) in held.items():
            by_owner.setdefault(owner_of(lease), []).append((number_of(lease), group, until_us))
        longest = sorted((min(leases), owner, len(leases)) for owner, leases in by_owner.items())
        working = [
            ConsumerInfo(owner, count, decode_group(text(group)), (now - since) / 1e6, is_held_long(now, since, until))
            for (since, group, until), owner, count in longest
        ]
    return Consumers(working, None if clients is None else len(clients))
