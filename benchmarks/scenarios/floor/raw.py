"""The floor of scenario `floor`: the keys of the data model, written, read and deleted by plain commands.

What a client could do that checks nothing: no policy, no deduplication, no token compared, no conflict undone, and it
knows from its plan which messages it will find. It keeps the same keys with the same content as sequencer does
(`tests/process/test_benchmark_floor.py` compares them after the appends, while all groups are leased, and at the end),
by the fewest sensible commands: those of a batch of BATCH messages go out together, and all that concerns one key of
a batch is one command.

It stays an at-least-once consumer: what it read is deleted by name in the next round trip, since a DEL of the whole
group would lose what was appended meanwhile. A group's messages come together as far as a batch holds them.

`ask_singly` sends the same with commands of its own for each message, as a pipeline is mostly written: HSET and ZADD;
HGET; ZREM, HDEL and SADD. What concerns the shard (schedule, leases, watermarks, stats) stays one command a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sequencer.net.link import Link
from sequencer.settings.options import ConsumerOptions
from sequencer.store.envelope import encode_envelope
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.store.record import STAMP_DIGITS, padded_owner

from ...load.workload import Planned

WIDE = ("", "-" * 65)
"""The field with which sequencer begins its watermarks: it makes the server keep them as a hash table."""
BATCH = 100
SHARD = 0
HINTS = 100
"""This many groups of an append are pushed to an empty dispatch list."""
LEASE_US = round(ConsumerOptions().lease_s * 1e6)
MAX_ENVELOPE = 1 << 20
Command = tuple[Any, ...]
Clock = Callable[[], int]
Steps = Generator[list[Command], list[Any], "list[Found]"]
Ask = Callable[[Link, ShardKeys, list[Command]], list[Any]]


class Part(NamedTuple):
    """Messages of one group that one batch takes; whether none is left behind them."""

    group: str
    ids: list[str]
    is_last: bool


class Found(NamedTuple):
    """What was read of one part."""

    part: Part
    members: list[bytes]
    records: list[bytes]

    def mark(self) -> bytes:
        """The score of its last message, as its stamp tells it."""
        stamp = self.members[-1][:STAMP_DIGITS]
        return stamp[:-6] + b"." + stamp[-6:]


def now_us() -> int:
    return time.time_ns() // 1000


def keys_of(namespace: str, queue: str) -> ShardKeys:
    return shard_keys(namespace, queue, SHARD)


def batches(messages: Iterable[Planned]) -> list[list[Planned]]:
    """In the order of their arrival."""
    every = list(messages)
    return [every[at : at + BATCH] for at in range(0, len(every), BATCH)]


def parts(messages: Iterable[Planned]) -> list[list[Part]]:
    """The same messages as a consumer takes them: groups by their first arrival, as many together as fit."""
    by_group: dict[str, list[str]] = {}
    for message in messages:
        by_group.setdefault(message.group, []).append(message.id)
    found: list[list[Part]] = []
    room = 0
    for group, ids in by_group.items():
        at = 0
        while at < len(ids):
            if not room:
                found.append([])
                room = BATCH
            some = ids[at : at + room]
            at, room = at + len(some), room - len(some)
            found[-1].append(Part(group, some, at == len(ids)))
    return found


def appends(keys: ShardKeys, todo: Sequence[Sequence[Planned]], clock: Clock = now_us) -> Iterator[list[Command]]:
    """The commands of each batch."""
    tick, hinted, known = 0, 0, set[str]()
    for batch in todo:
        tick = max(tick, clock())
        bodies: dict[str, list[Any]] = {}
        orders: dict[str, list[Any]] = {}
        for stamp, message in enumerate(batch, tick + 1):
            text = f"{stamp:0{STAMP_DIGITS}d}"
            record = f"{text}0000A".encode() + encode_envelope(message.body(), None, MAX_ENVELOPE)
            bodies.setdefault(message.group, []).extend((message.id, record))
            orders.setdefault(message.group, []).extend((f"{text[:10]}.{text[10:]}", text + message.id))
        commands: list[Command] = [("SET", keys.clock, tick + len(batch))]
        commands += [("HSET", keys.body(group), *words) for group, words in bodies.items()]
        commands += [("ZADD", keys.order(group), *words) for group, words in orders.items()]
        commands.append(("ZADD", keys.schedule, "NX", *(word for group in orders for word in (tick, group))))
        new = [group for group in orders if group not in known]
        if new:
            known.update(new)
            if some := new[: HINTS - hinted]:
                hinted += len(some)
                commands.append(("RPUSH", keys.dispatch, *some))
        commands.append(("HINCRBY", keys.stats, "appended", len(batch)))
        tick += len(batch)
        yield commands


def consumes(keys: ShardKeys, todo: Sequence[Sequence[Part]], owner: str) -> Steps:
    """Yields the commands of each round trip, takes their answers, and returns all that was read.

    One round trip deletes what the one before it read, and leases and reads the next batch.
    """
    found: list[Found] = []
    last: list[Found] = []
    token, end = 0, todo[-1][-1].group
    for batch in todo:
        now = now_us()
        token = max(token + 1, now)
        commands = deletes(keys, last, now, is_first=len(last) == len(found)) if last else []
        before = len(commands)
        commands += claims(keys, batch, now, f"{token:0{STAMP_DIGITS}d}", owner)
        if batch[-1].group == end and not any(one.part.group == end for one in last):
            commands.append(("DEL", keys.dispatch))  # no group is left that nobody leased: its hints are stale
        answers = yield commands
        last = read(batch, answers[before:])
        found += last
    yield deletes(keys, last, now_us(), is_first=len(last) == len(found))
    return found


def claims(keys: ShardKeys, batch: Sequence[Part], now: int, token: str, owner: str) -> list[Command]:
    """Lease the groups of a batch, and read its messages: two commands for each group."""
    groups = [part.group for part in batch]
    commands: list[Command] = [
        ("ZRANGEBYSCORE", keys.schedule, "-inf", now, "LIMIT", 0, len(groups)),
        ("ZADD", keys.schedule, *(word for group in groups for word in (now + LEASE_US, group))),
        ("HSET", keys.leases, *(word for group in groups for word in (group, f"{token}0{padded_owner(owner)}"))),
        ("SET", keys.clock, token),
    ]
    for part in batch:
        commands.append(("ZRANGE", keys.order(part.group), 0, len(part.ids) - 1))
        commands.append(("HMGET", keys.body(part.group), *part.ids))
    return commands


LEASING = 4
"""Commands of `claims` before those that read."""


def read(batch: Sequence[Part], answers: Sequence[Any]) -> list[Found]:
    """What the answers to `claims` brought."""
    first, end = LEASING, LEASING + 2 * len(batch)
    pairs = zip(answers[first:end:2], answers[first + 1 : end : 2], strict=True)
    return [Found(part, order, records) for part, (order, records) in zip(batch, pairs, strict=True)]


def deletes(keys: ShardKeys, batch: Sequence[Found], now: int, *, is_first: bool) -> list[Command]:
    """Take away what was handled, two commands for each group, remember it, and give the groups back."""
    commands: list[Command] = []
    for found in batch:
        commands.append(("ZREM", keys.order(found.part.group), *found.members))
        commands.append(("HDEL", keys.body(found.part.group), *found.part.ids))
    gone = [found.part.group for found in batch if found.part.is_last]
    rest = [found.part.group for found in batch if not found.part.is_last]
    if gone:
        commands.append(("ZREM", keys.schedule, *gone))
    if rest:
        commands.append(("ZADD", keys.schedule, *(word for group in rest for word in (now, group))))
    names = ("began", "last") if is_first else ("last",)
    wide = WIDE if is_first else ()
    ids = [f"{found.part.group}\n{message_id}" for found in batch for message_id in found.part.ids]
    times = [word for name in names for kind in ("dedup", "watermarks") for word in (f"{kind}:{name}", now)]
    commands += [
        ("HDEL", keys.leases, *(found.part.group for found in batch)),
        ("SADD", keys.dedup, *ids),
        ("HSET", keys.watermarks, *wide, *(word for found in batch for word in (found.part.group, found.mark()))),
        ("HSET", keys.memory, *times),
        ("HINCRBY", keys.stats, "handled", len(ids)),
    ]
    return commands


def run(steps: Steps, ask: Callable[[list[Command]], list[Any]]) -> list[Found]:
    """All that a raw consumer reads when its commands are asked like this."""
    try:
        commands = next(steps)
        while True:
            commands = steps.send(ask(commands))
    except StopIteration as end:
        found: list[Found] = end.value
        return found


def ask(link: Link, _keys: ShardKeys, commands: list[Command]) -> list[Any]:
    """One round trip; the answers. Raises ServerError."""
    return link.commands(commands)


WORDS = {"HSET": 2, "ZADD": 2, "HMGET": 1, "ZREM": 1, "HDEL": 1, "SADD": 1}
"""What may concern several messages, and how many words are of one."""


def ask_singly(link: Link, keys: ShardKeys, commands: list[Command]) -> list[Any]:
    """One round trip in which each message has its own commands; the answers as to `commands`. Raises ServerError."""
    split = [singly(keys, command) for command in commands]
    answers = iter(link.commands([one for some in split for one in some]))
    every = [[next(answers) for _ in some] for some in split]
    return [found if command[0] == "HMGET" else found[0] for command, found in zip(commands, every, strict=True)]


def singly(keys: ShardKeys, command: Command) -> list[Command]:
    """A command about messages as one for each of them; any other as it is. Pure."""
    name, key, *words = command
    if name not in WORDS or not (key == keys.dedup or key.startswith((keys.body(""), keys.order("")))):
        return [command]
    own = "HGET" if name == "HMGET" else name
    return [(own, key, *words[at : at + WORDS[name]]) for at in range(0, len(words), WORDS[name])]


def fault(messages: Iterable[Planned], found: Iterable[Found]) -> str:
    """What is wrong with what was read, "" for nothing: each message once, in order, with its body. Pure."""
    wanted: dict[str, list[tuple[str, bytes]]] = {}
    for message in messages:
        envelope = encode_envelope(message.body(), None, MAX_ENVELOPE)
        wanted.setdefault(message.group, []).append((message.id, envelope))
    got: dict[str, list[tuple[str, bytes]]] = {}
    for part, members, records in found:
        for member, record in zip(members, records, strict=True):
            entry = (member[STAMP_DIGITS:].decode(), (record or b"")[STAMP_DIGITS + 5 :])
            got.setdefault(part.group, []).append(entry)
    wrong = [group for group in {**wanted, **got} if wanted.get(group) != got.get(group)]
    return f"{len(wrong)} groups were not read as they were appended, for example {wrong[0]}" if wrong else ""
