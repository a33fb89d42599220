"""What cleans a queue in which nothing ends: old history, old dead letters. An operation over a net."""

from __future__ import annotations

from ... import calls
from ...values.history import Swept
from ..session import Session


async def sweep(session: Session) -> Swept:
    """Delete what the queue's policy keeps no longer: history by `history_window` and `history_cap`, dead letters by
    `dead_window` and `dead_cap`, the oldest first.

    Where messages end, the history cleans itself; this is for a queue at rest, and for dead letters. A dead letter with
    an unresolved step is left. To repeat it is harmless. Raises ServerError.
    """
    await session.allow("operate")
    history = dead = 0
    for keys in await session.shards():
        passed, is_more = 0, True
        while is_more:
            done = (await session.net.ask(calls.sweep(keys, passed))).value
            history, dead = history + done.history, dead + done.dead
            passed, is_more = passed + done.passed, done.is_more
    return Swept(history, dead)
