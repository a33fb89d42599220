"""The server of the comparison: one of its own on a TCP port of loopback, without an append-only file.

TCP, because not every peer can use a Unix socket; of its own, because the peers' keys can't all be told from those of
others, so that it is emptied between cells. `redis-server` of PATH if there is one, else the binary of the embedded
server.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sequencer.errors import ServerUnavailable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import find_binary

START_S = 20.0
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @classmethod
    def parse(cls, url: str) -> Address:
        host, _, port = url.partition("://")[2].partition(":")
        return cls(host, int(port))

    def command(self, *words: str) -> None:
        """Raises ServerError."""
        link = Link(Endpoint.from_url(self.url))
        try:
            link.command(*words)
        finally:
            link.close()


@contextmanager
def server() -> Iterator[Address]:
    """Started, and gone with its files at the end. Raises ServerUnavailable, ServerNotUsable."""
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory:
        address = Address(HOST, _free_port())
        log = Path(directory) / "server.log"
        words = ["--bind", HOST, "--port", str(address.port), "--save", "", "--appendonly", "no", "--dir", directory]
        process = subprocess.Popen(
            [shutil.which("redis-server") or find_binary(), *words, "--logfile", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends it
        )
        try:
            _wait(process, address, log)
            yield address
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], address: Address, log: Path) -> None:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        with suppress(ServerUnavailable):
            address.command("PING")
            return
        time.sleep(0.01)
    said = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    raise ServerUnavailable(f"the server of the comparison did not start: {' '.join(said) or 'it said nothing'}")
