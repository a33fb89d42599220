"""A queue on a real cluster of three primaries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

from sequencer import AsyncSequencer, Sequencer
from sequencer.errors import ConfigurationError, ServerNotUsable, ServerUnavailable
from sequencer.store.keys import registry_key, shard_keys

from ..support.cluster import Cluster, SlotMove, slot_of
from ..support.refused import refused

NAMES = [f"q{n}" for n in range(6)]
"""Queues on all three nodes."""


def client(cluster: Cluster, kind: str) -> Any:
    port = cluster.ports[0]
    makers: dict[str, Callable[[], Any]] = {
        "url": lambda: cluster.url,
        "one node": lambda: f"redis+cluster://127.0.0.1:{port}",
        "client": lambda: redis.RedisCluster(host="127.0.0.1", port=port),
        "awaited client": lambda: redis.asyncio.RedisCluster(host="127.0.0.1", port=port),
    }
    return makers[kind]()


def slots(namespace: str, queue: str = "q") -> tuple[int, int]:
    """Of the registry, and of the only shard."""
    return slot_of(registry_key(namespace, queue)), slot_of(shard_keys(namespace, queue, 0).schedule)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["url", "awaited client"])
def test_a_queue_works_on_a_cluster(cluster: Cluster, namespace: str, kind: str) -> None:
    for name in NAMES:
        with Sequencer(name, client(cluster, kind), namespace=namespace) as seq:
            assert [seq.append(n, f"g{n % 2}", id=str(n)).outcome for n in range(4)] == ["stored"] * 4
            assert seq.append(0, "g0", id="0").duplicate
            with seq.claim(groups=1) as lease:
                for message in lease:
                    lease.ack(message)
            assert seq.consume(lambda _: None, until_empty=True).handled == 2
            assert (seq.info().backlog, seq.info().totals["handled"], seq.usage().messages) == (0, 4, 0)
    assert len({cluster.owner(slots(namespace, name)[1]) for name in NAMES}) == 3
    for name in NAMES:
        Sequencer(name, cluster.url, namespace=namespace).delete()
    assert [cluster.command(port, "KEYS", f"*{namespace}*") for port in cluster.ports] == [[], [], []]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["one node", "client", "awaited client"])
def test_tasks_share_a_line_to_each_node(cluster: Cluster, namespace: str, kind: str) -> None:
    async def use() -> None:
        async with AsyncSequencer("q", client(cluster, kind), namespace=namespace) as seq:
            found = await asyncio.gather(*(seq.append(n, f"g{n % 5}") for n in range(100)))
            assert {one.outcome for one in found} == {"stored"}
            handled = list[Any]()

            async def handle(message: Any) -> None:
                handled.append(message.body)

            await seq.consume(handle, until_empty=True)
            assert (sorted(handled), (await seq.info()).backlog) == ([*range(100)], 0)
            await seq.delete()

    asyncio.run(use())


@contextmanager
def moving(cluster: Cluster, *moved: int) -> Iterator[None]:
    """Slots are moved key by key for that time, one after another."""
    is_over = threading.Event()

    def move() -> None:
        while not is_over.is_set():
            for slot in moved:
                cluster.move(slot)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.nightly
def test_calls_follow_slots_that_move_and_wait_for_those_on_their_way(cluster: Cluster, namespace: str) -> None:
    moves, handled = slots(namespace), list[int]()

    async def append() -> None:
        async with AsyncSequencer("q", cluster.url, namespace=namespace, call_timeout=20) as seq:
            for n in range(100, 200, 5):
                found = await asyncio.gather(*(seq.append(n + i, "b", id=str(n + i), score=n + i) for i in range(5)))
                assert {one.outcome for one in found} == {"stored"}

    with Sequencer("q", cluster.url, namespace=namespace, call_timeout=20) as seq, moving(cluster, *moves):
        for n in range(100):
            assert seq.append(n, "a", id=str(n), score=n).outcome == "stored"
        asyncio.run(append())
        seq.consume(lambda message: handled.append(message.body), until_empty=True)
    assert sorted(handled) == [*range(200)]
    assert [n for n in handled if n < 100] == [*range(100)]
    assert [n for n in handled if n >= 100] == [*range(100, 200)]


@pytest.mark.nightly
def test_a_slot_that_stays_on_its_way_is_named_when_the_time_of_a_call_is_over(
    cluster: Cluster, namespace: str
) -> None:
    async def append() -> None:
        async with AsyncSequencer("q", cluster.url, namespace=namespace, call_timeout=0.3) as seq:
            with refused(ServerUnavailable, "slot_moving"):
                await seq.append(1, "g")

    with Sequencer("q", cluster.url, namespace=namespace, call_timeout=0.3) as seq:
        seq.append(1, "g")
        move = SlotMove(cluster, slots(namespace)[1])
        move.open()
        with refused(ServerUnavailable, "slot_moving") as caught:
            seq.append(1, "g")
        assert caught.value.maybe_sent is False
        asyncio.run(append())
        while move.keys(100):
            pass
        move.close()
        assert seq.append(1, "g").outcome == "stored"
        assert seq.info().backlog == 2


@pytest.mark.nightly
def test_what_a_cluster_does_not_take_is_refused_with_what_to_do(cluster: Cluster, namespace: str) -> None:
    port = cluster.ports[0]
    with refused(ServerNotUsable, "is_cluster") as caught:
        Sequencer("q", f"redis://127.0.0.1:{port}", namespace=namespace).append(1, "g")
    assert f"redis+cluster://127.0.0.1:{port}" in str(caught.value)
    with Sequencer("q", cluster.url, namespace=namespace) as seq, refused(ConfigurationError, "pipeline_in_cluster"):
        seq.append(1, "g", pipeline=redis.Redis().pipeline())
