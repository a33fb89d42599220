"""A queue that 0.4.0 or 0.5.0 made: it has no registry and no routes, and its lanes are those that have a policy."""

from __future__ import annotations

from collections.abc import Mapping

from ...calls.net_protocol import Alone, Command
from ...calls.register import adopt_old
from ...errors import DataError
from ...settings.options import MAX_LANES, QueueOptions
from ...store.keys import index_key, lane_keys
from ...store.registration import Registration, old_registration
from ...store.replies import Reading
from ...values.text import many
from .put_off import ask

PAGE = 32


async def find_old(alone: Alone, name: str, options: QueueOptions, first: dict[str, str]) -> Registration:
    """How many lanes from 0 on have a policy, and that of the first."""
    count = 1
    while count < MAX_LANES:
        lanes = [lane_keys(options.namespace, options.queue, lane) for lane in range(count, count + PAGE)]
        found = await alone.send([("EXISTS", keys.policy) for keys in lanes])
        with Reading(name):
            more = [*map(int, found), 0].index(0)
        count += more
        if more < PAGE:
            break
    return old_registration(min(count, MAX_LANES), first)


async def change_old(
    alone: Alone, name: str, options: QueueOptions, there: Registration, wanted: Mapping[str, str]
) -> bool:
    """Set what changes, in lane 0 first; whether lane 0 was still as it was seen."""
    changed = {key: value for key, value in wanted.items() if there.policy.get(key) != value}
    lanes = [lane_keys(options.namespace, options.queue, tag) for tag in there.tags]
    mark = " ".join(["old", *changed.values()])
    (one,) = await ask(alone, name, [adopt_old(lanes[0], there.policy, changed, mark)])
    if one.status != "taken":
        return False
    await ask(alone, name, [adopt_old(keys, {}, wanted, mark) for keys in lanes[1:]])
    return True


async def restore_old(alone: Alone, name: str, options: QueueOptions, known: Registration) -> None:
    """Give a server that lost its data such a queue again, for programs of both kinds that share it.

    Raises DataError, and writes nothing, when others registered it meanwhile with another number of lanes.
    """
    index, queue, count = index_key(options.namespace), options.queue, str(len(known.tags)).encode()
    await alone.send([("HSETNX", index, queue, count)])
    (there,) = await alone.send([("HGET", index, queue)])
    if there != count:
        raise DataError(
            f"queue {queue!r} had {many(len(known.tags), 'lane')}, and now {index} says {there!r}: the server lost its "
            "data, and others registered the queue anew; start this program again"
        )
    lanes = [lane_keys(options.namespace, queue, tag) for tag in known.tags]
    # In one transaction: of two clients that come back with two policies, one sets all of it in all lanes.
    writes: list[Command] = [
        ("HSETNX", keys.policy, field, value) for keys in lanes for field, value in known.policy.items()
    ]
    await alone.send([("MULTI",), *writes, ("EXEC",)])
