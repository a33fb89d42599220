"""A queue on a real cluster of three primaries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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
CLIENTS: dict[str, Callable[[Cluster], Any]] = {
    "url": lambda cluster: cluster.url,
    "one node": lambda cluster: f"redis+cluster://127.0.0.1:{cluster.ports[0]}",
    "client": lambda cluster: redis.RedisCluster(host="127.0.0.1", port=cluster.ports[0]),
    "awaited client": lambda cluster: redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.ports[0]),
}


def slot(namespace: str, queue: str = "q") -> int:
    """Of the only shard."""
    return slot_of(shard_keys(namespace, queue, 0).schedule)


@pytest.mark.slow
def test_a_queue_works_on_a_cluster(cluster: Cluster, namespace: str) -> None:
    for name in NAMES:
        with Sequencer(name, cluster.url, namespace=namespace) as seq:
            assert [seq.append(n, f"g{n % 2}", id=str(n)).outcome for n in range(4)] == ["stored"] * 4
            assert seq.append(0, "g0", id="0").duplicate
            with seq.claim(groups=1) as lease:
                for message in lease:
                    lease.ack(message)
            assert seq.consume(lambda _: None, until_empty=True).handled == 2
            assert (seq.info().backlog, seq.info().totals["handled"], seq.usage().messages) == (0, 4, 0)
            with refused(ConfigurationError, "pipeline_in_cluster"):
                seq.append(1, "g", pipeline=redis.Redis().pipeline())
    assert len({cluster.owner(slot(namespace, name)) for name in NAMES}) == 3
    for name in NAMES:
        Sequencer(name, cluster.url, namespace=namespace).delete()
    assert [cluster.command(port, "KEYS", f"*{namespace}*") for port in cluster.ports] == [[], [], []]
    one = f"127.0.0.1:{cluster.ports[0]}"
    with refused(ServerNotUsable, "is_cluster") as caught:
        Sequencer("q", f"redis://{one}", namespace=namespace).append(1, "g")
    assert f"redis+cluster://{one}" in str(caught.value)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", CLIENTS)
def test_tasks_share_a_line_to_each_node_while_slots_move(cluster: Cluster, namespace: str, kind: str) -> None:
    given, is_over, handled = CLIENTS[kind](cluster), threading.Event(), list[int]()

    def move() -> None:
        while not is_over.is_set():
            for one in (slot(namespace), slot_of(registry_key(namespace, "q"))):
                cluster.move(one)

    async def handle(message: Any) -> None:
        handled.append(message.body)

    async def use() -> None:
        async with AsyncSequencer("q", given, namespace=namespace, shards=1, call_timeout=20) as seq:
            for n in range(0, 200, 5):
                found = await asyncio.gather(*(seq.append(n + i, "g", id=str(n + i), score=n + i) for i in range(5)))
                assert {one.outcome for one in found} == {"stored"}
            await seq.consume(handle, until_empty=True)
            assert (handled, (await seq.info()).backlog) == ([*range(200)], 0)
            await seq.delete()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        asyncio.run(use())
    finally:
        is_over.set()
        thread.join()


@pytest.mark.nightly
def test_a_slot_that_stays_on_its_way_is_named_when_the_time_is_over(cluster: Cluster, namespace: str) -> None:
    options: Any = {"namespace": namespace, "shards": 1, "call_timeout": 0.3}

    async def append() -> None:
        async with AsyncSequencer("q", cluster.url, **options) as seq:
            with refused(ServerUnavailable, "slot_moving"):
                await seq.append(1, "g")

    with Sequencer("q", cluster.url, **options) as seq:
        seq.append(1, "g")
        move = SlotMove(cluster, slot(namespace))
        move.open()
        with refused(ServerUnavailable, "slot_moving") as caught:
            seq.append(1, "g")
        assert caught.value.maybe_sent is False
        asyncio.run(append())
        while move.keys(100):
            pass
        move.close()
        assert (seq.append(1, "g").outcome, seq.info().backlog) == ("stored", 2)
