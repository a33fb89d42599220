"""The processes of scenario `timers`: what sets timers of both kinds, hears of expired keys, and makes the load."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

from ...load.history import Row
from ...load.member import QUEUE, Parent
from ...load.naive import NaiveQueue
from ...load.task import Task, consume, play

MODULE = "benchmarks.scenarios.timers.alerts"
SHARED = 20
TIMER = "timer-"
"""How the id of each timer begins."""
LISTEN_S = 0.05


class Alert(NamedTuple):
    """One timer, and the seconds from setting it until it is due."""

    group: str
    id: str
    delay_s: float


def plan(seed: int, numbers: Mapping[str, Any]) -> list[Alert]:
    """The timers of one run, in the order in which they are set: the same for both systems. Pure.

    Numbers: `timers`, how many; `lead_s` and `spread_s`, the least delay and the length of the time they come due in.
    """
    chance = random.Random(seed)
    return [
        Alert(
            f"s{number // 2 % SHARED}" if number % 2 else f"t{number}",
            f"{TIMER}{number}",
            numbers["lead_s"] + chance.uniform(0, numbers["spread_s"]),
        )
        for number in range(numbers["timers"])
    ]


@contextmanager
def expiry_events(url: str) -> Iterator[None]:
    """A server that tells of expired keys; its setting is put back at the end. Raises ServerError."""
    name, link = "notify-keyspace-events", Link(Endpoint.from_url(url))
    try:
        _, before = link.command("CONFIG", "GET", name)
        link.command("CONFIG", "SET", name, before.decode() + "Ex")
        try:
            yield
        finally:
            link.command("CONFIG", "SET", name, before)
    finally:
        link.close()


def key_prefix(task: Task) -> str:
    return f"{task.namespace}:expiry:"


def set_timers(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """Append all timers. Their score is the time at which they are due, since none is given."""
    alerts = plan(task.workload.seed, task.numbers)
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        queue.append_many(
            {"group": [alert.group], "id": alert.id, "body": None, "delay": alert.delay_s} for alert in alerts
        )


def set_keys(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """The same timers as keys that expire, in pipelines of 500. The due time, in ms, is part of the key's name."""
    alerts = plan(task.workload.seed, task.numbers)
    prefix, queue = key_prefix(task), NaiveQueue(task.url, task.namespace)
    queue.connect()
    parent.ready(lambda: os._exit(1))
    for start in range(0, len(alerts), 500):
        now_s = time.monotonic() + task.numbers["offset_s"]
        with queue.client.pipeline(transaction=False) as pipeline:
            for alert in alerts[start : start + 500]:
                due_ms = round((now_s + alert.delay_s) * 1000)
                pipeline.set(f"{prefix}{alert.group}:{alert.id}:{due_ms}", 1, pxat=due_ms)
            pipeline.execute()
    queue.close()


def listen(task: Task, parent: Parent, rows: list[Row]) -> None:
    """Write down every key of ours that expires, until told to end."""
    prefix, queue = key_prefix(task), NaiveQueue(task.url, task.namespace)
    events: Any = queue.client.pubsub(ignore_subscribe_messages=False)
    events.psubscribe("__keyevent@*__:expired")
    while not events.get_message(timeout=LISTEN_S):
        pass  # the answer to the subscription: from here on it hears
    parent.ready(lambda: None)
    while not parent.is_ending.is_set():
        event = events.get_message(timeout=LISTEN_S)
        if event and event["data"].startswith(prefix):
            now = time.monotonic()
            group, alert_id, due_ms = event["data"].removeprefix(prefix).split(":")
            rows.append((group, alert_id, int(due_ms) / 1000, 0, 0, now, now))
    events.close()
    queue.close()


def load(task: Task, parent: Parent, _rows: list[Row]) -> None:
    """Append ordinary messages one by one at a steady rate; what falls behind is made up for."""
    rate = task.numbers["rate"]
    with Sequencer(QUEUE, task.url, namespace=task.namespace) as queue:
        queue.connect()
        parent.ready(lambda: os._exit(1))
        began = time.monotonic()
        for message in task.workload.planned(0):
            time.sleep(max(0.0, began + message.number / rate - time.monotonic()))
            queue.append({"number": message.number}, [message.group], id=message.id)


if __name__ == "__main__":
    play({"set": set_timers, "expire": set_keys, "listen": listen, "load": load, "consume": consume})
