"""Servers that a fault test may kill, cut, starve and restart: real processes with settings of their own.

Each lives in a directory of its own, on a Unix socket, or on a loopback port where replication needs one. Processes are
ended by their own handles, never by name.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import find_binary

START_S = 20.0
LISTING = "appendonlydir"


is_ended = threading.Event()
"""Set when the fault test is interrupted: its cases run in threads, which hear of it no other way."""


class Interrupted(Exception):
    """The fault test was interrupted: cases end, and remove what is theirs."""


def go_on() -> None:
    """Raise Interrupted when the fault test is ended: called wherever a case may take long."""
    if is_ended.is_set():
        raise Interrupted


@cache
def binaries() -> Mapping[str, str]:
    """Servers to test with, by name and version: the one of the package, and the system's redis-server if there."""
    found: dict[str, str] = {}
    for path in (os.environ.get("SEQUENCER_TEST_BINARY"), find_binary(), shutil.which("redis-server")):
        if path:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
            version = re.search(r"v=([\d.]+)", said)
            kind = "Valkey" if "valkey" in said.lower() else "Redis"
            found.setdefault(f"{kind} {version[1] if version else '?'}", path)
    return found


def free_port() -> int:
    """A loopback port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Host:
    """One server process and its data; `start` and `kill` as often as wanted."""

    def __init__(
        self,
        directory: Path,
        *settings: str,
        binary: str | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.port = port
        self.settings: Sequence[str] = settings
        self.binary = binary or find_binary()
        self.socket = directory / "s"
        self.process: subprocess.Popen[bytes] | None = None
        self._environment = {**os.environ, **(environment or {})}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def aof(self) -> Path:
        """The file that the last writes went to."""
        (found,) = (self.directory / LISTING).glob("*.incr.aof")
        return found

    def start(self, *more: str) -> None:
        """Start it, and wait until it answers, its data loaded. Raises RuntimeError when it does not, Interrupted."""
        go_on()
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket), "--save", ""]
        words += ["--dir", str(self.directory), "--logfile", str(self.directory / "log"), *self.settings, *more]
        self.process = subprocess.Popen(
            [self.binary, *words], env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            if self.socket.exists() and self.is_ready():
                return
            time.sleep(0.002)
        self.kill()
        log = self.directory / "log"
        said = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else ["nothing in its log"]
        raise RuntimeError(f"{self.binary} did not start: {' / '.join(said)}")

    def is_ready(self) -> bool:
        with suppress(SequencerError), self.link() as link:
            return bool(link.command("DBSIZE") is not None)
        return False

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A connection for the length of the block."""
        link = Link(Endpoint.from_url(self.url))
        try:
            yield link
        finally:
            link.close()

    def command(self, *words: Any) -> Any:
        with self.link() as link:
            return link.command(*words)

    def info(self, section: str) -> dict[str, str]:
        text = self.command("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory with a short name (a socket's holds 107 bytes), removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="sqf-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running(host: Host) -> Iterator[Host]:
    """The server started, and killed at the end."""
    try:
        host.start()
        yield host
    finally:
        host.kill()
