"""A URL that names Sentinels: clients and consumer processes go on with the primary that replaces a killed one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from sequencer import AsyncSequencer, Sequencer
from sequencer.errors import OutcomeUnknown, ServerUnavailable
from sequencer.testing import wait_until

from ..process.conftest import Cli, cli
from ..support.background import Background
from .server.failover import Cluster, clustered
from .server.host import workplace

__all__ = ["cli"]  # a fixture

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not shutil.which("redis-sentinel"), reason="redis-sentinel is not on PATH"),
]
PATIENCE_S = 40.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with workplace() as directory, clustered(directory, 0.0) as cluster:
        yield cluster


def append(seq: Sequencer, id: str) -> None:
    """Until it is stored."""

    def is_stored() -> bool:
        with suppress(ServerUnavailable, OutcomeUnknown):
            return seq.append({}, "g", id=id).outcome is not None
        return False

    wait_until(is_stored, PATIENCE_S, id)


def codes(seq: Sequencer) -> dict[str, Any]:
    """What doctor finds; nothing while a Sentinel that gets too little time takes the primary for down."""
    with suppress(ServerUnavailable):
        return {one.code: one.fields for one in seq.doctor()}
    return {}


def test_both_clients_append_and_consume_over_a_failover(cluster: Cluster) -> None:
    seen: list[str] = []

    def handle(message: Any) -> None:
        seen.append(message.id)

    async def use_awaited(id: str) -> None:
        async with AsyncSequencer("q", cluster.url) as awaited, awaited.consuming(handle):
            await awaited.append(1, "g", id=id)
            await asyncio.to_thread(wait_until, lambda: id in seen, PATIENCE_S)

    with Sequencer("q", cluster.url) as seq, Background(seq, handle, lease=2):
        append(seq, "first")
        wait_until(lambda: seen == ["first"], PATIENCE_S)
        wanted = {"primary": "primary", "count": 1, "quorum": 1, "replicas": 1}
        wait_until(lambda: (found := codes(seq)).get("sentinels") == wanted and "no failover" not in found, PATIENCE_S)
        wait_until(lambda: "sentinel away" in codes(seq), PATIENCE_S)
        cluster.kill_primary()
        append(seq, "second")
        assert cluster.is_promoted()
        wait_until(lambda: "second" in seen, PATIENCE_S)
        wait_until(lambda: "no failover" in codes(seq), PATIENCE_S, "the old one counts as down")
    asyncio.run(use_awaited("third"))
    assert [*dict.fromkeys(seen)] == ["first", "second", "third"]


@pytest.mark.parametrize("given", ["--redis", "SEQUENCER_REDIS"])
def test_consumer_processes_go_on_over_a_failover(cli: Cli, cluster: Cluster, given: str) -> None:
    del cli.environment["SEQUENCER_REDIS"]
    words = [given, cluster.url] if given == "--redis" else []
    cli.environment |= {} if words else {given: cluster.url}
    consume = cli.start("consume", "jobs", "--app", "shop:handle", "--lease", 2, "-n", 2, *words)
    history = cli.directory / "jobs.ndjson"
    with Sequencer("jobs", cluster.url, namespace=cli.environment["SEQUENCER_NAMESPACE"]) as seq:
        append(seq, "before")
        wait_until(lambda: history.exists() and '"before"' in history.read_text(), PATIENCE_S)
        before = consume.consumers()
        cluster.kill_primary()
        append(seq, "after")
        wait_until(lambda: '"after"' in history.read_text(), PATIENCE_S)
    assert consume.consumers() == before, "the same processes"
    info = cli.run("info", "jobs", "--json", *words)
    assert info.returncode == 0, info.stderr
    consume.stop()
