"""The awaited net: operations that are written once run over it too, on a real server, and by the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.calls.net_protocol import Net
from sequencer.errors import BatchRefused, ConfigurationError, IdConflict, ServerUnavailable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.queue.append import append
from sequencer.queue.append_many import append_many
from sequencer.queue.groups.head import resume
from sequencer.queue.operate import pause, unpause
from sequencer.queue.session import Session
from sequencer.queue.views import explain
from sequencer.settings.options import queue_options
from sequencer.store.item import Item, ItemMaker
from sequencer.store.keys import registry_key, shard_keys
from tests.support.awaited_net import AwaitedNet


@asynccontextmanager
async def client(url: str, namespace: str, **options: Any) -> AsyncIterator[Session]:
    net = AwaitedNet(Endpoint.from_url(url))
    session = Session(queue_options("jobs", namespace, options), net)
    net.guide = session
    try:
        yield session
    finally:
        await net.close()


def item(session: Session, body: Any, group: str, **given: Any) -> Item:
    maker = ItemMaker(session.options)
    return maker.make(body, group, given.get("id"), given.get("score"), None, is_sequence=False)


def kill_others(link: Link) -> None:
    link.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def test_pause_and_explain_say_the_same_over_both_nets(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str
) -> None:
    seq = make()
    seq.append(1, group="g", id="x")

    async def both() -> None:
        async with client(server.url, namespace) as session:
            assert (await explain(session, "g")).reason == "due"
            assert [await pause(session, "g"), await pause(session, "g")] == [True, False]
            awaited = await explain(session, "g")
            assert awaited.reason == "paused"
            assert (awaited.text, awaited.head_id) == (seq.explain("g").text, "x")
            assert not seq.claim()
            assert [await unpause(session, "g"), await unpause(session, "g")] == [True, False]

    asyncio.run(both())
    assert [message.body for message in seq.peek("g")] == [1]


def test_a_parked_group_is_resumed_over_it(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str
) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="g")

    def fail(_: Any) -> None:
        raise ValueError("no")

    seq.consume(fail, until_empty=True)

    async def resumed() -> bool:
        async with client(server.url, namespace) as session:
            return await resume(session, "g")

    assert asyncio.run(resumed()) is True
    assert not seq.parked()


@pytest.mark.parametrize("shards", [1, 4])
def test_messages_are_appended_one_by_one_and_in_chunks(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str, shards: int
) -> None:
    async def appended() -> None:
        async with client(server.url, namespace, shards=shards) as session:
            assert (await append(session, item(session, 0, "g0", id="a"))).outcome == "stored"
            with pytest.raises(IdConflict):
                await append(session, item(session, 1, "g0", id="a"))
            done = await append_many(session, [{"body": n, "group": f"g{n}", "id": "a"} for n in range(20)], chunk=7)
            assert (done.appended, done.duplicates) == (19, 1)
            with pytest.raises(BatchRefused) as caught:
                await append_many(session, [{"body": n, "group": n, "id": "a"} for n in ("g7", "new")])
            assert (caught.value.refused[0].index, caught.value.stored) == (0, 0)

    asyncio.run(appended())
    assert make(shards=shards).info().backlog == 20


def test_many_tasks_at_the_first_use_register_once_and_each_gets_its_own_answer(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str, link: Link
) -> None:
    async def many() -> list[Any]:
        async with client(server.url, namespace, shards=3, on_late="drop") as session:
            some = [item(session, n, f"g{n}", id=f"m{n}") for n in range(30)]
            link.command("CONFIG", "RESETSTAT")
            receipts = await asyncio.gather(*(append(session, one) for one in some))
            return [receipt.id for receipt in receipts]

    assert asyncio.run(many()) == [f"m{n}" for n in range(30)]
    stats = link.command("INFO", "commandstats").decode()
    assert "cmdstat_exec:calls=1," in stats, "for the rights"
    assert link.command("HGET", registry_key(namespace, "jobs"), "version") == b"0"
    assert make().policy.on_late == "drop"


def test_a_policy_that_is_refused_leaves_nothing_behind(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str
) -> None:
    make(sequence=True).connect()

    async def refused() -> None:
        async with client(server.url, namespace, reorder_window=5) as session:
            with pytest.raises(ConfigurationError, match="reorder_window=5 with sequence=True"):
                await session.shards(register=True)
            make(dedup_window=7).connect()
            net: Net = session.net
            assert (await net.read([("MULTI",), ("PING",), ("EXEC",)]))[-1] == [b"PONG"]

    asyncio.run(refused())


def test_a_connection_that_was_lost_is_replaced_and_a_server_without_its_data_gets_shards_again(
    server: EmbeddedServer, namespace: str, link: Link
) -> None:
    registry = registry_key(namespace, "jobs")

    async def lost() -> None:
        async with client(server.url, namespace, shards=4) as session:
            await append(session, item(session, 1, "g"))
            kill_others(link)
            assert (await append(session, item(session, 2, "g"))).outcome == "stored"
            link.command("DEL", f"{namespace}:queues", registry)
            kill_others(link)
            assert (await explain(session, "g")).reason == "due"
            assert link.command("HGET", f"{namespace}:queues", "jobs") == b"p3"
            assert link.command("HGET", registry, "table") == b"0 1 2 3"
            link.command("HSET", registry, "table", "0 1")
            kill_others(link)
            await append(session, item(session, 3, "g"))
            assert link.command("HGET", registry, "table") == b"0 1 2 3", "what the first shard says counts"
            link.command("DEL", *[shard_keys(namespace, "jobs", shard).policy for shard in range(4)], registry)
            await append(session, item(session, 4, "g"))
            assert link.command("HGET", registry, "table") == b"0 1 2 3", "without a new connection too"

    asyncio.run(lost())


def test_an_answer_that_nobody_waits_for_any_more_is_nobodys(server: EmbeddedServer, namespace: str) -> None:
    """A task is cancelled between its question and the answer: the next one does not get that answer."""

    async def cancelled() -> None:
        async with client(server.url, namespace) as session:
            await append(session, item(session, 1, "g", id="x"))
            task = asyncio.ensure_future(session.net.read([("BLPOP", "nothing", 0)]))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await session.net.read([("ECHO", "mine")]) == [b"mine"]
            assert (await explain(session, "g")).head_id == "x"

    asyncio.run(cancelled())


def test_a_server_that_is_away_is_said_as_ever() -> None:
    async def away() -> None:
        async with client("redis://127.0.0.1:1", "n") as session:
            with pytest.raises(ServerUnavailable, match="can't be reached") as failed:
                await append(session, item(session, 1, "g"))
            assert not failed.value.maybe_sent

    asyncio.run(away())
