"""A cluster of embedded servers: what starts it, what it keeps, and what tests do with it."""

from __future__ import annotations

import tempfile

import pytest
from redis.exceptions import AskError, MovedError

from sequencer.errors import ConfigurationError, SequencerError, ServerUnavailable
from sequencer.server.cluster import EmbeddedCluster

from ..support.cluster import Cluster, SlotMove, slot_of

pytestmark = pytest.mark.slow


def test_a_cluster_starts_once_keeps_its_size_and_its_data() -> None:
    with tempfile.TemporaryDirectory(prefix="sqc-") as directory:
        cluster = EmbeddedCluster(directory, 2)
        assert not cluster.ports
        assert cluster.stop() is False
        try:
            assert (cluster.start(), cluster.start()) == (True, False)
            assert [one.is_running for one in cluster.status()] == [True, True]
            port = cluster.ports[0]
            assert cluster.url == f"redis+cluster://127.0.0.1:{port},127.0.0.1:{port + 1}/"
            cluster.command(port, "SET", "{06S}", "kept")  # slot 0
            with pytest.raises(ConfigurationError) as refused:
                EmbeddedCluster(directory, 3).start()
            assert refused.value.code == "cluster_size_fixed"
            assert cluster.node(port).stop(), "one is missing"
            assert cluster.start()
            assert cluster.command(port, "GET", "{06S}") == b"kept"
        finally:
            assert cluster.stop()
        assert [one.is_running for one in cluster.status()] == [False, False]


def test_a_start_that_was_interrupted_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="sqc-") as directory, monkeypatch.context() as patch:
        cluster = EmbeddedCluster(directory, 2)
        join = EmbeddedCluster._join
        patch.setattr(EmbeddedCluster, "_join", lambda self, at, ports: at or join(self, at, ports))
        patch.setattr("sequencer.server.cluster.FORM_S", 0.1)
        try:
            with pytest.raises(ServerUnavailable) as refused:
                cluster.start()
            assert refused.value.code == "cluster_not_formed"
            patch.undo()
            cluster.start()
            assert all("cluster_slots_ok:16384" in cluster.info(port) for port in cluster.ports)
        finally:
            cluster.stop()


def test_a_slot_moves_in_stages(cluster: Cluster) -> None:
    """What the trials of moves rest on: in between, each node says where a key is, and it is in one place."""
    slot = slot_of("{kit}:0")
    source = cluster.owner(slot)
    for n in range(3):
        cluster.command(source, "SET", f"{{kit}}:{n}", n)
    move = SlotMove(cluster, slot)
    move.open()
    assert move.take(["{kit}:1"]) == 1
    assert cluster.command(source, "GET", "{kit}:0") == b"0"
    for key, port, kind in (("{kit}:1", source, AskError), ("{kit}:0", move.target, MovedError)):
        with pytest.raises(SequencerError) as refused:
            cluster.command(port, "GET", key)
        assert isinstance(refused.value.__cause__, kind)
    assert move.keys(10) == 2
    move.close()
    assert [cluster.command(move.target, "GET", f"{{kit}}:{n}") for n in range(3)] == [b"0", b"1", b"2"]
    cluster.command(move.target, "DEL", *(f"{{kit}}:{n}" for n in range(3)))
