"""What deletes dead letters for good. An operation over a net."""

from __future__ import annotations

from ... import calls
from ...errors import MessageNotFound
from ...store.item import Group, Id
from ..session import Session
from .listed import PAGE, DeadLetterFilter, by_shard, cut, not_found


async def purge(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    everything: bool = False,
) -> int:
    """Delete dead letters for good, chosen as for `redrive`; how many there were.

    To repeat it deletes nothing else. Raises as `redrive` does.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "purge")
    await session.allow("operate")
    count = 0
    for keys, letters in await by_shard(session, wanted):
        for some in cut(letters, PAGE):
            answer = await session.net.ask(calls.purge(keys, [one.name for one in some]))
            # After a repeated call, those that were not there any more went with the first attempt.
            count += len(some) if answer.is_repeat else answer.value
    if id is not None and not count:
        raise MessageNotFound(f"{not_found(id, session)}; if it was purged before, that is done")
    return count
