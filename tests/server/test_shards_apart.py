"""Shards on several nodes: one that is silent or away holds back nobody but itself."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.store.group import shard_of
from sequencer.testing import wait_until
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background

SHARDS, FROZEN, FREEZE_S, PATIENCE_S = 4, 1, 30.0, 3.0
GROUPS = [next(str(n) for n in range(1000) if shard_of(str(n), SHARDS) == shard) for shard in range(SHARDS)]
"""One of each shard."""
KINDS = pytest.mark.parametrize(("kind", "concurrency"), [("plain", 1), ("plain", 3), ("loop", 1), ("loop", 3)])


class Nodes(Endpoint):
    """Each shard is reached through a proxy of its own."""

    proxies: list[FaultProxy]

    def of_shards(self, count: int) -> list[Endpoint]:
        return [Endpoint.from_url(proxy.url) for proxy in self.proxies[:count]]


@pytest.fixture
def nodes(server: EmbeddedServer) -> Iterator[Nodes]:
    directory, plain = Path(tempfile.mkdtemp(prefix="sqn-")), Endpoint.from_url(server.url)
    nodes = Nodes(plain.make, plain.name, plain.url, pool=plain._pool)
    nodes.proxies = [FaultProxy(server.url, directory / str(shard)) for shard in range(SHARDS)]
    yield nodes
    for proxy in nodes.proxies:
        proxy.close()
    shutil.rmtree(directory)


class Handled:
    """The bodies of each shard."""

    def __init__(self, kind: str) -> None:
        self.of: list[list[Any]] = [[] for _ in range(SHARDS)]
        self.handle: Callable[[Message], Any] = self._coroutine if kind == "loop" else self._plain

    def _plain(self, message: Message) -> None:
        self.of[GROUPS.index(message.group[0])].append(message.body)

    async def _coroutine(self, message: Message) -> None:
        await asyncio.sleep(0)
        self._plain(message)

    def others_have(self, number: int) -> bool:
        return all(number in bodies for shard, bodies in enumerate(self.of) if shard != FROZEN)


def append(seq: Sequencer, body: int) -> None:
    for group in GROUPS:
        seq.append(body, group=group)


def freeze(nodes: Nodes) -> None:
    nodes.proxies[FROZEN].add("black hole", seconds=FREEZE_S)


@pytest.mark.slow
@KINDS
def test_a_silent_shard_holds_back_nobody_else(make: Make, nodes: Nodes, kind: str, concurrency: int) -> None:
    producer, handled = make("wide", shards=SHARDS), Handled(kind)
    append(producer, 0)
    with Background(make("wide", redis=nodes), handled.handle, concurrency=concurrency, lease=60):
        wait_until(lambda: all(handled.of), PATIENCE_S)
        freeze(nodes)
        for number in range(1, 30):
            append(producer, number)
            wait_until(lambda number=number: handled.others_have(number), PATIENCE_S)  # type: ignore[misc]
        assert handled.of[FROZEN] == [0]
        nodes.proxies[FROZEN].clear()
        wait_until(lambda: len(handled.of[FROZEN]) == 30, PATIENCE_S)
    assert handled.of == [[*range(30)]] * SHARDS
