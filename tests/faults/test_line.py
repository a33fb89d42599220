"""Many tasks on one connection, behind a proxy that lies, over TLS, and with a server that hangs or goes away."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio.sentinel import Sentinel as AwaitedSentinel
from redis.sentinel import Sentinel

from sequencer import AsyncSequencer, EmbeddedServer, Sequencer
from sequencer.errors import NotReplicated, OutcomeUnknown, ServerError, ServerNotUsable, ServerUnavailable
from sequencer.net import awaited
from sequencer.net.endpoint import CALL_TIMEOUT_S
from sequencer.net.line import Line
from sequencer.net.repeats import ATTEMPTS
from tests.support.proxy.fault_proxy import FaultProxy

from .server.failover import Cluster, clustered
from .server.host import workplace
from .test_tls import binary, certificates, start  # noqa: F401 - fixtures

pytestmark = pytest.mark.nightly

SENTINEL: Any = Sentinel
AWAITED_SENTINEL: Any = AwaitedSentinel
APPENDS, GROUPS, AT_ONCE = 10_000, 50, 100


class Storm(NamedTuple):
    """What came of appends of which many were cancelled: stamps that callers got, and those of the records."""

    got: dict[str, int | None]
    stored: dict[str, int | None]
    cancelled: int

    @property
    def crossed(self) -> int:
        return sum(stamp != self.stored.get(id) for id, stamp in self.got.items())


class ReadingLine(Line):
    """The mistake that the design avoids: who asks reads the answer, so who is cancelled leaves one for the next."""

    def ask(self, commands: Sequence[Any]) -> asyncio.Future[list[Any]]:
        return asyncio.ensure_future(self._own(commands))

    async def _own(self, commands: Sequence[Any]) -> list[Any]:
        self._connection._writer.writelines([piece for words in commands for piece in self._pack(*words)])
        async with self.__dict__.setdefault("turn", asyncio.Lock()):
            return [await self._connection.read_response(disconnect_on_error=False) for _ in commands]

    async def _read(self) -> None:
        await asyncio.Event().wait()


async def storm(seq: AsyncSequencer, url: str, chance: random.Random, appends: int = APPENDS) -> Storm:
    """Each receipt has the stamp of one record: it must be its own."""
    got, cancelled = dict[str, int | None](), 0

    async def one(n: int) -> None:
        nonlocal cancelled
        task = asyncio.ensure_future(seq.append({"n": n}, group=f"g{n % GROUPS}", id=f"m{n}"))
        if chance.random() < 0.4:
            await asyncio.sleep(chance.random() / 300)
            task.cancel()
        try:
            got[f"m{n}"] = (await task).stamp
        except asyncio.CancelledError:
            cancelled += 1
        except (OutcomeUnknown, ServerUnavailable):  # as the proxy has it
            pass

    for first in range(0, appends, AT_ONCE):
        await asyncio.gather(*(one(n) for n in range(first, first + AT_ONCE)))
    async with AsyncSequencer(seq.queue, url, namespace=seq.options.namespace) as other:
        found = [message for n in range(GROUPS) for message in await other.peek(f"g{n}", limit=appends)]
    return Storm(got, {message.id: message.stamp for message in found}, cancelled)


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[FaultProxy]:
    with workplace() as directory, FaultProxy(server.url, directory / "p", seed=7) as proxy:
        yield proxy


def test_of_ten_thousand_cancelled_appends_no_reply_is_crossed(
    proxy: FaultProxy, server: EmbeddedServer, namespace: str
) -> None:
    async def use() -> tuple[Storm, int]:
        async with AsyncSequencer("q", proxy.url, namespace=namespace) as seq:
            await seq.connect()
            before = proxy.connections.total()
            for kind in ("request delayed", "reply trickled"):
                proxy.add(kind, times=None, chance=0.02, seconds=0.002)
            for kind in ("error NOSCRIPT", "error BUSY"):
                proxy.add(kind, on=["append"], times=None, chance=0.02)
            proxy.add("request repeated", on=["append"], times=None, chance=0.02)
            return await storm(seq, server.url, random.Random(1)), proxy.connections.total() - before

    found, new = asyncio.run(use())
    assert found.crossed == 0
    assert new == 0, "one connection for all"
    assert len(found.got) > APPENDS / 2
    assert found.cancelled > APPENDS / 5
    assert sum(proxy.effects.values()) > 300


def test_lost_connections_cross_nothing(proxy: FaultProxy, server: EmbeddedServer, namespace: str) -> None:
    async def use() -> Storm:
        async with AsyncSequencer("q", proxy.url, namespace=namespace) as seq:
            await seq.connect()
            for kind in ("reply lost", "reply cut", "request reset", "request late"):
                proxy.add(kind, on=["append"], times=None, chance=0.003, seconds=0.01)
            found = await storm(seq, server.url, random.Random(2), 4000)
            proxy.clear()
            return found

    found = asyncio.run(use())
    assert found.crossed == 0
    assert len(found.got) > 1500
    assert sum(proxy.effects.values()) > 5


def test_a_caller_that_reads_the_socket_itself_crosses_them(
    proxy: FaultProxy, server: EmbeddedServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(awaited, "Line", ReadingLine)

    async def use() -> Storm:
        async with AsyncSequencer("q", proxy.url, namespace=namespace) as seq:
            await seq.connect()
            return await storm(seq, server.url, random.Random(1), 1000)

    assert asyncio.run(use()).crossed > 10


def test_it_is_so_over_tls(start: Callable[..., int], certificates: Path) -> None:  # noqa: F811
    url = f"rediss://127.0.0.1:{start()}?ssl_ca_certs={certificates}/ca.pem"

    async def use() -> tuple[Storm, int]:
        async with AsyncSequencer("tls", url) as seq:
            await seq.connect()
            found = await storm(seq, url, random.Random(3), 3000)
            wrong = url.replace("/ca.pem", "/other.pem")
            with pytest.raises(ServerNotUsable) as refused:
                await AsyncSequencer("tls", wrong).append(1, "g")
            assert refused.value.code == "certificate_refused"
            return found, (await seq.info()).backlog

    found, backlog = asyncio.run(use())
    assert found.crossed == 0
    assert len(found.got) > 1500
    assert len(found.got) <= backlog <= 3000


# -- a server that hangs, is away, or comes back ------------------------------------------------------------------


async def all_fail(seq: AsyncSequencer, count: int = 50) -> tuple[list[Any], float]:
    began = time.monotonic()
    found = await asyncio.gather(*(seq.append(n, f"g{n}", id="x") for n in range(count)), return_exceptions=True)
    return found, time.monotonic() - began


def test_a_server_that_hangs_is_given_up_by_all_at_once_and_used_again(proxy: FaultProxy, namespace: str) -> None:
    """With the default limit of 5 s: a connection is given up 5 s after its last answer, and nobody knows more."""

    async def use() -> None:
        async with AsyncSequencer("q", proxy.url, namespace=namespace) as seq:
            await seq.append(1, "g")
            hole = proxy.add("black hole", seconds=60)
            found, took_s = await all_fail(seq)
            assert {type(one) for one in found} == {OutcomeUnknown}
            assert CALL_TIMEOUT_S <= took_s < ATTEMPTS * CALL_TIMEOUT_S + 3
            assert hole.ends > time.monotonic()
            proxy.clear()
            found = await asyncio.gather(*(seq.append(n, f"g{n}", id="x") for n in range(50)))
            assert all(receipt.outcome == "stored" for receipt in found)

    asyncio.run(use())


def test_one_that_hangs_from_the_first_use_on_fails_all_at_once(proxy: FaultProxy, namespace: str) -> None:
    async def use() -> None:
        async with AsyncSequencer("q", f"{proxy.url}?socket_timeout=0.3", namespace=namespace) as seq:
            proxy.add("black hole", seconds=60)
            found, took_s = await all_fail(seq)
            assert {type(one) for one in found} == {ServerUnavailable}
            assert not any(one.maybe_sent for one in found), "no append was sent"
            assert took_s < 3
            proxy.clear()
            assert (await seq.append(1, "g")).outcome == "stored"

    asyncio.run(use())


def test_where_the_server_became_a_replica_it_connects_again(proxy: FaultProxy, namespace: str) -> None:
    """What was asked on the old connection is answered there."""

    async def use() -> None:
        async with AsyncSequencer("q", proxy.url, namespace=namespace) as seq:
            await seq.append(0, "g")
            before, (old,) = proxy.connections.total(), seq._net._here.lines.values()
            proxy.add("error READONLY", on=["append"])
            found = await asyncio.gather(*(seq.append(n, "g", id=str(n)) for n in range(50)))
            assert [receipt.outcome for receipt in found] == ["stored"] * 50
            assert (await seq.append(1, "g", id="1")).duplicate
            assert proxy.connections.total() == before + 1
            assert isinstance(old, Line)
            assert not old._connection.is_connected

    asyncio.run(use())


def test_appends_that_wait_for_replicas_wait_together(
    proxy: FaultProxy, server: EmbeddedServer, namespace: str
) -> None:
    """There is no replica: each is refused after 0.2 s, and all of them soon after."""

    async def use() -> None:
        async with AsyncSequencer("q", proxy.url, namespace=namespace, wait_replicas=1, wait_timeout=0.2) as seq:
            await seq.connect()
            found, took_s = await all_fail(seq)
            assert {type(one) for one in found} == {NotReplicated}
            assert 0.2 <= took_s < 1
            first = asyncio.ensure_future(seq.append(1, "h", id="first"))
            await asyncio.sleep(0.05)
            late = [asyncio.ensure_future(seq.append(n, "h", id=str(n))) for n in range(30)]
            await asyncio.sleep(0.05)
            for task in (first, *late[::3]):
                task.cancel()
            proxy.add("error READONLY", on=["append"])  # of one of them; it is repeated
            await asyncio.gather(*late, return_exceptions=True)
            assert {type(one.exception()) for one in late if not one.cancelled()} == {NotReplicated}
            assert (await seq.peek("h", limit=1))[0].id == "first"

    asyncio.run(use())


@pytest.mark.skipif(not shutil.which("redis-sentinel"), reason="redis-sentinel is not on PATH")
def test_after_a_failover_sentinel_leads_to_the_new_primary() -> None:
    """Given by a client of either kind. What was confirmed by the replica is there."""

    async def use(cluster: Cluster) -> None:
        places = [("127.0.0.1", cluster.sentinel_port)]
        options: Any = {"wait_replicas": 1, "wait_timeout": 2}
        blocking = SENTINEL(places).master_for("primary")
        awaited = AWAITED_SENTINEL(places).master_for("primary")
        async with AsyncSequencer("q", blocking, **options) as one, AsyncSequencer("q", awaited) as other:
            stored = await asyncio.gather(*(one.append(n, f"g{n % 5}", id=str(n)) for n in range(100)))
            assert [receipt.outcome for receipt in stored] == ["stored"] * 100
            cluster.kill_primary()
            until, found = time.monotonic() + 30, list[Any]()
            while not found and time.monotonic() < until:
                with suppress(ServerError, OutcomeUnknown):
                    found = [await other.append("new", "m")]
                await asyncio.sleep(0.05)
            assert cluster.is_promoted()
            found = await asyncio.gather(*(other.append(n, f"g{n % 5}", id=str(n)) for n in range(100)))
            assert all(receipt.duplicate for receipt in found)

    with workplace() as directory, clustered(directory, 0.0) as cluster:
        asyncio.run(use(cluster))


# -- loops, threads, forks ----------------------------------------------------------------------------------------


def test_a_fork_leaves_its_parents_connection_alone(proxy: FaultProxy, namespace: str) -> None:
    seq = AsyncSequencer("q", proxy.url, namespace=namespace)

    def child() -> None:
        async def use() -> list[Any]:
            return await asyncio.gather(*(seq.append(n, "child", id=str(n)) for n in range(50)))

        found = asyncio.run(use())
        gc.collect()
        os._exit(0 if all(receipt.outcome == "stored" for receipt in found) else 1)

    async def use() -> None:
        await seq.append(0, "parent")
        before = proxy.connections.copy()
        loop = asyncio.get_running_loop()
        waiting = [asyncio.ensure_future(seq.append(n, "parent", id=str(n))) for n in range(50)]
        process = get_context("fork").Process(target=child)
        asyncio.events._set_running_loop(None)  # the child starts without one
        process.start()
        asyncio.events._set_running_loop(loop)
        await asyncio.to_thread(process.join, 30)
        assert process.exitcode == 0
        assert len(await asyncio.gather(*waiting)) == 50
        await seq.append(1, "parent")
        assert proxy.connections[str(os.getpid())] == before[str(os.getpid())], "the parent's is still open"
        await seq.close()

    asyncio.run(use())
    with Sequencer("q", proxy.url, namespace=namespace) as plain:
        assert plain.info().backlog == 102
