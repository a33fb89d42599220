"""Every way in which a group can be broken by hand: what is said of it, how it is repaired, and what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, registry_key

Damage = Callable[[Link, ShardKeys], Any]
FAILURE = '{"member":"","id":"a","type":"ValueError","message":"no","attempt":1,"at":1}'


@dataclass(frozen=True)
class Case:
    """What is done to group `g` (messages a, b, c), the code that doctor reports, and what is left after a repair."""

    damage: Damage
    code: str
    is_explained: bool = True
    left: str = "abc"
    dead: str = ""


def member(link: Link, keys: ShardKeys, id: str) -> str:
    names: list[bytes] = link.command("ZRANGE", keys.order("g"), 0, -1)
    return next(name.decode() for name in names if name.decode()[16:] == id)


def record(link: Link, keys: ShardKeys, id: str) -> bytes:
    data: bytes = link.command("HGET", keys.body("g"), id)
    return data


def halves(data: bytes) -> tuple[bytes, bytes]:
    """What is before and behind a record's flag."""
    return data[:20], data[21:]


def drain(seq: Sequencer) -> str:
    seen: list[str] = []
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    return "".join(seen)


CASES = {
    "not in the schedule": Case(
        lambda link, keys: link.command("ZREM", keys.schedule, "g"),
        "group unscheduled",
    ),
    "not in the schedule, the lease is": Case(
        lambda link, keys: link.commands(
            [("ZREM", keys.schedule, "g"), ("HSET", keys.leases, "g", "00000000000000011me")]
        ),
        "group unscheduled",
    ),
    "parked for nothing": Case(
        lambda link, keys: link.command("ZADD", keys.schedule, "inf", "g"), "parked without reason"
    ),
    "paused by nobody": Case(
        lambda link, keys: link.command("ZADD", keys.schedule, "9e15", "g"), "paused without entry"
    ),
    "leased and parked": Case(
        lambda link, keys: link.commands(
            [("ZADD", keys.schedule, "inf", "g"), ("HSET", keys.leases, "g", "00000000000000011me")]
        ),
        "leased and parked",
    ),
    "head without a record": Case(
        lambda link, keys: link.command("HDEL", keys.body("g"), "a"),
        "message without record",
        left="bc",
    ),
    "member without a record": Case(
        lambda link, keys: link.command("HDEL", keys.body("g"), "b"),
        "message without record",
        left="ac",
    ),
    "record without a member": Case(
        lambda link, keys: link.command("ZREM", keys.order("g"), member(link, keys, "b")),
        "record without place",
        left="ac",
        dead="b",
    ),
    "one of each": Case(
        lambda link, keys: link.commands(
            [("ZREM", keys.order("g"), member(link, keys, "b")), ("HDEL", keys.body("g"), "c")]
        ),
        "record without place",
        is_explained=False,  # its sizes agree, and the head is sound
        left="a",
        dead="b",
    ),
    "no order": Case(
        lambda link, keys: link.command("DEL", keys.order("g")),
        "empty group scheduled",
        left="",
        dead="abc",
    ),
    "no body": Case(lambda link, keys: link.command("DEL", keys.body("g")), "message without record", left=""),
    "no keys at all": Case(
        lambda link, keys: link.command("DEL", keys.body("g"), keys.order("g")),
        "empty group scheduled",
        left="",
    ),
    "a record that denies its score": Case(
        lambda link, keys: link.command("HSET", keys.body("g"), "b", b"A".join(halves(record(link, keys, "b")))),
        "score differs",
        is_explained=False,  # it holds nothing up
    ),
    "a record's stamp": Case(
        lambda link, keys: link.command("HSET", keys.body("g"), "a", b"1" * 16 + record(link, keys, "a")[16:]),
        "record differs",
    ),
    "a record's stamp, and its flag": Case(
        lambda link, keys: link.command(
            "HSET", keys.body("g"), "a", b"1" * 16 + b"0000A" + record(link, keys, "a")[21:]
        ),
        "record differs",
    ),
    "a record's attempts": Case(
        lambda link, keys: link.command(
            "HSET", keys.body("g"), "a", record(link, keys, "a")[:16] + b"????" + record(link, keys, "a")[20:]
        ),
        "record differs",
        is_explained=False,
    ),
    "a record of nothing but rubbish": Case(
        lambda link, keys: link.command("HSET", keys.body("g"), "b", "rubbish"),
        "message without record",
        is_explained=False,
        left="ac",
        dead="b",
    ),
    "an id twice": Case(
        lambda link, keys: link.command("ZADD", keys.order("g"), "0", "1" * 16 + "a"),
        "message without record",
    ),
    "a stamp that is no number": Case(
        lambda link, keys: link.commands(
            [
                ("HSET", keys.body("g"), "b", b"x" * 16 + record(link, keys, "b")[16:]),
                ("ZADD", keys.order("g"), 2, "x" * 16 + "b"),
                ("ZREM", keys.order("g"), member(link, keys, "b")),
            ]
        ),
        "message without record",
        is_explained=False,
        left="ac",
        dead="b",
    ),
    "a clock behind": Case(
        lambda link, keys: link.command("SET", keys.clock, 1), "stamp ahead of clock", is_explained=False
    ),
    "a token ahead": Case(
        lambda link, keys: link.command("HSET", keys.leases, "g", "89000000000000001me"),
        "stamp ahead of clock",
        is_explained=False,
    ),
    "a lease that can't be read": Case(
        lambda link, keys: link.command("HSET", keys.leases, "g", "me"), "lease unreadable"
    ),
    "a lease of nobody": Case(
        lambda link, keys: link.command("HSET", keys.leases, "ghost", "00000000000000011me"),
        "lease without group",
        is_explained=False,
    ),
    "a failure of nobody": Case(
        lambda link, keys: link.command("HSET", keys.failures, "ghost", FAILURE),
        "failure without group",
        is_explained=False,
    ),
    "nobody in the schedule": Case(
        lambda link, keys: link.command("ZADD", keys.schedule, 1, "ghost"),
        "empty group scheduled",
        is_explained=False,
    ),
    "a dead letter without content": Case(
        lambda link, keys: link.command("ZADD", keys.dead, 1, "1" * 16 + "g\nz"),
        "dead letter without content",
        is_explained=False,
    ),
    "a dead letter without place": Case(
        lambda link, keys: link.command(
            "HSET", keys.letters, "1" * 16 + "g\nz", b"9.0\n" + FAILURE.encode() + b"\n" + b"1" * 16 + b"00000[9]"
        ),
        "dead letter unlisted",
        is_explained=False,
        dead="z",
    ),
}


def change_policy_by_hand(link: Link, keys: ShardKeys, **fields: str) -> None:
    """In the registry and in the shard, as no client would."""
    namespace, queue, _ = keys.prefix[1:].split(":")[:3]
    registry = registry_key(namespace, queue)
    policy = json.loads(link.command("HGET", registry, "policy"))
    link.command("HSET", registry, "policy", json.dumps({**policy, **fields}))
    link.command("HSET", keys.policy, *[word for pair in fields.items() for word in pair])
