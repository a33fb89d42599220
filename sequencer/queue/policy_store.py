"""The policy that the server keeps for a queue: how it is read, and changed in one transaction over all lanes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain
from typing import Any

from ..calls.net_protocol import Alone, Command, Net
from ..calls.operate import wake
from ..errors import ConfigurationError, ServerUnavailable
from ..settings.body_fields import BODY_FIELDS, BodyFields, QueueFields, merge_fields, read_fields, write_fields
from ..settings.events import Event, event, many
from ..settings.policy import Policy, merge_policy, read_policy
from ..store.keys import LaneKeys
from ..store.replies import Reading, pairs, scanned, text

log = logging.getLogger("sequencer")

TRIES = 20
"""How often a change of the policy is tried again when another client's came between."""
PAGE = 200
"""Names read, and groups looked at again, in one round trip."""
RULES = ("gap_us", "on_gap", "window_us")
"""Fields by which groups are put off."""


async def change_policy(
    net: Net, queue: str, lanes: list[LaneKeys], asked: Mapping[str, Any], fields: QueueFields | None = None
) -> Policy:
    """What the server keeps, changed by what is asked for; and what a change brings with it. `fields` take theirs.

    Read, checked and written in one transaction over all lanes, so that two clients at once do not undo each
    other's policy, nor leave two that exclude each other. Raises ConfigurationError, ServerUnavailable.
    """
    found = BodyFields()
    unsure: list[dict[str, str]] = []
    may_lose = True
    for _ in range(TRIES):
        before, writes, is_open = list[dict[str, str]](), list[Command](), False
        try:
            async with net.alone(lanes[0].policy) as alone:
                is_open = True
                await alone.send([("WATCH", *[keys.policy for keys in lanes])])
                before = await _policies(alone, net.name, lanes)
                with Reading(net.name):
                    policy = merge_policy(queue, before[0], asked)
                writes = _writes(lanes, before, policy)
                if fields:
                    found = await _merged_fields(
                        alone, net.name, queue, lanes, before[0].get(BODY_FIELDS), fields.asked
                    )
                    writes += _field_writes(lanes[0], before[0].get(BODY_FIELDS), found)
                is_done = await _transact(alone, writes) if writes else await _leave(alone)
        except ServerUnavailable:
            # The WATCH went with its connection, perhaps after all was done: look again. Where nothing was sent yet,
            # once: the connection may have gone stale.
            if not writes and not (is_open and may_lose):
                raise
            may_lose, unsure = bool(writes), unsure or (before if writes else [])
            continue
        if is_done:
            if fields:
                fields.take(found)
            await _follow(net, queue, lanes, before if writes else unsure, policy, asked)
            return policy
    raise ServerUnavailable(f"the policy of queue {queue!r} is being changed by others all the time; try again")


async def read_policies(net: Net, lanes: list[LaneKeys]) -> list[dict[str, str]]:
    """What the server keeps, field by field, lane by lane."""
    replies = await net.read(lanes[0].policy, [("HGETALL", keys.policy) for keys in lanes])
    with Reading(net.name):
        return [texts(reply) for reply in replies]


def texts(reply: list[bytes]) -> dict[str, str]:
    """The answer to HGETALL."""
    return {name.decode(): value.decode() for name, value in pairs(reply)}


def _writes(lanes: list[LaneKeys], before: list[dict[str, str]], policy: Policy) -> list[Command]:
    wanted, writes = policy.stored(), list[Command]()
    for keys, old in zip(lanes, before, strict=True):
        changed = {key: value for key, value in wanted.items() if old.get(key) != value}
        writes += [("HSET", keys.policy, *chain.from_iterable(changed.items()))] if changed else []
    return writes


async def _merged_fields(
    alone: Alone, name: str, queue: str, lanes: list[LaneKeys], stored: str | None, asked: BodyFields
) -> BodyFields:
    """The fields of a queue with those asked for. Others than its own are told, or refused once it has been used.

    Before the first message a wrong name was perhaps only tried. Raises ConfigurationError.
    """
    with Reading(name):
        known = read_fields(stored)
    try:
        return merge_fields(queue, known, asked)
    except ConfigurationError:
        counts = await alone.send([("HGET", keys.stats, "appended") for keys in lanes])
        if any(count not in (None, b"0") for count in counts):
            raise
    merged = merge_fields(queue, known, asked, is_used=False)
    log.warning("queue %s: %s was %s, and nothing was appended by it; it is %s now", queue, BODY_FIELDS, known, merged)
    return merged


def _field_writes(keys: LaneKeys, stored: str | None, fields: BodyFields) -> list[Command]:
    is_new = fields != read_fields(stored)
    return [("HSET", keys.policy, BODY_FIELDS, write_fields(fields, stored))] if is_new else []


async def _policies(alone: Alone, name: str, lanes: list[LaneKeys]) -> list[dict[str, str]]:
    replies = await alone.send([("HGETALL", keys.policy) for keys in lanes])
    with Reading(name):
        return [texts(reply) for reply in replies]


async def _transact(alone: Alone, writes: list[Command]) -> bool:
    """Whether it was carried out: not if another client set something meanwhile."""
    return (await alone.send([("MULTI",), *writes, ("EXEC",)]))[-1] is not None


async def _leave(alone: Alone) -> bool:
    await alone.send([("UNWATCH",)])
    return True


async def _follow(
    net: Net,
    queue: str,
    lanes: list[LaneKeys],
    before: list[dict[str, str]],
    policy: Policy,
    asked: Mapping[str, Any],
) -> None:
    """What a change brings with it: it is told, and groups that a changed rule had put off are looked at again."""
    wanted, known = policy.stored(), read_policy(before[0]) if before else {}
    for name in asked:
        if name in known and known[name] != getattr(policy, name):
            tell(policy_changed(queue, name, known[name], getattr(policy, name)))
    for keys, old in zip(lanes, before, strict=False):
        if any(old.get(key, wanted[key]) != wanted[key] for key in RULES):
            await wake_put_off_groups(net, keys)


async def wake_put_off_groups(net: Net, keys: LaneKeys) -> None:
    """Let claims decide anew about groups that were put off by a rule that has changed: each of them once."""
    (moment,) = await net.read(keys.schedule, [("TIME",)])
    with Reading(net.name):
        now_us = int(moment[0]) * 1_000_000
    names: dict[str, None] = {}
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await net.read(keys.schedule, [("ZSCAN", keys.schedule, cursor, "COUNT", PAGE)])
        with Reading(net.name):
            cursor, words = scanned(page)
            for word, at in pairs(words):
                if float(at) > now_us:  # paused ones too: the script leaves them as they are
                    names[text(word)] = None
    calls = [wake(keys, name) for name in names]
    for start in range(0, len(calls), PAGE):
        await net.ask_all(calls[start : start + PAGE])


def policy_changed(queue: str, policy: str, before: Any, now: Any) -> Event:
    """A client set another policy than the server had."""
    fields = {"policy": policy, "before": before, "now": now}
    return event("policy changed", queue, f"{policy} from {before!r} to {now!r}", fields)


def queue_restored(queue: str, lanes: int) -> Event:
    """The server had lost what it knew of the queue."""
    said = f"the server did not know it any more; registered again, with {many(lanes, 'lane')}"
    return event("queue restored", queue, said, {"lanes": lanes})


def tell(told: Event) -> None:
    """Log an event that no consumer emits."""
    log.log(told.level, told.text, extra={"event": told.name, "queue": told.queue, **told.fields})
