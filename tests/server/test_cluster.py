"""A queue on a real cluster of three primaries, and the cluster itself."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from sequencer import AsyncSequencer, Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.errors import ConfigurationError, OutcomeUnknown, SequencerError, ServerNotUsable, ServerUnavailable
from sequencer.net import cluster_line
from sequencer.net.endpoint import Endpoint
from sequencer.server.cluster import EmbeddedCluster
from sequencer.store.keys import guard_key, registry_key, shard_keys

from ..support.cluster import Cluster, SlotMove, run_cluster, slot_of
from ..support.refused import refused

SHARDS, MESSAGES = 16, 400
MOVES = 10
PATIENCE_S = 2.0
ITEMS = [{"body": n, "group": n, "id": n} for n in range(MESSAGES)]


def slots(seq: Sequencer) -> list[int]:
    return [slot_of(keys.schedule) for keys in seq._session._shards]


@pytest.mark.slow
def test_a_queue_works_on_a_cluster(cluster: Cluster, namespace: str) -> None:
    with Sequencer("q", cluster.url, namespace=namespace) as seq:
        assert [seq.append(n, f"g{n % 2}", id=str(n)).outcome for n in range(4)] == ["stored"] * 4
        assert seq.append(0, "g0", id="0").duplicate
        with seq.claim(groups=1) as lease:
            for message in lease:
                lease.ack(message)
        assert seq.consume(lambda _: None, until_empty=True).handled == 2
        assert seq.append_many(ITEMS).appended == MESSAGES
        info = seq.info()
        assert (info.shards, info.backlog, info.totals["handled"], len(seq.groups())) == (SHARDS, MESSAGES, 4, MESSAGES)
        assert sorted(Counter(map(cluster.owner, slots(seq))).values()) == [5, 5, 6]
        with refused(ConfigurationError, "pipeline_in_cluster"):
            seq.append(1, "g", pipeline=redis.Redis().pipeline())
        seq.delete()
    assert [cluster.command(port, "KEYS", f"*{namespace}*") for port in cluster.ports] == [[], [], []]
    one = f"127.0.0.1:{cluster.ports[0]}"
    with refused(ServerNotUsable, "is_cluster") as caught:
        Sequencer("q", f"redis://{one}", namespace=namespace).append(1, "g")
    assert f"redis+cluster://{one}" in str(caught.value)


# -- while slots move ----------------------------------------------------------------------------------------------

CLIENTS: dict[str, Callable[[Cluster], Any]] = {
    "url": lambda cluster: cluster.url,
    "one node": lambda cluster: f"redis+cluster://127.0.0.1:{cluster.ports[0]}",
    "client": lambda cluster: redis.RedisCluster(host="127.0.0.1", port=cluster.ports[0]),
    "awaited client": lambda cluster: redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.ports[0]),
}


def move(cluster: Cluster, key: str) -> None:
    """Its slot, key by key."""
    move = SlotMove(cluster, slot_of(key))
    move.open()
    while move.keys(1):
        pass
    move.close()


def use_while_slots_move(cluster: Cluster, namespace: str, given: Any) -> None:
    handled, numbers = list[int](), itertools.count()

    async def handle(message: Any) -> None:
        handled.append(message.body)

    async def append(seq: AsyncSequencer) -> None:
        n = next(numbers)
        assert (await seq.append(n, "g", id=str(n), score=n)).outcome == "stored"

    async def use() -> None:
        keys = shard_keys(namespace, "q", 0).schedule, registry_key(namespace, "q")
        async with AsyncSequencer("q", given, namespace=namespace, shards=1, call_timeout=20) as seq:
            await append(seq)
            for key in keys * MOVES:
                moved = asyncio.create_task(asyncio.to_thread(move, cluster, key))
                while not moved.done():
                    await asyncio.gather(*(append(seq) for _ in range(5)))
                await moved
            await seq.consume(handle, until_empty=True)
            assert (handled, (await seq.info()).backlog) == ([*range(next(numbers))], 0)
            await seq.delete()

    asyncio.run(use())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", CLIENTS)
def test_tasks_share_a_line_to_each_node_while_slots_move(cluster: Cluster, namespace: str, kind: str) -> None:
    use_while_slots_move(cluster, namespace, CLIENTS[kind](cluster))


@pytest.mark.nightly
def test_without_the_key_that_never_exists_scripts_run_on_half_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the trial above."""
    monkeypatch.setattr(cluster_line, "guarded", lambda words: words)
    with run_cluster(2) as own, refused(ServerNotUsable, "scripts_broken"):
        use_while_slots_move(own, "n", own.url)


# -- what can't be reached ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Three primaries for the tests that harm them."""
    with run_cluster() as running:
        yield running


@contextmanager
def half_moved(nodes: Cluster, _: int, slot: int) -> Iterator[None]:
    move = SlotMove(nodes, slot)
    move.open()
    move.keys(2)
    yield
    move.close()


@contextmanager
def poisoned(nodes: Cluster, port: int, slot: int) -> Iterator[None]:
    """A script of another program reads keys of two slots of the node."""
    near, far = (next(key for key in map(str, range(10**6)) if slot_of(key) == one) for one in (slot, slot + 1))
    with suppress(SequencerError):
        nodes.command(port, "EVAL", f"return redis.call('MGET', '{near}', '{far}')", 0)
    if "scripts broken" not in [one.code for one in diagnose(Endpoint.from_url(nodes.url), "sequencer", "poisoned")]:
        pytest.skip("this server recovers")
    yield
    with nodes.killed(port):  # which mends it
        pass


FAULTS: dict[str, tuple[str, Callable[[Cluster, int, int], AbstractContextManager[None]]]] = {
    "killed": ("node away", lambda nodes, port, _: nodes.killed(port)),
    "frozen": ("node away", lambda nodes, port, _: nodes.frozen(port)),
    "half_moved": ("slots moving", half_moved),
    "poisoned": ("scripts broken", poisoned),
}
"""What doctor calls each."""


def within_patience(call: Callable[[], Any]) -> Any:
    began = time.monotonic()
    try:
        return call()
    finally:
        assert time.monotonic() - began < PATIENCE_S + 1.0


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_reached_is_named_in_time_and_the_rest_is_shown(nodes: Cluster, name: str) -> None:
    (code, fault), url = FAULTS[name], f"{nodes.url}?socket_timeout={PATIENCE_S}"
    endpoint = Endpoint.from_url(url)
    with Sequencer(name, url) as seq, Sequencer(name, url) as new:
        seq.append_many(ITEMS)
        owners = [*map(nodes.owner, slots(seq))]
        away = {shard for shard, port in enumerate(owners) if port == owners[3]}
        away = {3} if fault is half_moved else set() if fault is poisoned else away
        with fault(nodes, owners[3], slots(seq)[3]):
            for info in (within_patience(seq.info), within_patience(new.info)):
                assert {*(info.unreachable.shards if info.unreachable else ())} == away
                assert 0 < info.backlog < MESSAGES + (not away)
            for view in (new.snapshot, new.groups, new.consumers):
                within_patience(view)
            codes = {one.code: one.fields for one in within_patience(lambda: diagnose(endpoint, "sequencer", name))}
            assert code in codes
            assert {*codes.get("shards unreachable", {"unreachable": ()})["unreachable"]} == away
            more = [item | {"id": f"{item['id']} again"} for item in ITEMS]
            for _ in range(2):
                with refused(OutcomeUnknown, "part_unknown") as caught:
                    within_patience(lambda: seq.append_many(more))
                stored, left = (caught.value.fields[name] for name in ("stored", "left"))
                assert (stored + left, stored > left > 0) == (MESSAGES, True)
                assert f"127.0.0.1:{owners[3]}" in caught.value.fields["error"]
        nodes.wait_whole()
        assert seq.append_many(more).appended == left
        assert (seq.info().unreachable, seq.info().backlog) == (None, 2 * MESSAGES)
        assert is_healthy(diagnose(endpoint, "sequencer", name))


@pytest.mark.nightly
def test_each_call_ends_in_time_while_all_nodes_are_frozen(nodes: Cluster) -> None:
    url = f"{nodes.url}?socket_timeout={PATIENCE_S}"
    with Sequencer("still", url) as seq, Sequencer("still", url) as new, ExitStack() as freezes:
        seq.append_many(ITEMS)
        for port in nodes.ports:
            freezes.enter_context(nodes.frozen(port))
        more = [item | {"id": f"{item['id']} again"} for item in ITEMS]
        calls: list[Callable[[], Any]] = [
            partial(seq.append_many, more),
            partial(seq.append, 1, "g"),
            seq.info,
            new.info,
            partial(new.claim),
        ]
        for call in calls * 2:
            with pytest.raises(SequencerError):
                within_patience(call)
    nodes.wait_whole()


@pytest.mark.nightly
def test_doctor_names_the_node_whose_setting_or_key_is_wrong(nodes: Cluster) -> None:
    def wrong() -> list[tuple[str, Any]]:
        found = diagnose(Endpoint.from_url(nodes.url), "sequencer", "jobs")
        return [(one.code, one.fields.get("node") or one.fields.get("key")) for one in found if one.level == "problem"]

    with Sequencer("jobs", nodes.url) as seq:
        seq.append_many(ITEMS)
        port, key = nodes.ports[1], guard_key(seq._session._shards[0].schedule)
        nodes.command(port, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
        nodes.command(nodes.owner(slot_of(key)), "SET", key, "1")
        assert {("full coverage required", f"127.0.0.1:{port}"), ("guard key", key)} < {*wrong()}
        nodes.command(port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
        nodes.command(nodes.owner(slot_of(key)), "DEL", key)
        assert wrong() == []


# -- the cluster itself ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_that_was_half_formed_starts_whole_and_keeps_its_size_and_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, join = EmbeddedCluster(tmp_path, 2), EmbeddedCluster._join
    assert (cluster.ports, cluster.stop()) == ([], False)
    try:
        with monkeypatch.context() as patch, refused(ServerUnavailable, "cluster_not_formed"):
            patch.setattr(EmbeddedCluster, "_join", lambda self, at, ports: at or join(self, at, ports))
            patch.setattr("sequencer.server.cluster.FORM_S", 0.1)
            cluster.start()
        port = cluster.ports[0]
        assert cluster.node(port).stop(), "one is missing"
        assert (cluster.start(), cluster.start()) == (True, False)
        assert [one.is_running for one in cluster.status()] == [True, True]
        assert cluster.url == f"redis+cluster://127.0.0.1:{port},127.0.0.1:{port + 1}/"
        cluster.command(port, "SET", "{06S}", "kept")  # slot 0
        with refused(ConfigurationError, "cluster_size_fixed"):
            EmbeddedCluster(tmp_path, 3).start()
        assert cluster.stop()
        assert [one.is_running for one in cluster.status()] == [False, False]
        assert cluster.start()
        assert cluster.command(port, "GET", "{06S}") == b"kept"
    finally:
        cluster.stop()
