"""Many worker slots in one process, on a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer


def test_groups_run_at_once_and_each_in_order(make: Callable[..., Sequencer]) -> None:
    seq = make()
    seq.append_many({"body": n, "group": n % 20, "id": str(n)} for n in range(400))
    seen: dict[Any, list[int]] = defaultdict(list)
    running, most, lock = Counter[Any](), [0], threading.Lock()

    def handle(message: Message) -> None:
        with lock:
            running[message.group] += 1
            assert running[message.group] == 1
            most[0] = max(most[0], running.total())
        threading.Event().wait(0.002)
        seen[message.group].append(message.body)
        with lock:
            running[message.group] -= 1

    summary = seq.consume(handle, concurrency=8, until_empty=True)
    assert (summary.reason, summary.handled, summary.failed) == ("drained", 400, 0)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 400
    assert most[0] == 8


def test_a_failure_parks_its_group_alone(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    for n in range(30):
        seq.append(n, group=n % 10, id=str(n))

    def handle(message: Message) -> None:
        if message.body == 13:
            raise ValueError("no")

    summary = seq.consume(handle, concurrency=4, until_empty=True)
    assert (summary.handled, summary.failed) == (28, 1)
    assert [group.group for group in seq.parked()] == [("3",)]


@pytest.mark.parametrize("shards", [1, 4])
def test_it_waits_for_messages_and_stops(make: Callable[..., Sequencer], shards: int) -> None:
    seq = make(shards=shards)
    seq.connect()
    consumers: list[Any] = []
    done = threading.Event()
    delays: list[float] = []

    def handle(message: Message) -> None:
        delays.append(time.time() - message.body)
        if len(delays) == 20:
            done.set()

    thread = threading.Thread(target=lambda: seq.consume(handle, concurrency=5, on_start=consumers.append), daemon=True)
    thread.start()
    for n in range(20):
        seq.append(time.time(), group=n)
        done.wait(0.02)
    assert done.wait(10)
    consumers[0].stop()
    thread.join(10)
    assert not thread.is_alive()
    assert seq.info().backlog == 0


def test_coroutines_share_a_loop(make: Callable[..., Sequencer]) -> None:
    seq = make()
    seq.append_many({"body": n, "group": n % 50, "id": str(n)} for n in range(1000))
    seen: dict[Any, list[int]] = defaultdict(list)
    now, most = [0], [0]

    async def handle(message: Message) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.001)
        now[0] -= 1
        seen[message.group].append(message.body)

    summary = seq.consume(handle, until_empty=True)
    assert (summary.reason, summary.handled, summary.failed) == ("drained", 1000, 0)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 1000
    assert most[0] > 20


def test_a_coroutine_that_fails_or_takes_too_long(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    for n in range(10):
        seq.append(n, group=n)

    async def handle(message: Message) -> None:
        if message.body == 3:
            raise ValueError("no")
        if message.body == 4:
            await asyncio.sleep(60)

    summary = seq.consume(handle, until_empty=True, handler_timeout=0.2)
    assert (summary.handled, summary.failed) == (8, 2)
    parked = {group.group: group.failure.type if group.failure else "" for group in seq.parked()}
    assert parked == {("3",): "ValueError", ("4",): "HandlerTimeout"}
