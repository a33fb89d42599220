"""A URL that names Sentinels: clients and consumer processes go on with the primary that replaces a killed one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
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
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("redis-sentinel"), reason="redis-sentinel is not on PATH"),
]
PATIENCE_S = 40.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with workplace() as directory, clustered(directory, 0.0) as cluster:
        yield cluster


def stored(append: Callable[[], Any]) -> bool:
    with suppress(ServerUnavailable, OutcomeUnknown):
        append()
        return True
    return False


def codes(seq: Sequencer) -> dict[str, Any]:
    """What doctor finds; nothing while a Sentinel that gets too little time takes the primary for down."""
    with suppress(ServerUnavailable):
        return {one.code: one.fields for one in seq.doctor()}
    return {}


@pytest.mark.nightly
def test_both_clients_append_and_consume_over_a_failover(cluster: Cluster) -> None:
    seen: list[str] = []

    async def append(name: str) -> None:
        async with AsyncSequencer("q", cluster.url) as awaited:
            for _ in range(1000):
                with suppress(ServerUnavailable, OutcomeUnknown):
                    await awaited.append(1, "g", id=name)
                    return
                await asyncio.sleep(0.05)

    async def consume(wanted: str) -> None:
        async with AsyncSequencer("q", cluster.url) as awaited, awaited.consuming(lambda m: seen.append(m.id)):
            await asyncio.to_thread(wait_until, lambda: wanted in seen, PATIENCE_S)

    with Sequencer("q", cluster.url) as seq, Background(seq, lambda m: seen.append(m.id), lease=2):
        seq.append(1, "g", id="first")
        asyncio.run(append("second"))
        wait_until(lambda: seen == ["first", "second"], PATIENCE_S)
        wanted = {"primary": "primary", "count": 1, "quorum": 1, "replicas": 1}
        wait_until(lambda: (found := codes(seq)).get("sentinels") == wanted and "no failover" not in found, PATIENCE_S)
        wait_until(lambda: "sentinel away" in codes(seq), PATIENCE_S)
        cluster.kill_primary()
        asyncio.run(append("third"))
        wait_until(lambda: stored(lambda: seq.append(1, "g", id="fourth")), PATIENCE_S)
        assert cluster.is_promoted()
        wait_until(lambda: {"third", "fourth"} <= {*seen}, PATIENCE_S)
        wait_until(lambda: "no failover" in codes(seq), PATIENCE_S, "the old one counts as down")
    wait_until(lambda: stored(lambda: seq.append(1, "g", id="fifth")), PATIENCE_S)
    asyncio.run(consume("fifth"))
    assert [*dict.fromkeys(seen)][-3:] == ["third", "fourth", "fifth"]


@pytest.mark.nightly
@pytest.mark.parametrize("given", ["--redis", "SEQUENCER_REDIS"])
def test_consumer_processes_go_on_over_a_failover(cli: Cli, cluster: Cluster, given: str) -> None:
    del cli.environment["SEQUENCER_REDIS"]
    words = [given, cluster.url] if given == "--redis" else []
    cli.environment |= {} if words else {given: cluster.url}
    consume = cli.start("consume", "jobs", "--app", "shop:handle", "--lease", 2, "-n", 2, *words)
    namespace = cli.environment["SEQUENCER_NAMESPACE"]
    history = cli.directory / "jobs.ndjson"
    with Sequencer("jobs", cluster.url, namespace=namespace) as seq:
        seq.append({}, "a", id="before")
        wait_until(lambda: history.exists() and '"before"' in history.read_text(), PATIENCE_S)
        before = consume.consumers()
        cluster.kill_primary()
        wait_until(lambda: stored(lambda: seq.append({}, "a", id="after")), PATIENCE_S)
        wait_until(lambda: '"after"' in history.read_text(), PATIENCE_S)
    assert consume.consumers() == before, "the same processes"
    info = cli.run("info", "jobs", "--json", *words)
    assert info.returncode == 0, info.stderr
    consume.signal()
    assert consume.ended() == 0, consume.stderr
