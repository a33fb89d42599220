"""Handlers of batches, and time limits of handlers and steps, on a real server: alone, in threads and on a loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sequencer import Batch, EmbeddedServer, Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until

from ..support.background import Background
from ..support.handling import consumed

PATIENCE_S = 8.0
Make = Callable[..., Sequencer]
KINDS = pytest.mark.parametrize("kind", ["alone", "threads", "loop"])


def slots(kind: str) -> dict[str, Any]:
    return {} if kind == "alone" else {"concurrency": 4}


def as_kind(kind: str, handle: Callable[[Any], Any], pause_s: Callable[[Any], float] = lambda _: 0.0) -> Any:
    """The handler as a plain function or a coroutine; it ends with a pause."""

    def plain(given: Any) -> None:
        handle(given)
        until = time.monotonic() + pause_s(given)
        while time.monotonic() < until:  # in a thread only Python code is interrupted
            time.sleep(0.001)

    async def coroutine(given: Any) -> None:
        handle(given)
        await asyncio.sleep(pause_s(given))

    return coroutine if kind == "loop" else plain


def noting(done: list[int], stays_at: int) -> tuple[Callable[[Batch], None], Callable[[Batch], float]]:
    """A handler that is done with what lies before this body, and then stays; and how long it does."""

    def handle(batch: Batch) -> None:
        for message in batch:
            if message.body == stays_at:
                break
            batch.done(message)
            done.append(message.body)

    return handle, lambda batch: 60.0 if batch.done_count < len(batch) else 0.0


@KINDS
@pytest.mark.parametrize("shards", [1, 3])
def test_batches_of_many_groups_in_order(make: Make, kind: str, shards: int) -> None:
    seq, seen, sizes = make(shards=shards, backoff=0.01), dict[Any, list[int]](), list[int]()
    seq.append_many({"body": n, "group": n % 10, "id": str(n)} for n in range(1000))
    failures = {103, 104, 777}

    def handle(batch: Batch) -> None:
        sizes.append(len(batch))
        for message in batch:
            if message.body in failures:
                failures.discard(message.body)
                raise ValueError("no")
            batch.done(message)
            seen.setdefault(batch.group, []).append(message.body)

    seq.handler(batch=20)(as_kind(kind, handle))
    summary = seq.consume(until_empty=True, **slots(kind))
    assert (summary.handled, summary.failed, summary.lost) == (1000, 3, 0)
    assert all(bodies == sorted(set(bodies)) for bodies in seen.values())
    assert sum(map(len, seen.values())) == 1000
    assert max(sizes) == 20
    assert len(sizes) < 100, "most batches are whole"


@KINDS
def test_an_interrupt_acknowledges_what_is_done_and_counts_nothing(make: Make, kind: str) -> None:
    seq, done = make("q"), list[int]()
    seq.append_many({"body": n, "group": "g", "id": str(n)} for n in range(10))
    handle, stays_s = noting(done, 3)

    def interrupts(batch: Batch) -> float:  # as a signal does it
        consumer.interrupt()
        raise AssertionError("it goes on")

    seq.handler(batch=8)(as_kind(kind, handle, interrupts if kind == "alone" else stays_s))
    if kind == "alone":
        consumer = seq.consumer()
        summary = consumer.run()
    else:
        with Background(seq, None, **slots(kind)) as running:
            wait_until(lambda: len(done) == 3, PATIENCE_S)
            running.consumer.interrupt()
        summary = running.summary
    assert (done, summary.reason, summary.handled, summary.failed) == ([0, 1, 2], "stopped", 3, 0)
    assert [(message.body, message.attempt) for message in consumed(seq)] == [(n, 1) for n in range(3, 10)]


@KINDS
def test_a_stop_lets_the_batch_end_and_begins_no_other(make: Make, kind: str) -> None:
    seq, sizes = make(), list[int]()
    seq.append_many({"body": n, "group": "g", "id": str(n)} for n in range(30))
    seq.handler(batch=10)(as_kind(kind, lambda batch: sizes.append(len(batch)), lambda _: 0.3))
    with Background(seq, None, **slots(kind)) as running:
        wait_until(lambda: sizes, PATIENCE_S)
    assert (sizes, running.summary.handled, seq.info().backlog) == ([10], 10, 20)


@KINDS
def test_the_time_limit_of_a_batch_fails_the_first_message_not_done(make: Make, kind: str) -> None:
    seq, done = make(max_attempts=1), list[int]()
    seq.append_many({"body": n, "group": "g", "id": str(n)} for n in range(8))
    seq.handler(batch=8, timeout=0.2)(as_kind(kind, *noting(done, 5)))
    summary = seq.consume(until_empty=True, handler_timeout=30, **slots(kind))
    (parked,) = seq.parked()
    assert parked.failure
    assert (parked.failure.type, parked.failure.id, summary.handled) == ("HandlerTimeout", "5", 5)


@KINDS
def test_a_lost_lease_acknowledges_nothing_of_a_batch(make: Make, kind: str, link: Link, namespace: str) -> None:
    seq, done, keys = make("q"), list[int](), shard_keys(namespace, "q", 0)
    seq.append_many({"body": n, "group": "g", "id": str(n)} for n in range(5))
    lost = 0

    def handle(batch: Batch) -> None:
        nonlocal lost
        for message in batch:
            batch.done(message)
            done.append(message.body)
        if not lost:
            lost += 1
            link.command("HSET", keys.leases, "g", "f" * 16 + "0other")
            link.command("ZADD", keys.schedule, "0", "g")

    seq.handler(batch=5)(as_kind(kind, handle))
    summary = seq.consume(until_empty=True, **slots(kind))
    assert summary.lost == 1
    assert done[:5] == [0, 1, 2, 3, 4] == done[5:], "another consumer handles all of it again, in order"


KILLED = """
import sys, time
from sequencer import Sequencer

seq = Sequencer("q", sys.argv[1], namespace=sys.argv[2])

@seq.handler(batch=10)
def handle(batch):
    for message in batch:
        batch.done(message)
        print(message.body, flush=True)
        if message.body == 15:
            time.sleep(60)

seq.consume(lease=0.5, concurrency=int(sys.argv[3]))
"""


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_kill_in_the_middle_repeats_the_batch_and_nothing_before(
    make: Make, server: EmbeddedServer, namespace: str, tmp_path: Path, concurrency: int
) -> None:
    seq, seen = make("q"), list[tuple[int, int]]()
    seq.append_many({"body": n, "group": "g", "id": str(n)} for n in range(30))
    words = [sys.executable, "-c", KILLED, server.url, namespace, str(concurrency)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert [int(process.stdout.readline()) for _ in range(16)] == [*range(16)]
        wait_until(lambda: seq.info().backlog == 20, PATIENCE_S, "the first batch is acknowledged")
        os.kill(process.pid, signal.SIGKILL)
    seq.consume(lambda message: seen.append((message.body, message.attempt)), until_empty=True)
    assert [body for body, _ in seen] == [*range(10, 30)]
    assert [attempt for _, attempt in seen[1:]] == [1] * 19, "the death is nobody's but the first one's"


# -- time limits of steps --------------------------------------------------------------------------------------------


@KINDS
def test_a_step_has_a_time_limit_of_its_own(make: Make, kind: str) -> None:
    seq, ran = make(max_attempts=1), list[str]()
    seq.append(1, group="g")

    def step(name: str, pause_s: float, **options: Any) -> None:
        seq.step(name=name, **options)(as_kind(kind, lambda message: ran.append(name), lambda _: pause_s))

    step("longer", 0.6, timeout=5, order=1)
    step("shorter", 60, timeout=0.1, order=2)
    step("plain", 60, order=3)
    began = time.monotonic()
    summary = seq.consume(until_empty=True, handler_timeout=0.3, **slots(kind))
    assert (summary.failed, ran) == (1, ["longer", "shorter", "plain"])
    assert time.monotonic() - began < 5
    known = seq.steps("g")
    assert known
    steps = {entry.name: entry for entry in known.steps}
    assert {name: entry.state for name, entry in steps.items()} == {"longer": "done"} | dict.fromkeys(
        ("shorter", "plain"), "failed"
    )
    assert "longer than 0.1 s" in steps["shorter"].error
    assert "longer than 0.3 s" in steps["plain"].error
