"""Servers with settings of their own, for tests of what a server may refuse."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sequencer import EmbeddedServer
from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import find_binary
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.testing import wait_until
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.cluster import Cluster, run_cluster
from ..support.shard import Shard


@pytest.fixture
def start_server() -> Iterator[Callable[..., str]]:
    """Starts a server with the given options and returns its socket's path; stops it at the end."""
    directory = Path(tempfile.mkdtemp(prefix="sqx-"))
    running: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> str:
        path = directory / f"s{len(running)}"
        words = [
            os.environ.get("SEQUENCER_TEST_BINARY") or find_binary(),
            "--port",
            "0",
            "--unixsocket",
            str(path),
            "--dir",
            str(directory),
            "--save",
            "",
            *options,
        ]
        running.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        wait_until(lambda: _is_listening(path), what=f"socket of {words}")
        return str(path)

    yield start
    for process in running:
        process.kill()
        process.wait()
    shutil.rmtree(directory)


def _is_listening(path: Path) -> bool:
    """The socket is there a moment before the server listens at it."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def admin(start_server: Callable[..., str]) -> Iterator[Link]:
    """The way to a server of the test's own."""
    link = Link(Endpoint.from_url(f"unix://{start_server()}"))
    yield link
    link.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three primaries for the run. Tests that kill nodes start their own: `run_cluster`."""
    with run_cluster() as running:
        yield running


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[FaultProxy]:
    """A proxy before the server of the run."""
    directory = Path(tempfile.mkdtemp(prefix="sqp-"))
    proxy = FaultProxy(server.url, directory / "s")
    yield proxy
    proxy.close()
    shutil.rmtree(directory)


@pytest.fixture
def keys(namespace: str) -> ShardKeys:
    """Those of the only shard of the queue `jobs`."""
    return shard_keys(namespace, "jobs", 0)


@pytest.fixture
def shard(link: Link, namespace: str) -> Shard:
    """The only shard of the queue `q`."""
    link.command("HSET", f"{namespace}:queues", "q", 1)
    return Shard(link, shard_keys(namespace, "q", 0))


def command(path: str, *words: str, default: object = None) -> object:
    """One command on a server of `start_server`, tried until it answers; `default` stands for an answer of nothing."""
    link = Link(Endpoint.from_url(f"unix://{path}"))
    try:
        return wait_until(lambda: _try(link, words, default), what=str(words))
    finally:
        link.close()


def _try(link: Link, words: tuple[str, ...], default: object) -> object:
    try:
        return link.command(*words) or default
    except SequencerError:
        return None
