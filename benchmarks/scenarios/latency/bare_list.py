"""A bare list in scenario `latency`: RPUSH and BLPOP by plain redis-py, one command for a message at either end.

No groups, no order beyond the list's, and what a consumer has taken is lost with it. So it shows what two hops through
the server cost on this machine, and what anything built on them can come near to at best.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
import redis

from ...load.arrivals import on_schedule
from ...load.history import Row
from ...load.member import Parent
from ...load.task import Task, play
from ...load.workload import Planned

MODULE = "benchmarks.scenarios.latency.bare_list"
WAIT_S = 1.0


def _key(task: Task) -> str:
    return f"{task.namespace}:list"


def produce(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Push each message at its time. Numbers: `rate`, messages a second."""
    with redis.Redis.from_url(task.url) as client:
        client.ping()
        key = _key(task)

        def push(message: Planned, body: Any) -> None:
            client.rpush(key, orjson.dumps([message.group, message.id, message.number, body]))

        on_schedule(task, parent, rows, push)


def consume(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Pop until told to end; then what is left."""
    with redis.Redis.from_url(task.url) as client:
        client.ping()
        key, add, clock = _key(task), rows.append, time.monotonic
        parent.ready(lambda: None)
        while (found := client.blpop([key], timeout=WAIT_S)) or not parent.is_ending.is_set():
            if found:
                started = clock()
                group, name, number, _ = orjson.loads(found[1])
                add((group, name, 0.0, number, 0, started, clock()))


if __name__ == "__main__":
    play({"produce": produce, "consume": consume})
