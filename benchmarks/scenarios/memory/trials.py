"""Scenario `memory`: bytes of the server's memory for a pending message and for a group, and what each key costs.

The same number of messages, 200 bytes of body each, in one group, in 100, in 5,000, and one in each group; once with
ids as sequencer makes them, once with ids of 16 characters. Two looks:

    pending   all were appended, none was handled
    handled   all were handled: what is left are watermarks and the ids of the deduplication window

Of each look: `MEMORY USAGE key SAMPLES 0` (every element counted) of every key of the queue, by kind of key, and how
much `used_memory`, without the buffers of connections, has grown since before the queue was there. What the second has
over the sum of the first is shown as `other`: what the allocator rounds up, and the server's own table of keys, which
doubles in steps (a server that has grown it before shows less there). Beyond body and id means: less the bytes of the
bodies as JSON and of the ids, once. A lease is measured of groups that are leased between the two looks.

Nothing here is a time, and nearly nothing is left to chance (the skiplist of a sorted set throws dice): three runs do,
and where processes run is of no account. All of it is done in one process. The server should have nothing else to do:
what another client stores meanwhile would count.

A run in which a message was lost, handled twice or out of order is not valid.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import orjson

from sequencer.client import Sequencer
from sequencer.net.link import Link
from sequencer.settings.policy import Policy
from sequencer.store.keys import shard_keys
from sequencer.values.message import Message

from ...kit.rounds import Run, Turn, measured, wrong_in
from ...kit.server import Gauge
from ...load.member import QUEUE
from ...load.order_check import Handled
from ...load.task import scratch
from ...load.workload import BODY_BYTES

PAGE = 1000
LEASED = 100
RATE = 1000
"""Messages a second, whose ids are kept for up to two windows of deduplication."""
PENDING = ("order", "body", "schedule", "dispatch", "leases")
"""Kinds of keys that only a queue with messages has."""
IDS = ("made", "16")
SIZES = {"zset": "ZCARD", "hash": "HLEN", "list": "LLEN", "set": "SCARD", "string": "STRLEN"}


class Shape(NamedTuple):
    """Messages evenly over groups, with ids of one sort."""

    groups: int
    messages: int
    ids: str

    @property
    def title(self) -> str:
        each = self.messages // self.groups
        return f"{self.groups:,} x {each:,}, ids {self.ids}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. In as many groups as there are messages each has one."""

    messages: int
    groups: tuple[int, ...]
    ids: tuple[str, ...]
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "body_bytes": BODY_BYTES}

    @property
    def shapes(self) -> list[Shape]:
        sizes = sorted({min(groups, self.messages) for groups in (*self.groups, self.messages)})
        return [Shape(size, self.messages // size * size, ids) for ids in self.ids for size in sizes]


USUAL = Parameters(messages=20_000, groups=(1, 100, 5000), ids=IDS, runs=5, warmup=1)
SMOKE = replace(USUAL, messages=400, groups=(1, 20), runs=1, warmup=0)


class DeadLetterContent(NamedTuple):
    """All keys of one kind: how many keys, what they hold together, and bytes."""

    keys: int
    entries: int
    bytes: int


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the shapes in turn within each round. Raises ServerError."""
    with Gauge(url) as gauge:
        return measured(parameters, parameters.shapes, lambda shape, turn: run_shape(url, gauge, shape, turn), on_run)


def run_shape(url: str, gauge: Gauge, shape: Shape, turn: Turn) -> Run:
    """One shape with keys of its own, gone afterwards. Raises ServerError."""
    with scratch(url) as (namespace, _):
        rehearse(url, gauge.link, namespace)
    with scratch(url) as (namespace, _):
        before = gauge.used_memory()
        fill(url, namespace, shape)
        pending, pending_growth = look(gauge.link, namespace), gauge.used_memory() - before
        lease = bytes_of_lease(url, gauge.link, namespace, shape)
        done = consume(url, namespace)
        after, after_growth = look(gauge.link, namespace), gauge.used_memory() - before
    payload = sum(len(orjson.dumps(message.body)) + len(message.id) for message in done)
    problem = wrong_in(planned(shape), history(done)) or leftovers(after)
    figures = {
        "id": sum(len(message.id) for message in done) / shape.messages,
        **per_message(shape, payload, pending, pending_growth),
        **after_all(shape, after, after_growth),
        "lease": lease,
    }
    settings = {
        **shape._asdict(),
        "payload_bytes": payload,
        "pending": {"used_memory": pending_growth, **{kind: kept._asdict() for kind, kept in pending.items()}},
        "handled": {"used_memory": after_growth, **{kind: kept._asdict() for kind, kept in after.items()}},
    }
    return Run(
        case=shape.title,
        turn=turn,
        messages=shape.messages,
        problem=problem,
        single={} if problem else figures,
        settings=settings,
    )


def per_message(shape: Shape, payload: int, kinds: dict[str, DeadLetterContent], growth: int) -> dict[str, float]:
    """Bytes for each pending message: in all beyond body and id, and by kind of key. Pure."""
    listed = sum(kept.bytes for kept in kinds.values())
    figures = {f"pending {kind}": kept.bytes / shape.messages for kind, kept in kinds.items()}
    return {
        **figures,
        "pending other": (growth - listed) / shape.messages,
        "pending all": growth / shape.messages,
        "beyond body and id": (growth - payload) / shape.messages,
        "beyond, a group": (growth - payload) / shape.groups,
    }


def after_all(shape: Shape, kinds: dict[str, DeadLetterContent], growth: int) -> dict[str, float]:
    """Bytes once all was handled: of each id and watermark that is kept, and in all for each message; and what the ids
    take at RATE. Pure.
    """
    figures = {
        f"handled {kind}": kept.bytes / kept.entries for kind, kept in kinds.items() if kind in ("dedup", "watermarks")
    }
    if "handled dedup" in figures:
        figures["ids, MB"] = figures["handled dedup"] * RATE * 2 * Policy().dedup_window / 1e6
    return {**figures, "handled all": growth / shape.messages}


# -- the messages ---------------------------------------------------------------------------------------------


def items(shape: Shape) -> Iterator[dict[str, Any]]:
    """What is appended: groups in turn, bodies of BODY_BYTES that hold their number."""
    chance = random.Random(shape.messages)
    for number in range(1, shape.messages + 1):
        body = {"number": number, "note": ""}
        body["note"] = "x" * (BODY_BYTES - len(orjson.dumps(body)))
        item = {"group": (f"g{number % shape.groups}",), "body": body}
        yield {**item, "id": f"{chance.getrandbits(64):016x}"} if shape.ids == "16" else item


def planned(shape: Shape) -> dict[tuple[str, str], int]:
    """Every message's place, by its group and the number in its body: ids are made by sequencer. Pure."""
    return {(f"g{number % shape.groups}", str(number)): number for number in range(1, shape.messages + 1)}


def history(done: Sequence[Message]) -> list[Handled]:
    """One process handled them one at a time, so places in the list stand for times. Pure."""
    return [
        Handled(m.group[0], str(m.body["number"]), m.score, m.stamp, m.token, at, at + 0.5) for at, m in enumerate(done)
    ]


def fill(url: str, namespace: str, shape: Shape) -> None:
    with Sequencer(QUEUE, url, namespace=namespace) as queue:
        queue.append_many(items(shape))


def consume(url: str, namespace: str) -> list[Message]:
    """Handle all there is."""
    done: list[Message] = []
    with Sequencer(QUEUE, url, namespace=namespace) as queue:
        if queue.consume(done.append, until_empty=True).reason == "stopped":
            raise KeyboardInterrupt  # it has taken the signal for itself
    return done


# -- the server -----------------------------------------------------------------------------------------------


def rehearse(url: str, link: Link, namespace: str) -> None:
    """All steps with one message: what a server keeps from its first use on, as scripts and statistics of each command,
    is not counted. Raises ServerError.
    """
    shape = Shape(1, 1, IDS[0])
    fill(url, namespace, shape)
    look(link, namespace)
    bytes_of_lease(url, link, namespace, shape)
    consume(url, namespace)
    look(link, namespace)


def bytes_of_lease(url: str, link: Link, namespace: str, shape: Shape) -> float:
    """Lease some groups, and give them back. Raises ServerError."""
    leases = shard_keys(namespace, QUEUE, 0).leases
    with (
        Sequencer(QUEUE, url, namespace=namespace) as queue,
        queue.claim(groups=min(LEASED, shape.groups), messages=PAGE),
    ):
        size, used = link.commands([("HLEN", leases), ("MEMORY", "USAGE", leases, "SAMPLES", 0)])
        return float(used / size)


def look(link: Link, namespace: str) -> dict[str, DeadLetterContent]:
    """All keys of the queue, by kind. Raises ServerError."""
    keys = keys_of(link, namespace)
    found: dict[str, DeadLetterContent] = {}
    prefix = shard_keys(namespace, QUEUE, 0).prefix
    for at in range(0, len(keys), PAGE):
        some = keys[at : at + PAGE]
        types = [kind.decode() for kind in link.commands([("TYPE", key) for key in some])]
        sizes = link.commands([(SIZES[kind], key) for key, kind in zip(some, types, strict=True)])
        used = link.commands([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in some])
        for key, entries, size in zip(some, sizes, used, strict=True):
            kind = kind_of(key.decode(), prefix)
            first = link.command("HEXISTS", key, "") if kind == "watermarks" else 0  # the field they begin with
            old = found.get(kind, DeadLetterContent(0, 0, 0))
            found[kind] = DeadLetterContent(old.keys + 1, old.entries + entries - first, old.bytes + size)
    return found


def keys_of(link: Link, namespace: str) -> list[bytes]:
    """Every key of the namespace. Raises ServerError."""
    found: set[bytes] = set()
    for pattern in (f"{{{namespace}:*", f"{namespace}:*"):
        cursor = b"0"
        while True:
            cursor, keys = link.command("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
            found.update(keys)
            if cursor == b"0":
                break
    return sorted(found)


def kind_of(key: str, prefix: str) -> str:
    """`order` of all orders, `dedup` of both generations; `queues` of the one key outside the shard. Pure."""
    return key[len(prefix) :].partition(":")[0] if key.startswith(prefix) else "queues"


def leftovers(kinds: Mapping[str, DeadLetterContent]) -> str:
    """What a queue without messages may not have, "" for nothing. Pure."""
    left = [kind for kind in kinds if kind in PENDING]
    return f"keys are left when all was handled: {', '.join(left)}" if left else ""
