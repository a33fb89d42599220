"""Tasks that append and worker slots that consume, over a Unix socket, TLS, and Sentinel with a failover."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sequencer import AsyncSequencer, Sequencer
from sequencer.errors import OutcomeUnknown, ServerUnavailable
from sequencer.testing import wait_until

from ..server.test_concurrency_faults import KINDS, Handlers
from .server.failover import Cluster, clustered
from .server.host import Host, running, workplace
from .test_tls import binary, certificates, tls_host

__all__ = ["binary", "certificates"]  # fixtures

pytestmark = pytest.mark.nightly

GROUPS, EACH = 20, 20
UNANSWERED = ServerUnavailable, OutcomeUnknown
Place = tuple[str, Cluster | None]
"""The URL, and the servers that may fail over."""


@pytest.fixture(params=["unix", "tls", "sentinel"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with ExitStack() as stack:
        directory = stack.enter_context(workplace())
        if request.param == "unix":
            yield stack.enter_context(running(Host(directory))).url, None
        elif request.param == "tls":
            known: Path = request.getfixturevalue("certificates")
            host, port = tls_host(directory, known, request.getfixturevalue("binary"), "server", "no")
            stack.enter_context(running(host))
            yield f"rediss://127.0.0.1:{port}?ssl_ca_certs={known}/ca.pem", None
        elif shutil.which("redis-sentinel") is None:
            pytest.skip("redis-sentinel is not on PATH; install redis-sentinel")
        else:
            cluster = stack.enter_context(clustered(directory, 0.0))
            yield cluster.url, cluster


@KINDS
@pytest.mark.parametrize("shards", [1, 3])
def test_all_is_handled_in_order(place: Place, kind: str, shards: int) -> None:
    given, cluster = place
    handlers, replicas = Handlers(kind, pause_s=0.01), 1 if cluster else 0

    async def append(seq: AsyncSequencer, group: int) -> None:
        for n in range(group * EACH, (group + 1) * EACH):
            while True:
                try:
                    await seq.append(n, group, id=str(n))
                    break
                except UNANSWERED:
                    await asyncio.sleep(0.05)

    async def use() -> None:
        async with (
            AsyncSequencer("q", given, shards=shards, wait_replicas=replicas) as seq,
            seq.consuming(handlers.handle, concurrency=8, lease=2),
        ):
            tasks = [asyncio.create_task(append(seq, group)) for group in range(GROUPS)]
            await reached(lambda: len(handlers.handled) > GROUPS)
            if cluster:
                cluster.kill_primary()
                await reached(cluster.is_promoted)
                await asyncio.to_thread(cluster.replace)
            await asyncio.gather(*tasks)
            await reached(lambda: len(handlers.handled) == GROUPS * EACH)

    asyncio.run(use())
    with Sequencer("q", given) as seq:
        summary = seq.consume(handlers.handle, concurrency=8, until_empty=True)
        assert (summary.failed, seq.info().backlog) == (0, 0)
    assert handlers.is_in_order
    assert handlers.handled == {*range(GROUPS * EACH)}
    assert cluster or handlers.begun == GROUPS * EACH


async def reached(check: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, check, 40.0)
