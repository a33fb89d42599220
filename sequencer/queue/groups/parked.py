"""Parked groups: all of them, though some go on meanwhile and others come. Nothing here writes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

from ...calls.net_protocol import Command, Net
from ...store.keys import ShardKeys
from ...store.replies import scored
from ...values.checks import MAX_LIMIT, check_limit
from ...values.views import GroupInfo
from ..pages import batches, read
from ..session import Session
from ..views import infos_of, shard_view

PAGE = 500


def parked(session: Session, *, limit: int | None = None) -> AsyncIterator[GroupInfo]:
    """Parked groups, each with the failure of its head: all of them, or at most `limit`.

    They are read page by page, while they are iterated; one that stays parked comes once, whatever others do meanwhile.
    What is returned has no length (see `snapshot`), and is false when nothing is left. Raises ConfigurationError.
    """
    if limit is not None:
        check_limit(limit)
    return _parked(session, MAX_LIMIT if limit is None else limit)


async def _parked(session: Session, limit: int) -> AsyncIterator[GroupInfo]:
    left = limit
    for keys in await session.shards():
        view = await shard_view(session.net, keys)
        async for names in parked_names(session.net, keys):
            for some in batches(names, min(PAGE, limit)):
                for info in await infos_of(session.net, keys, [(name, math.inf) for name in some], view):
                    if info.state == "parked":
                        yield info
                        left -= 1
                        if not left:
                            return


async def parked_names(net: Net, keys: ShardKeys) -> AsyncIterator[list[bytes]]:
    """The parked groups of a shard, by pages, in the order of their names. One that stays parked comes exactly once.

    All have one score, so they stand at the end of the schedule by their names. They move down when groups before them
    end. So a page has to begin at or before the last name of the page before; where it does not, it is read from
    further down.
    """
    counts: list[Command] = [("ZCARD", keys.schedule), ("ZCOUNT", keys.schedule, "inf", "inf")]
    total, count = await net.read(counts)
    start, last = max(0, total - count - 1), b""
    while True:
        command = ("ZRANGE", keys.schedule, start, start + PAGE - 1, "WITHSCORES")
        page = await read(net, scored, command)
        if start and not (page and (page[0][1] < math.inf or page[0][0] <= last)):
            start = max(0, start - PAGE + 1)
            continue
        if names := [name for name, at in page if at == math.inf and name > last]:
            yield names
            last = names[-1]
        if len(page) < PAGE:
            return
        start += PAGE - 1
