"""A real Redis Cluster in a directory: who has which hash slot, moves of slots in stages, faults of nodes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server.cluster import EmbeddedCluster
from sequencer.testing import wait_until

NODE_TIMEOUT_S = 1.5
FAILOVER_S = 30.0


class Cluster(EmbeddedCluster):
    """Nodes go by their ports, keys by their hash slots."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.pids: dict[int, int] = {}
        """Port -> pid, of those that run and are not frozen."""

    def start(self) -> bool:
        is_started = super().start()
        self.pids = {port: status.pid or 0 for port, status in zip(self.ports, self.status(), strict=True)}
        return is_started

    # -- who is who ---------------------------------------------------------------------------------------------

    def id(self, port: int) -> str:
        return str(self.command(port, "CLUSTER", "MYID"), "ascii")

    def owner(self, slot: int, asked: int | None = None) -> int:
        """The port of the primary that has the slot, as node `asked` (else the first that runs) sees it."""
        for first, last, primary, *_ in self.command(asked or next(iter(self.pids)), "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return int(primary[1])
        raise LookupError(slot)

    def replicas_of(self, port: int) -> list[int]:
        """Of a primary."""
        lines = self.command(port, "CLUSTER", "REPLICAS", self.id(port))
        return [int(str(line, "ascii").split()[1].partition("@")[0].rpartition(":")[2]) for line in lines]

    def link(self, port: int) -> Link:
        """A connection to one node alone, past all routing; the caller closes it."""
        return Link(Endpoint.from_url(self.node(port).url))

    # -- moves ---------------------------------------------------------------------------------------------------

    def other(self, port: int) -> int:
        """Another primary: the next by port that has hash slots."""
        found = sorted({int(row[2][1]) for row in self.command(port, "CLUSTER", "SLOTS")} - {port})
        return next((one for one in found if one > port), found[0])

    def move(self, slot: int, target: int | None = None) -> int:
        """Move a slot key by key, at once; where to."""
        move = SlotMove(self, slot, target)
        move.open()
        while move.keys(10):
            pass
        move.close()
        return move.target

    def migrate(self, slot: int, target: int | None = None) -> int:
        """Move a slot atomically, as Valkey 9 does; where to."""
        source = self.owner(slot)
        target = target or self.other(source)
        self.command(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.id(target))
        wait_until(lambda: self._has_migrated(source), FAILOVER_S, f"slot {slot} is migrated")
        self.wait_owner(slot, target)
        return target

    def _has_migrated(self, source: int) -> bool:
        """The newest job comes first. Raises AssertionError where it failed."""
        row = self.command(source, "CLUSTER", "GETSLOTMIGRATIONS")[0]
        job = {str(name, "ascii"): value for name, value in zip(row[::2], row[1::2], strict=True)}
        assert job["state"] not in (b"failed", b"cancelled"), job
        return bool(job["state"] == b"success")

    def wait_owner(self, slot: int, port: int) -> None:
        """Until each node that runs takes that one for the slot's primary."""
        wait_until(
            lambda: all(self.owner(slot, one) == port for one in self.pids), FAILOVER_S, f"{port} has slot {slot}"
        )

    # -- faults --------------------------------------------------------------------------------------------------

    def kill(self, port: int) -> None:
        """End a node at once. It is not among `pids` until `restart`."""
        os.kill(pid := self.pids.pop(port), signal.SIGKILL)
        self.node(port)._wait_gone(pid)

    def restart(self, port: int) -> None:
        self.node(port).start()
        self.pids[port] = self.node(port).status().pid or 0

    @contextmanager
    def frozen(self, port: int) -> Iterator[None]:
        """A node stands still for that time."""
        os.kill(pid := self.pids.pop(port), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
            self.pids[port] = pid

    def wait_promoted(self, slot: int, was: int) -> int:
        """Until the nodes that run have another primary for the slot than `was`; which."""
        wait_until(lambda: {self.owner(slot, one) for one in self.pids} - {was} != set(), FAILOVER_S, "a new primary")
        found = next(iter({self.owner(slot, one) for one in self.pids} - {was}))
        self.wait_owner(slot, found)
        return found

    def wait_whole(self) -> None:
        """Until all nodes run, and each primary has as many replicas as at the start, up to date."""
        wait_until(self._is_whole, FAILOVER_S, "a whole cluster")

    def _is_whole(self) -> bool:
        try:
            primaries = {int(row[2][1]) for row in self.command(self.ports[0], "CLUSTER", "SLOTS")}
            infos = {port: str(self.command(port, "INFO", "replication"), "utf-8") for port in self.ports}
            oks = ["cluster_state:ok\r" in self.info(port) for port in self.ports]
        except SequencerError:
            return False
        linked = [port for port, info in infos.items() if "master_link_status:up" in info]
        return all(oks) and not primaries & {*linked} and len(primaries) + len(linked) == len(self.ports)

    def destroy(self) -> None:
        """All nodes end at once, and their data are deleted."""
        self.pids = {port: one.pid for port, one in zip(self.ports, self.status(), strict=True) if one.pid}
        for port in list(self.pids):
            self.kill(port)
        shutil.rmtree(self.directory.parent)


class SlotMove:
    """One hash slot on its way from its node to another, key by key: `open`, `keys` again and again, `close`."""

    def __init__(self, cluster: Cluster, slot: int, target: int | None = None) -> None:
        self._cluster, self.slot = cluster, slot
        self.source = cluster.owner(slot)
        self.target = target or cluster.other(self.source)

    def open(self) -> None:
        self._set(self.target, "IMPORTING", self._cluster.id(self.source))
        self._set(self.source, "MIGRATING", self._cluster.id(self.target))

    def keys(self, count: int) -> int:
        """Move up to `count` keys; returns how many it moved."""
        return self.take(self._cluster.command(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, count))

    def take(self, keys: list[Any]) -> int:
        """Move these keys; how many."""
        if keys:
            words = ("MIGRATE", "127.0.0.1", self.target, "", 0, 5000, "KEYS", *keys)
            self._cluster.command(self.source, *words)
        return len(keys)

    def close(self) -> None:
        """The target first: a slot without an owner would be worse than one with two."""
        owner = self._cluster.id(self.target)
        others = {row[2][1] for row in self._cluster.command(self.source, "CLUSTER", "SLOTS")}
        for port in (self.target, self.source, *sorted(others - {self.target, self.source})):
            self._set(port, "NODE", owner)
        self._cluster.wait_owner(self.slot, self.target)

    def _set(self, port: int, *words: str) -> None:
        self._cluster.command(port, "CLUSTER", "SETSLOT", self.slot, *words)


def slot_of(key: str) -> int:
    return int(key_slot(key.encode()))


@contextmanager
def run_cluster(primaries: int = 3, replicas: int = 0, binary: str | None = None) -> Iterator[Cluster]:
    """A cluster for the time of a test. `SEQUENCER_TEST_BINARY` names its servers unless `binary` does."""
    directory = Path(tempfile.mkdtemp(prefix="sqc-"))
    binary = binary or os.environ.get("SEQUENCER_TEST_BINARY")
    made = Cluster(directory, primaries, replicas=replicas, node_timeout_s=NODE_TIMEOUT_S, binary=binary)
    try:
        made.start()
        made.wait_whole()
        yield made
    finally:
        made.destroy()
