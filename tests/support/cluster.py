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


def slot_of(key: str) -> int:
    return int(key_slot(key.encode()))


class Cluster(EmbeddedCluster):
    """Nodes go by their ports, keys by their hash slots."""

    pids: dict[int, int]
    """Port -> pid, of those that run and are not frozen."""

    def start(self) -> bool:
        is_started = super().start()
        self.pids = self.running()
        return is_started

    def running(self) -> dict[int, int]:
        return {port: one.pid for port, one in zip(self.ports, self.status(), strict=True) if one.pid}

    # -- who is who ---------------------------------------------------------------------------------------------

    def id(self, port: int) -> str:
        return str(self.command(port, "CLUSTER", "MYID"), "ascii")

    def with_slots(self, asked: int | None = None) -> list[int]:
        """Those that have hash slots, as node `asked` (else the first that runs) sees it."""
        rows = self.command(asked or next(iter(self.pids)), "CLUSTER", "SLOTS")
        return sorted({int(primary[1]) for _, _, primary, *_ in rows})

    def owner(self, slot: int, asked: int | None = None) -> int:
        """The port of the primary that has the slot, as of `with_slots`."""
        rows = self.command(asked or next(iter(self.pids)), "CLUSTER", "SLOTS")
        return next(int(primary[1]) for first, last, primary, *_ in rows if first <= slot <= last)

    def owners(self, slot: int) -> set[int]:
        """Who has it, as each node that runs sees it."""
        return {self.owner(slot, one) for one in self.pids}

    def link(self, port: int) -> Link:
        """A connection to one node alone, past all routing; the caller closes it."""
        return Link(Endpoint.from_url(self.node(port).url))

    def wait_owner(self, slot: int, port: int) -> None:
        """Until each node that runs takes that one for the slot's primary."""
        wait_until(lambda: self.owners(slot) == {port}, FAILOVER_S, f"{port} has slot {slot}")

    # -- moves ---------------------------------------------------------------------------------------------------

    def migrate(self, slot: int) -> None:
        """Move a slot to another primary atomically, as Valkey 9 does."""
        move = SlotMove(self, slot)
        self.command(move.source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.id(move.target))
        wait_until(lambda: self._has_migrated(move.source), FAILOVER_S, f"slot {slot} is migrated")
        self.wait_owner(slot, move.target)

    def _has_migrated(self, source: int) -> bool:
        """The newest job comes first. Raises AssertionError where it failed."""
        row = self.command(source, "CLUSTER", "GETSLOTMIGRATIONS")[0]
        job = {str(name, "ascii"): value for name, value in zip(row[::2], row[1::2], strict=True)}
        assert job["state"] not in (b"failed", b"cancelled"), job
        return bool(job["state"] == b"success")

    # -- faults --------------------------------------------------------------------------------------------------

    def kill(self, port: int) -> None:
        """End a node at once. It is not among `pids` then."""
        os.kill(pid := self.pids.pop(port), signal.SIGKILL)
        os.waitpid(pid, 0)  # until all its threads are gone, which have its sockets

    @contextmanager
    def killed(self, port: int) -> Iterator[None]:
        """A node is away for that time."""
        self.kill(port)
        yield
        self.node(port).start()
        self.pids = self.running()

    @contextmanager
    def frozen(self, port: int) -> Iterator[None]:
        """A node stands still for that time."""
        os.kill(pid := self.pids.pop(port), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
            self.pids[port] = pid

    def wait_promoted(self, slot: int, was: int) -> None:
        """Until all nodes that run agree on another primary for the slot than `was`."""
        wait_until(lambda: len(found := self.owners(slot)) == 1 and was not in found, FAILOVER_S, "a new primary")

    def wait_whole(self) -> None:
        """Until all nodes run, and each primary has as many replicas as at the start, up to date."""
        wait_until(self._is_whole, FAILOVER_S, "a whole cluster")

    def _is_whole(self) -> bool:
        try:
            primaries = {*self.with_slots(self.ports[0])}
            infos = {port: str(self.command(port, "INFO", "replication"), "utf-8") for port in self.ports}
            oks = ["cluster_state:ok\r" in self.info(port) for port in self.ports]
        except SequencerError:
            return False
        linked = [port for port, info in infos.items() if "master_link_status:up" in info]
        return all(oks) and not primaries & {*linked} and len(primaries) + len(linked) == len(self.ports)


class SlotMove:
    """One hash slot on its way to another primary (the next by port), key by key: `open`, `keys` again and again,
    `close`.
    """

    def __init__(self, cluster: Cluster, slot: int) -> None:
        self._cluster, self.slot, self.source = cluster, slot, cluster.owner(slot)
        self._primaries = cluster.with_slots()
        self.target = self._primaries[(self._primaries.index(self.source) + 1) % len(self._primaries)]

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
        """Move what is left. The target first: a slot without an owner would be worse than one with two."""
        while self.keys(100):
            pass
        owner = self._cluster.id(self.target)
        for port in dict.fromkeys((self.target, self.source, *self._primaries)):
            self._set(port, "NODE", owner)
        self._cluster.wait_owner(self.slot, self.target)

    def stable(self) -> None:
        """Neither on its way nor moved, whatever keys the target has."""
        for port in (self.source, self.target):
            self._set(port, "STABLE")

    def _set(self, port: int, *words: str) -> None:
        self._cluster.command(port, "CLUSTER", "SETSLOT", self.slot, *words)


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
        made.pids = made.running()
        for port in [*made.pids]:
            made.kill(port)
        shutil.rmtree(directory)
