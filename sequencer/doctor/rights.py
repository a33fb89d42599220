"""Which rights a role needs, and which of them a user lacks.

Redis checks rights command by command, also inside a script: one that is missing shows when the script has come to
it, and what it wrote until then stays. So a producer or consumer asks first (`missing_rights`): MULTI, every
command, DISCARD. What is not permitted is refused when it is queued, and nothing is run. ACL DRYRUN would need Redis 7
and a right of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, get_args

from ..calls.net_protocol import Alone, Command, Net
from ..calls.source import commands_in, script_source
from ..errors import ConfigurationError, SequencerError
from ..store.keys import ShardKeys, index_key, registry_key, shard_keys
from ..values.checks import nearest

Role = Literal["append", "consume", "operate", "admin"]
"""What a program does: a producer appends; a consumer claims, and may ask for `info` and `snapshot`; to operate is to
resume, skip, pause, cancel, redrive ...; an admin does all that, inspects, and runs doctor.
"""
ROLES: tuple[Role, ...] = get_args(Role)
ASKED: tuple[Role, ...] = ("append", "consume", "operate")
"""Those that write, and are asked about before."""

SCRATCH = "doctor"
"""The shard, beside the numbered ones, whose keys are named where rights are asked for."""
_DENIED = ("key_denied", "right_denied", "some_right_denied")
_ALONE = frozenset({"INFO", "MULTI", "EXEC", "DISCARD"})
"""Those that are not tried inside a MULTI: they open and end it, may not stand in it, or were run before."""
# To connect: the checks, the registry and the policy; ZSCAN and TIME for a change of the policy.
_CONNECT = "INFO MULTI EXEC DISCARD HGET HSETNX HGETALL HMGET HSET EXISTS ZSCAN TIME EVAL EVALSHA"
_INFO = "ZCARD ZCOUNT ZRANGE HSCAN ZMSCORE SMEMBERS ZRANGEBYSCORE ZINTER ZINTERCARD"
_PLAIN: dict[Role, str] = {
    "append": _CONNECT,
    "consume": f"{_CONNECT} {_INFO} BLPOP CLIENT|ID CLIENT|UNBLOCK",
    "operate": f"{_CONNECT} ZRANGE ZRANK ZCARD ZCOUNT ZSCORE SMEMBERS ZINTER ZINTERCARD",
}
WISHED: dict[Role, list[str]] = {
    "append": ["CLUSTER|SLOTS"],
    "consume": ["CLIENT|SETNAME", "CLUSTER|SLOTS"],
    "operate": ["CLUSTER|SLOTS"],
    "admin": ["CLIENT|LIST", "CLIENT|SETNAME", "CLUSTER|NODES", "CLUSTER|SLOTS"],
}
"""What a role does without where it may not, to say that a connection is a consumer's, and to see which are; and what
it needs on a cluster alone.
"""
_SCRIPTS: dict[Role, str] = {
    "append": "append register sync_shard wake",
    "consume": "claim ack nack save_step renew outage register sync_shard wake",
    "operate": "register sync_shard inspect resume skip_gap wake update pause redrive purge rerun outage find sweep "
    "alert alert_sent pending_news mark_notified",
}
_TRIED = """
    TIME / INFO / CLIENT ID / CLIENT UNBLOCK 0 / MULTI / EXEC / MULTI / DISCARD
    SET @clock 1 / GET @clock / EXISTS @clock / TYPE @clock
    RPUSH @dispatch a b / LLEN @dispatch / LTRIM @dispatch 0 9 / BLPOP @dispatch 0.1
    HSET @body a 1 / HSETNX @body b 1 / HGET @body a / HMGET @body a / HGETALL @body / HKEYS @body / HLEN @body
    HEXISTS @body a / HINCRBY @body a 1 / HSCAN @body 0 / HDEL @body a
    ZADD @order 1 a 2 b / ZRANGE @order 0 0 / ZRANGEBYSCORE @order 0 1 / ZCOUNT @order 0 1 / ZCARD @order
    ZRANK @order a / ZSCORE @order a / ZMSCORE @order a / ZSCAN @order 0
    ZREM @order a / ZINTER 1 @order / ZINTERCARD 1 @order
    SADD @dedup a b / SSCAN @dedup 0 / SCARD @dedup / SISMEMBER @dedup a / SREM @dedup b
    SMISMEMBER @dedup a / SMEMBERS @dedup / RENAME @dedup @dedup_old / UNLINK @dedup_old
    SCAN 0 MATCH @order COUNT 1 / EVAL return 0
"""


def plain_commands(keys: ShardKeys) -> list[tuple[str, ...]]:
    """Each command that our scripts and clients use, once, in an order in which none waits or fails."""
    named = {"@order": keys.order(SCRATCH), "@body": keys.body(SCRATCH)}
    commands = [
        tuple(named.get(word) or (getattr(keys, word[1:]) if word.startswith("@") else word) for word in line.split())
        for line in _TRIED.strip().replace("\n", "/").split("/")
    ]
    return [*commands, ("DEL", *scratch_keys(keys))]


def scratch_keys(keys: ShardKeys) -> list[str]:
    names = [getattr(keys, name) for name in keys.__slots__ if name != "prefix"]
    return [*names, keys.order(SCRATCH), keys.body(SCRATCH)]


# -- roles ------------------------------------------------------------------------------------------------------


def commands_of(script: str) -> set[str]:
    """The commands that a script of ours may call, in capitals."""
    return commands_in(script_source(script))


def _name(words: Sequence[Any]) -> str:
    return f"{words[0]}|{words[1]}" if words[0] == "CLIENT" else str(words[0])


@cache
def needed(role: Role) -> frozenset[str]:
    """The commands that a role needs, in capitals; a subcommand as CLIENT|ID."""
    if role == "admin":
        tried = plain_commands(shard_keys("sequencer", "jobs", SCRATCH))
        return frozenset({_name(words) for words in tried} | {"EVALSHA"})
    return frozenset(_PLAIN[role].split()).union(*map(commands_of, _SCRIPTS[role].split()))


def acl_rules(namespace: str, role: str, queue: str | None = None) -> list[str]:
    """The least rights, as words for ACL SETUSER: key patterns of a namespace, or of one queue in it, and commands.

    `role` is one of ROLES. Raises ConfigurationError. No channels. A URL that names another database than 0 needs
    +select besides, and `wait_replicas` +wait.
    """
    wanted = next((one for one in ROLES if one == role), None)
    if wanted is None:
        raise ConfigurationError("name_unknown", kind="role", name=role, **nearest(role, ROLES))
    keys = f"~{{{namespace}:{queue}:*" if queue else f"~{{{namespace}:*"
    names = needed(wanted) | set(WISHED.get(wanted, []))
    return [keys, f"~{index_key(namespace)}", *(f"+{name.lower()}" for name in sorted(names))]


async def missing_rights(
    net: Net, namespace: str, queue: str, shards: Iterable[ShardKeys], *, waits: Iterable[Role] = ()
) -> dict[Role, list[str]]:
    """What the user lacks for each role that writes, as words for ACL SETUSER. Two round trips; nothing is written.

    `waits`: the roles that wait for replicas, which takes one right more, and a server that can (fakeredis can't).
    Raises ServerUnavailable, ServerNotUsable.
    """
    wanted: dict[Role, frozenset[str]] = {role: needed(role) for role in ASKED}
    for role in wanted.keys() & set(waits):
        wanted[role] |= {"WAIT"}
    names = frozenset().union(*wanted.values())
    async with net.alone() as alone:  # closed by an error: it may stand inside the MULTI
        refused = await refused_commands(alone, namespace, queue, shards, names)
    missing = {name for name, error in refused.items() if is_denied(error)}
    general = sorted(name for name in missing if name.startswith("~"))
    return {role: [f"+{name.lower()}" for name in sorted(missing & wanted[role])] + general for role in ASKED}


async def refused_commands(
    alone: Alone, namespace: str, queue: str, shards: Iterable[ShardKeys], names: frozenset[str]
) -> dict[str, Exception]:
    """What the server refuses to queue in a MULTI, with its error: commands by name, keys by the pattern they fit."""
    opened = await alone.answers([("MULTI",), ("EXEC",), ("MULTI",)])
    if isinstance(opened[-1], Exception):  # what follows would be done, not queued
        alone.give_up()
        if not is_denied(opened[-1]):
            raise opened[-1]
        return {name: error for name, error in zip(("MULTI", "EXEC"), opened, strict=False) if is_denied(error)}
    own, index = [[registry_key(namespace, queue)], *[scratch_keys(keys) for keys in shards]], index_key(namespace)
    by_name: dict[str, Command] = {_name(one): one for one in plain_commands(shard_keys(namespace, queue, SCRATCH))}
    by_name |= {"EVALSHA": ("EVALSHA", "0" * 40, 0), "WAIT": ("WAIT", 0, 1)}
    commands = {name: by_name[name] for name in sorted(names - _ALONE)}
    # EVAL reads and writes its keys, as far as Redis knows: one command shows the rights on all keys of a shard.
    keys: list[tuple[str, Command]] = [
        (f"~{{{namespace}:{queue}:*", ("EVAL", "return 1", len(some), *some)) for some in own
    ]
    keys.append((f"~{index}", ("HSET", index, "", "")))  # scripts don't touch it
    asked = [*commands.values(), *(command for _, command in keys), ("DISCARD",)]
    replies = await alone.answers(asked)
    ends = ["DISCARD"] if isinstance(replies[-1], Exception) else []
    if ends:
        alone.give_up()  # it would stay inside the MULTI
    refused = {"EXEC": opened[1]} if is_denied(opened[1]) else {}
    for name, reply in zip([*commands, *(pattern for pattern, _ in keys)], replies, strict=False):
        if isinstance(reply, SequencerError) and (reply.code == "key_denied") == name.startswith("~"):
            if name == "WAIT" and reply.code == "command_unknown":
                raise reply
            refused[name] = reply
    return refused | dict.fromkeys(ends, replies[-1])


def is_denied(reply: Any) -> bool:
    """Whether a reply says that the user may not."""
    return getattr(reply, "code", "") in _DENIED
