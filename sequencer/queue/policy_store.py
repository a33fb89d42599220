"""The policy that the server keeps for a queue: how it is read, and changed in one transaction over all lanes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain
from typing import Any

from ..calls.operate import wake
from ..errors import ServerUnavailable
from ..net.endpoint import Connection
from ..net.link import Link
from ..settings.policy import Policy, merge_policy, read_policy
from ..store.keys import LaneKeys

log = logging.getLogger("sequencer")

TRIES = 20
"""How often a change of the policy is tried again when another client's came between."""
PAGE = 200
"""Names read, and groups looked at again, in one round trip."""
RULES = ("gap_us", "on_gap", "window_us")
"""Fields by which groups are put off."""


def find_policy(
    link: Link, queue: str, lanes: list[LaneKeys], asked: Mapping[str, Any], *, register: bool
) -> tuple[Policy, bool]:
    """What the server keeps, changed by what is asked for if `register`; and whether it kept any.

    Read, checked and written in one transaction over all lanes, so that two clients at once do not undo each
    other's policy, nor leave two that exclude each other. Raises ConfigurationError, ServerUnavailable.
    """
    try:
        return _find_policy(link, queue, lanes, asked, register=register)
    except BaseException:
        # It may hold a WATCH, which would refuse a transaction of whoever has this link next.
        link.close()
        raise


def _find_policy(
    link: Link, queue: str, lanes: list[LaneKeys], asked: Mapping[str, Any], *, register: bool
) -> tuple[Policy, bool]:
    unsure: list[dict[str, str]] = []
    for _ in range(TRIES):
        if register:
            link.command("WATCH", *[keys.policy for keys in lanes])
        watching, before = link.connection(), _policies(link, lanes)
        policy = merge_policy(queue, before[0], asked if register else {})
        writes = _writes(lanes, before, policy)
        if not (register and writes):
            if register:
                link.command("UNWATCH")
            _follow(link, queue, lanes, unsure, policy, asked)
            return policy, bool(before[0])
        try:
            is_done = _transact(link, writes, watching)
        except ServerUnavailable:  # the WATCH went with its connection, perhaps after all was done: look again
            unsure = unsure or before
            continue
        if is_done:
            _follow(link, queue, lanes, before, policy, asked)
            return policy, True
    raise ServerUnavailable(f"the policy of queue {queue!r} is being changed by others all the time; try again")


def texts(reply: list[bytes]) -> dict[str, str]:
    """The answer to HGETALL."""
    return {name.decode(): value.decode() for name, value in zip(reply[::2], reply[1::2], strict=True)}


def _writes(lanes: list[LaneKeys], before: list[dict[str, str]], policy: Policy) -> list[tuple[Any, ...]]:
    wanted, writes = policy.stored(), []
    for keys, old in zip(lanes, before, strict=True):
        changed = {key: value for key, value in wanted.items() if old.get(key) != value}
        writes += [("HSET", keys.policy, *chain.from_iterable(changed.items()))] if changed else []
    return writes


def _transact(link: Link, writes: list[tuple[Any, ...]], watching: Connection) -> bool:
    """Whether it was carried out: not if another client set something meanwhile."""
    return link.commands([("MULTI",), *writes, ("EXEC",)], on=watching)[-1] is not None


def _policies(link: Link, lanes: list[LaneKeys]) -> list[dict[str, str]]:
    return [texts(reply) for reply in link.commands([("HGETALL", keys.policy) for keys in lanes])]


def _follow(
    link: Link,
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
            log.warning("queue %s: %s changes from %r to %r", queue, name, known[name], getattr(policy, name))
    for keys, old in zip(lanes, before, strict=False):
        if any(old.get(key, wanted[key]) != wanted[key] for key in RULES):
            _look_again(link, keys)


def _look_again(link: Link, keys: LaneKeys) -> None:
    """Let claims decide anew about groups that were put off by a rule that has changed: each of them once."""
    now_us = int(link.command("TIME")[0]) * 1_000_000
    names: dict[str, None] = {}
    cursor: Any = b"0"
    while True:
        cursor, words = link.command("ZSCAN", keys.schedule, cursor, "COUNT", PAGE)
        for word, at in zip(words[::2], words[1::2], strict=True):
            if float(at) > now_us:  # paused ones too: the script leaves them as they are
                names[word.decode("utf-8", "surrogateescape")] = None
        if int(cursor) == 0:
            break
    calls = [wake(keys, name) for name in names]
    for start in range(0, len(calls), PAGE):
        link.run(calls[start : start + PAGE])
