"""Groups that were deferred by a rule of the policy that has changed since: they are looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...calls.call import Call
from ...calls.net_protocol import Alone
from ...calls.operate import wake
from ...calls.register import woken
from ...store.keys import ShardKeys
from ...store.replies import Reading, micros, pairs, text
from ..scan import scan

PAGE = 200
"""Names read, and groups looked at again, in one round trip."""


async def ask(alone: Alone, calls: Sequence[Call[Any]], generation: str = "") -> list[Any]:
    """What these calls answer, on one connection."""
    replies = await alone.read([call.eval_command(generation) for call in calls]) if calls else []
    with Reading(alone.name):
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]


async def wake_deferred_groups(alone: Alone, keys: ShardKeys, generation: str, mark: str) -> None:
    """Let claims decide anew about groups that were deferred: each of them once; then `again` goes, if it is this mark.

    Whoever sees the mark does it: who changed the policy may be gone.
    """
    (moment,) = await alone.read([("TIME",)])
    with Reading(alone.name):
        now_us = micros(moment)
    names: dict[str, None] = {}
    async for words in scan(alone, "ZSCAN", keys.schedule, count=PAGE):
        with Reading(alone.name):
            for word, at in pairs(words):
                if float(at) > now_us:  # paused ones too: the script leaves them as they are
                    names[text(word)] = None
    calls = [wake(keys, one) for one in names]
    for start in range(0, len(calls), PAGE):
        await ask(alone, calls[start : start + PAGE], generation)
    await ask(alone, [woken(keys, mark)])
