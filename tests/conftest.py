"""Fixtures: a real server of our own for the whole run, a namespace for each test, and an audit at its end.

`SEQUENCER_TEST_BINARY` names another server binary to test with. A server that can't be started fails the run: nothing
here is skipped for want of one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.auditor import audit
from sequencer.connection import Endpoint
from sequencer.keys import lane_keys, registry_key
from sequencer.scripts import Link


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may meet the settings or the embedded server of whoever runs it."""
    for name in list(os.environ):
        if name.startswith("SEQUENCER_") and name != "SEQUENCER_TEST_BINARY":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """One server for the run, in a short path (a socket's name holds 107 bytes)."""
    directory = Path(tempfile.mkdtemp(prefix="sqt-"))
    with EmbeddedServer(directory, binary=os.environ.get("SEQUENCER_TEST_BINARY")) as running:
        yield running
    shutil.rmtree(directory)


@pytest.fixture
def link(server: EmbeddedServer) -> Iterator[Link]:
    """A plain connection to the server, for looking at keys."""
    link = Link(Endpoint.from_url(server.url))
    yield link
    link.close()


@pytest.fixture
def namespace(link: Link) -> Iterator[str]:
    """A namespace of the test's own. At its end: the invariants of every queue in it, then its keys are deleted."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    words = link.command("HGETALL", registry_key(name))
    problems: list[str] = []
    for queue, lanes in zip(words[::2], words[1::2], strict=True):
        problems += audit(link, [lane_keys(name, queue.decode(), lane) for lane in range(int(lanes))])
    everything = link.command("KEYS", "*")
    ours = [key for key in everything if key.startswith((f"{name}:".encode(), f"{{{name}:".encode()))]
    if ours:
        link.command("DEL", *ours)
    assert not problems, f"invariants broken at the end of the test: {problems}"
    assert len(ours) == len(everything), f"keys outside the namespace: {set(everything) - set(ours)}"


@pytest.fixture
def make(server: EmbeddedServer, namespace: str) -> Iterator[Callable[..., Sequencer]]:
    """Makes clients of the test's namespace; closes them at the end."""
    made: list[Sequencer] = []

    def make(queue: str = "jobs", **options: Any) -> Sequencer:
        made.append(Sequencer(queue, options.pop("redis", server.url), namespace=namespace, **options))
        return made[-1]

    yield make
    for sequencer in made:
        sequencer.close()


@pytest.fixture
def seq(make: Callable[..., Sequencer]) -> Sequencer:
    """A client with quick retries."""
    return make(backoff=0.01)
