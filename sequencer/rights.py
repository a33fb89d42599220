"""Which rights a user lacks: found by running every command and every script of ours on a scratch lane."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from . import calls, desk
from .calls import Ack, Call, Item, Nack
from .errors import SequencerError
from .keys import LaneKeys, lane_keys, registry_key
from .options import ClaimLimits
from .scripts import Link

SCRATCH = "doctor"
"""The lane, beside the numbered ones, in which rights are tried; its keys are deleted afterwards."""
_DENIED = re.compile(r"no permissions|can't run this command|NOPERM", re.IGNORECASE)
_RIGHT = re.compile(r"'([\w|-]+)' command")


def plain_commands(keys: LaneKeys) -> list[tuple[Any, ...]]:
    """Each command that our scripts and clients use, once, in an order in which none waits or fails."""
    order, body, group, old = keys.order(SCRATCH), keys.body(SCRATCH), SCRATCH, f"{keys.seen}:old"
    return [
        *(
            ("TIME",),
            ("INFO",),
            ("CLIENT", "ID"),
            ("CLIENT", "UNBLOCK", 0),
            ("WATCH", keys.policy),
            ("UNWATCH",),
            ("MULTI",),
            ("EXEC",),
        ),
        *(("SET", keys.clock, 1), ("GET", keys.clock), ("EXISTS", keys.clock), ("TYPE", keys.clock)),
        *(("RPUSH", keys.dispatch, group, group), ("LLEN", keys.dispatch), ("LTRIM", keys.dispatch, 0, 9)),
        *(("BLPOP", keys.dispatch, "0.1"), ("HSET", body, "a", 1), ("HSETNX", body, "b", 1), ("HGET", body, "a")),
        *(("HMGET", body, "a"), ("HGETALL", body), ("HKEYS", body), ("HLEN", body), ("HEXISTS", body, "a")),
        *(("HINCRBY", body, "a", 1), ("HSCAN", body, 0), ("HDEL", body, "a"), ("ZADD", order, 1, "a", 2, "b")),
        *(("ZRANGE", order, 0, 0), ("ZRANGEBYSCORE", order, 0, 1), ("ZCOUNT", order, 0, 1), ("ZCARD", order)),
        *(("ZSCORE", order, "a"), ("ZMSCORE", order, "a"), ("ZSCAN", order, 0), ("ZREM", order, "a")),
        *(("SADD", keys.seen, "a", "b"), ("SCARD", keys.seen), ("SISMEMBER", keys.seen, "a"), ("SREM", keys.seen, "b")),
        *(("SMISMEMBER", keys.seen, "a"), ("SMEMBERS", keys.seen), ("RENAME", keys.seen, old), ("UNLINK", old)),
        *(("XADD", keys.audit, "MAXLEN", "~", 9, "*", "a", 1), ("XRANGE", keys.audit, "-", "+"), ("XLEN", keys.audit)),
        *(("XINFO", "STREAM", keys.audit), ("SCAN", 0, "MATCH", order, "COUNT", 1)),
        *(("EVAL", "return 1", 0), ("DEL", *_scratch_keys(keys))),
    ]


def _scratch_keys(keys: LaneKeys) -> list[str]:
    names = [getattr(keys, name) for name in keys.__slots__ if name != "prefix"]
    return [*names, f"{keys.marks}:old", f"{keys.seen}:old", keys.order(SCRATCH), keys.body(SCRATCH)]


def run_every_script(run: Callable[[Call[Any]], Any], keys: LaneKeys) -> None:
    """Run each script on the scratch group; `run` gives None for one that failed."""
    run(calls.append(keys, [Item(SCRATCH, str(n), f"{n}.0", b"[1]") for n in range(3)]))
    claimed = run(calls.claim(keys, SCRATCH, SCRATCH, 60.0, ClaimLimits(1, 1)))
    leased = claimed.groups[0] if claimed and claimed.groups else None
    token, member = (leased.token, leased.members[0]) if leased else ("0" * 16, f"{'0' * 16}0")
    letter = f"{member[:16]}{SCRATCH}\n0"
    for call in (
        calls.renew(keys, [(SCRATCH, token)], 60.0),
        calls.ack(keys, [Ack(SCRATCH, token, [], False)]),
        calls.nack(keys, Nack(SCRATCH, token, member, 1, None, b'{"type": "Doctor"}', "dead", "0.0")),
        desk.redrive(keys, [letter]),
        desk.purge(keys, [letter]),
        desk.revise(keys, SCRATCH, "2", "", ""),
        desk.step(keys, SCRATCH, f"{'0' * 16}1", "", "#1"),
        desk.pause(keys, SCRATCH, True),
        desk.pause(keys, SCRATCH, False),
        desk.resume(keys, SCRATCH, b"", "", skip=True),
        desk.look(keys, SCRATCH, "1"),
        desk.mend(keys, SCRATCH, repair=True),
    ):
        run(call)


class Rights:
    """What a user may not do, as it shows while commands and scripts are tried."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.missing: dict[str, None] = {}
        self.errors: dict[str, None] = {}

    def try_command(self, pattern: str, *words: Any) -> None:
        try:
            self._link.command(*words)
        except SequencerError as error:
            self._note(words[0], pattern, error)
            if words[0] == "EXEC":
                self._link.close()  # its MULTI may still wait

    def run(self, pattern: str, call: Call[Any]) -> Any:
        """The script's result, or None."""
        try:
            return self._link.run_one(call)
        except SequencerError as error:
            self._note(f"script {call.script}", pattern, error)
            return None

    def _note(self, name: str, pattern: str, error: SequencerError) -> None:
        text, right = str(error), _RIGHT.search(str(error))
        if not _DENIED.search(text):
            self.errors[f"{name}: {text}"] = None
        elif right or not name.startswith("script"):
            is_key = "access a key" in text or "access one of the keys" in text
            self.missing[pattern if is_key else f"+{right[1] if right else name}".lower()] = None
        else:
            self.errors[f"{name}: {text}"] = None


def try_rights(link: Link, namespace: str, queues: Sequence[str]) -> Rights:
    """Run everything on a scratch lane of each queue. Raises ServerUnavailable when the connection is lost."""
    rights, registry = Rights(link), registry_key(namespace)
    for queue in queues:
        keys = lane_keys(namespace, queue, SCRATCH)
        pattern = f"~{{{namespace}:{'*' if queue == SCRATCH else queue + ':*'}"
        for words in plain_commands(keys):
            rights.try_command(pattern, *words)
        for words in (("HGET", registry, queue), ("HDEL", registry, "")):  # no queue is named ""
            rights.try_command(f"~{registry}", *words)
        run_every_script(lambda call, pattern=pattern: rights.run(pattern, call), keys)  # type: ignore[misc]
        rights.try_command(pattern, "DEL", *_scratch_keys(keys))
    return rights
