"""A Redis Cluster of embedded servers on the loopback address, to develop and test against.

Each node is an EmbeddedServer whose directory is named after its port. Nothing else is remembered: `start` does what is
missing, also after a `start` that was interrupted.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError, DataError, ServerNotUsable, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import Link
from .embedded import EmbeddedServer, ServerStatus, default_directory

HASH_SLOTS = 16_384
FIRST_PORT, LAST_PORT, BUS = 7_000, 22_000, 10_000
"""Below the ports that Linux gives to outgoing connections (32768 and above), those of the cluster bus too."""
NODE_TIMEOUT_S = 5.0
FORM_S = 30.0
CONFIG = """\
port {port}
bind 127.0.0.1
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout {timeout_ms}
cluster-require-full-coverage no
"""


class EmbeddedCluster:
    """A cluster in the subdirectory `cluster` of `directory`. `replicas`: of each primary. `node_timeout_s`: silence
    after which nodes take another for dead. As a context manager it starts, and stops at the end.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        primaries: int = 3,
        *,
        replicas: int = 0,
        node_timeout_s: float = NODE_TIMEOUT_S,
        binary: str | None = None,
    ) -> None:
        self.directory = Path(directory or default_directory()).expanduser().absolute() / "cluster"
        self.primaries, self.replicas = primaries, replicas
        self._binary, self._timeout_ms = binary, round(node_timeout_s * 1000)

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ports(self) -> list[int]:
        """Of all nodes, running or not; empty where there is no cluster."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(int(one.name) for one in found if one.name.isdigit())

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/"

    def node(self, port: int) -> EmbeddedServer:
        """The node at that port; its `url` is that of its Unix socket."""
        config = CONFIG.format(port=port, timeout_ms=self._timeout_ms)
        return EmbeddedServer(self.directory / str(port), binary=self._binary, config=config)

    def start(self) -> bool:
        """Start the nodes that are not running, as one cluster; true if this call started any. Raises
        ConfigurationError where the folder has another number of nodes, ServerNotUsable, ServerUnavailable.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ServerNotUsable("directory_refused", path=str(self.directory), error=error.strerror) from error
        wanted = self.primaries * (1 + self.replicas)
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ports = self.ports or _free_ports(wanted)
            if len(ports) != wanted:
                path = str(self.directory)
                raise ConfigurationError("cluster_size_fixed", path=path, found=len(ports), wanted=wanted)
            for port in ports:  # all first: their number is what the next start finds
                (self.directory / str(port)).mkdir(mode=0o700, exist_ok=True)
            is_started = [self.node(port).start() for port in ports]
            for port in ports[1:]:
                self.command(port, "CLUSTER", "MEET", "127.0.0.1", ports[0])
            self._wait(f"cluster_known_nodes:{wanted}\r")
            for at in range(wanted):
                self._join(at, ports)
            self._wait("cluster_slots_assigned:16384\r", "cluster_state:ok\r")
            return any(is_started)

    def _join(self, at: int, ports: list[int]) -> None:
        """Give a node its range of hash slots, or its primary. What it or another one has already it refuses."""
        if at < self.primaries:
            first, behind = (HASH_SLOTS * n // self.primaries for n in (at, at + 1))
            words: tuple[Any, ...] = "ADDSLOTSRANGE", first, behind - 1
        else:
            words = "REPLICATE", self.command(ports[at % self.primaries], "CLUSTER", "MYID")
        with suppress(DataError):
            self.command(ports[at], "CLUSTER", *words)

    def stop(self) -> bool:
        """Stop all nodes, data saved; false if none was running. Raises ServerUnavailable when one does not end."""
        is_stopped = [self.node(port).stop() for port in self.ports]
        return any(is_stopped)

    def status(self) -> list[ServerStatus]:
        """Each node, and whether it runs."""
        return [self.node(port).status() for port in self.ports]

    def command(self, port: int, *words: Any) -> Any:
        """One command on that node."""
        with closing(Link(Endpoint.from_url(self.node(port).url))) as link:
            return link.command(*words)

    def info(self, port: int) -> str:
        """What that node says of the cluster."""
        return str(self.command(port, "CLUSTER", "INFO"), "utf-8")

    def _wait(self, *words: str) -> None:
        """Until all nodes say so. Raises ServerUnavailable."""
        until = time.monotonic() + FORM_S
        while any(word not in info for info in map(self.info, self.ports) for word in words):
            if time.monotonic() > until:
                raise ServerUnavailable("cluster_not_formed", path=str(self.directory), after_s=FORM_S)
            time.sleep(0.02)


def _free_ports(count: int) -> list[int]:
    """Free on loopback now, as those of their buses are."""
    while True:
        first = random.randrange(FIRST_PORT, LAST_PORT - count)
        ports = [*range(first, first + count)]
        with suppress(OSError), ExitStack() as held:
            for port in (*ports, *(port + BUS for port in ports)):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
