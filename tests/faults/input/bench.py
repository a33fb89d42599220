"""A server of the fault test's own, and one queue on it that each input finds empty."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import EmbeddedServer
from sequencer.store.keys import ShardKeys, shard_keys

from ...support.invariants import check_invariants

NAMESPACE, QUEUE = "input", "jobs"


class Bench:
    """The server, a plain link to it, and the keys of the queue's only shard."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.url = server.url
        self.endpoint = Endpoint.from_url(server.url)
        self.link = Link(self.endpoint)
        self.keys: ShardKeys = shard_keys(NAMESPACE, QUEUE, 0)

    def client(self, redis: Any = None, **options: Any) -> Sequencer:
        """A client of the queue."""
        return Sequencer(QUEUE, redis or self.url, namespace=NAMESPACE, **options)

    def clear(self) -> None:
        """Delete everything: the server is our own."""
        self.link.command("FLUSHALL")

    def everything(self) -> dict[bytes, bytes]:
        """Every key with its content, as one comparable value."""
        names = self.link.command("KEYS", "*")
        values = self.link.commands([("DUMP", name) for name in names]) if names else []
        return dict(zip(names, values, strict=True))

    def audit(self) -> list[str]:
        """Broken invariants, in words."""
        return check_invariants(self.link, [self.keys])


@contextmanager
def bench() -> Iterator[Bench]:
    """Start the server, and stop it at the end. What consumers log of records that are broken on purpose is not shown.

    Raises ServerNotUsable where no server is installed.
    """
    directory = Path(tempfile.mkdtemp(prefix="sqi-"))
    log = logging.getLogger("sequencer")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with EmbeddedServer(directory) as server:
            made = Bench(server)
            try:
                yield made
            finally:
                made.link.close()
    finally:
        log.setLevel(level)
        shutil.rmtree(directory, ignore_errors=True)
