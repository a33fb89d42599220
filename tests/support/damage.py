"""Every way in which a group can be broken by hand: what is said of it, how it is repaired, and what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, registry_key

from .handling import consumed

Damage = Callable[[Link, ShardKeys], Any]
FAILURE = '{"member":"","id":"a","type":"ValueError","message":"no","attempt":1,"at":1}'
LEASE = "00000000000000011me"


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


def drain(seq: Sequencer) -> str:
    return "".join(message.id for message in consumed(seq))


def does(*commands: str) -> Damage:
    """These commands. @NAME stands for a key of the shard or of the group, $ID for the member of a message."""

    def damage(link: Link, keys: ShardKeys) -> Any:
        def filled(word: str) -> str:
            if word in ("@order", "@body"):
                return str(getattr(keys, word[1:])("g"))
            if word.startswith("$"):
                return member(link, keys, word[1:])
            return str(getattr(keys, word[1:])) if word.startswith("@") else word

        return [link.command(*[filled(word) for word in command.split(" ")]) for command in commands]

    return damage


def rewrites(id: str, change: Callable[[bytes], bytes]) -> Damage:
    """The record of a message in another form."""
    return lambda link, keys: link.command("HSET", keys.body("g"), id, change(record(link, keys, id)))


def renumbers(link: Link, keys: ShardKeys) -> None:
    """The stamp of b is no number, in record and order."""
    link.command("HSET", keys.body("g"), "b", b"x" * 16 + record(link, keys, "b")[16:])
    does("ZREM @order $b", f"ZADD @order 2 {'x' * 16}b")(link, keys)


LETTER = "1" * 16 + "g\nz"
CASES = {
    "not in the schedule": Case(does("ZREM @schedule g"), "group unscheduled"),
    "not in the schedule, the lease is": Case(does("ZREM @schedule g", f"HSET @leases g {LEASE}"), "group unscheduled"),
    "parked for nothing": Case(does("ZADD @schedule inf g"), "parked without reason"),
    "paused by nobody": Case(does("ZADD @schedule 9e15 g"), "paused without entry"),
    "leased and parked": Case(does("ZADD @schedule inf g", f"HSET @leases g {LEASE}"), "leased and parked"),
    "head without a record": Case(does("HDEL @body a"), "message without record", left="bc"),
    "member without a record": Case(does("HDEL @body b"), "message without record", left="ac"),
    "record without a member": Case(does("ZREM @order $b"), "record without place", left="ac", dead="b"),
    # Its sizes agree, and the head is sound.
    "one of each": Case(does("ZREM @order $b", "HDEL @body c"), "record without place", False, left="a", dead="b"),
    "no order": Case(does("DEL @order"), "empty group scheduled", left="", dead="abc"),
    "no body": Case(does("DEL @body"), "message without record", left=""),
    "no keys at all": Case(does("DEL @body @order"), "empty group scheduled", left=""),
    # It holds nothing up.
    "a record that denies its score": Case(rewrites("b", lambda r: r[:20] + b"A" + r[21:]), "score differs", False),
    "a record's stamp": Case(rewrites("a", lambda r: b"1" * 16 + r[16:]), "record differs"),
    "a record's stamp, and its flag": Case(rewrites("a", lambda r: b"1" * 16 + b"0000A" + r[21:]), "record differs"),
    "a record's attempts": Case(rewrites("a", lambda r: r[:16] + b"????" + r[20:]), "record differs", False),
    "a record of nothing but rubbish": Case(
        rewrites("b", lambda r: b"rubbish"), "message without record", False, left="ac", dead="b"
    ),
    "an id twice": Case(does(f"ZADD @order 0 {'1' * 16}a"), "message without record"),
    "a stamp that is no number": Case(renumbers, "message without record", False, left="ac", dead="b"),
    "a clock behind": Case(does("SET @clock 1"), "stamp ahead of clock", False),
    "a token ahead": Case(does("HSET @leases g 89000000000000001me"), "stamp ahead of clock", False),
    "a lease that can't be read": Case(does("HSET @leases g me"), "lease unreadable"),
    "a lease of nobody": Case(does(f"HSET @leases ghost {LEASE}"), "lease without group", False),
    "a failure of nobody": Case(does(f"HSET @failures ghost {FAILURE}"), "failure without group", False),
    "nobody in the schedule": Case(does("ZADD @schedule 1 ghost"), "empty group scheduled", False),
    "a dead letter without content": Case(does(f"ZADD @dead 1 {LETTER}"), "dead letter without content", False),
    "a dead letter without place": Case(
        does(f"HSET @dead_letters {LETTER} 9.0\n{FAILURE}\n{'1' * 16}00000[9]"), "dead letter unlisted", False, dead="z"
    ),
}


def change_policy_by_hand(link: Link, keys: ShardKeys, **fields: str) -> None:
    """In the registry and in the shard, as no client would."""
    namespace, queue, _ = keys.prefix[1:].split(":")[:3]
    registry = registry_key(namespace, queue)
    policy = json.loads(link.command("HGET", registry, "policy"))
    link.command("HSET", registry, "policy", json.dumps({**policy, **fields}))
    link.command("HSET", keys.policy, *[word for pair in fields.items() for word in pair])
