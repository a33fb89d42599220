"""Scores of messages that wait, brought to one unit of time: an operation over a net.

Messages are read first, then each is given its time anew by `revise`, which leaves alone what a consumer may have in
hand. So a rerun goes on where one was broken off, and a second one finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ... import calls
from ...calls.net_protocol import Net
from ...doctor.scores import ranges_beside
from ...errors import ConfigurationError, InvalidScore, shown
from ...store.envelope import encode_score
from ...store.keys import LaneKeys
from ...store.record import decode_head, id_of
from ...store.replies import Reading, pairs, scanned, text
from ...values.score_units import PER_SECOND, SHORT, in_unit, unit_of
from ...values.views import Rescored, Unit
from ..session import Session
from ..views import PAGE as GROUPS
from ..views import now_of
from .many import PAGE, Progress


class _Scored(NamedTuple):
    """A message whose score is in another unit."""

    group: str
    id: str
    unit: str
    score: str
    """The one that it is to have."""


async def rescore(
    session: Session,
    *,
    unit: Unit = "seconds",
    dry_run: bool = False,
    on_progress: Progress | None = None,
) -> Rescored:
    """Give each pending message whose score looks like a time in another unit that time in this one.

    A score below 1e11 is one in seconds, below 1e14 in milliseconds, above that in microseconds. A message that waits
    for a time goes on waiting for it; as by `reschedule`, attempts are fresh. One that a consumer may have in hand is
    left alone: `pause` the queue before, or run it again. With `dry_run` nothing is changed.
    `on_progress(done, total)` is called now and then. Raises ConfigurationError, InvalidScore for the numbers of a
    sequence, ServerError.
    """
    if unit not in PER_SECOND:
        raise ConfigurationError(f"unit={shown(unit)} must be seconds, milliseconds or microseconds")
    await session.allow("operate")
    if (await session.policy(register=False)).sequence:
        raise InvalidScore("in a queue with sequence=True a score is a number, and stays what it is")
    chosen = [(keys, await _choose(session.net, keys, unit)) for keys in await session.lanes(register=False)]
    every = [one for _, some in chosen for one in some]
    done = passed = 0
    for keys, found in [] if dry_run else chosen:
        for first in range(0, len(found), PAGE):
            some = found[first : first + PAGE]
            done += await _revise(session.net, keys, some, unit)
            passed += len(some)
            if on_progress:
                on_progress(passed, len(every))
    groups, units = len({one.group for one in every}), Counter(one.unit for one in every)
    return Rescored(len(every), groups, done, passed - done, dict(units), dry_run)


async def _choose(net: Net, keys: LaneKeys, unit: Unit) -> list[_Scored]:
    """The messages of a lane, of each group in their order: those of one score keep it among them."""
    chosen: dict[tuple[str, str], _Scored] = {}
    ranges = [(low, high, "BYSCORE", "WITHSCORES") for low, high in ranges_beside(unit)]
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await net.read(keys.schedule, [("ZSCAN", keys.schedule, cursor, "COUNT", GROUPS)])
        with Reading(net.name):
            cursor, words = scanned(page)
            names = [text(name) for name, _ in pairs(words)]
        asked = [(name, *of) for name in names for of in ranges]
        replies = await net.read(keys.schedule, [("ZRANGE", keys.order(name), *of) for name, *of in asked])
        with Reading(net.name):
            for (name, *_), reply in zip(asked, replies, strict=True):
                for member, score in pairs(reply):
                    id, number = id_of(text(member)), float(score)
                    chosen[name, id] = _Scored(name, id, unit_of(number), encode_score(in_unit(number, unit)))
    return list(chosen.values())


async def _revise(net: Net, keys: LaneKeys, some: Sequence[_Scored], unit: Unit) -> int:
    """Give these messages their new scores; how many have them by that. A due time that is a score stays one."""
    records = await net.read(keys.schedule, [("HGET", keys.body(one.group), one.id) for one in some])
    now_us = await now_of(net, keys)
    with Reading(net.name):
        heads = [decode_head(record or b"") for record in records]
    todo = []
    for one, head in zip(some, heads, strict=True):
        waits = head.due_us is not None and head.due_us > now_us
        score = SHORT[unit] if waits and head.flag == "T" else one.score
        todo.append(calls.revise(keys, one.group, one.id, score, str(head.due_us) if waits else "+0"))
    answer = await net.ask_all(todo)
    return sum(one == "done" for one in answer.value)
