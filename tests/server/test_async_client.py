"""AsyncSequencer on a real server."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import redis.asyncio

from sequencer import AsyncSequencer, EmbeddedServer, Lease, Message, Sequencer
from sequencer.client import Client
from sequencer.errors import BatchRefused, ConfigurationError, IdConflict
from sequencer.lease import AsyncLease
from sequencer.net.faces import listing
from sequencer.testing import MemoryQueue
from tests.support.refused import refused

OF_ONE = {"consumer", "override", "consuming"}
"""Of the blocking client only, and of the awaited one."""
CLIENTS = ((Sequencer, AsyncSequencer), (Lease, AsyncLease))


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaited"), CLIENTS)
def test_both_faces_have_the_same_methods(blocking: type, awaited: type) -> None:
    """Names, parameters with their defaults and docstrings; each that waits for the server is a coroutine function."""
    assert public(blocking) ^ public(awaited) <= OF_ONE
    for name in public(blocking) & public(awaited):
        one, other = inspect.getattr_static(blocking, name), inspect.getattr_static(awaited, name)
        if isinstance(other, property) or one is other:
            continue
        wanted = dict(inspect.signature(one).parameters)
        wanted.pop("pipeline", None)  # of append: a pipeline that waits
        found = dict(inspect.signature(other).parameters)
        if name == "consume":  # its `on_start` takes another kind of consumer
            assert wanted.pop("on_start").default == found.pop("on_start").default
        assert wanted == found, name
        assert one.__doc__ == other.__doc__ or name in ("close", "consume"), name
        assert not inspect.iscoroutinefunction(one), name
        assert inspect.iscoroutinefunction(other) or isinstance(vars(Client)[name], listing), name
    of_blocking, of_awaited = inspect.signature(blocking).parameters, inspect.signature(awaited).parameters
    assert of_blocking == of_awaited


def test_a_renamed_parameter_is_seen() -> None:
    """The negative control."""

    class Renamed(AsyncLease):
        async def ack(self, one: Message) -> None: ...

    with pytest.raises(AssertionError):
        test_both_faces_have_the_same_methods(Lease, Renamed)


def test_a_blocking_client_on_a_running_loop_warns_once_and_where_it_was_called(
    server: EmbeddedServer, namespace: str
) -> None:
    seq = Sequencer("q", server.url, namespace=namespace)

    async def use() -> None:
        with pytest.warns(RuntimeWarning, match="AsyncSequencer") as warned:
            seq.append(1, "g")
        assert [one.filename for one in warned] == [__file__]
        seq.append(2, "g")  # a second warning would be an error here
        await asyncio.to_thread(Sequencer("q", server.url, namespace=namespace).append, 3, "g")

    asyncio.run(use())
    Sequencer("q", server.url, namespace=namespace).append(4, "g")


def test_a_queue_in_memory_blocks_no_loop() -> None:
    async def use() -> None:
        memory = MemoryQueue()
        memory.append(1, "g")
        with refused(ConfigurationError, "redis_invalid"):
            await AsyncSequencer("q", memory.endpoint).append(1, "g")

    asyncio.run(use())


def test_append_look_and_operate(server: EmbeddedServer, namespace: str) -> None:
    async def use() -> None:
        async with AsyncSequencer("q", server.url, namespace=namespace, group_by="user") as seq:
            receipts = await asyncio.gather(*(seq.append({"user": n % 5, "n": n}, id=str(n)) for n in range(100)))
            assert [receipt.id for receipt in receipts] == [str(n) for n in range(100)]
            assert (await seq.append({"user": 0, "n": 0}, id="0")).duplicate
            with pytest.raises(IdConflict):
                await seq.append({"user": 0, "n": 1}, id="0")
            assert (await seq.info()).backlog == 100
            assert await seq.pause(1)
            assert [group async for group in seq.parked()] == []
            assert (await seq.policy).dedup_window == 300
            assert not [one for one in await seq.doctor() if one.level == "problem"]

    asyncio.run(use())


def test_many_are_appended_from_an_iterable_of_either_kind(server: EmbeddedServer, namespace: str) -> None:
    """No more is taken from it than is sent, chunk by chunk; other tasks run meanwhile."""

    async def numbers(last: int) -> AsyncIterator[dict[str, Any]]:
        for n in range(last):
            await asyncio.sleep(0)
            yield {"body": n, "group": n % 3, "id": f"a{n}"}

    async def use() -> None:
        async with AsyncSequencer("q", server.url, namespace=namespace) as seq:
            one, other = await asyncio.gather(
                seq.append_many(numbers(50), chunk=7),
                seq.append_many(({"body": n, "group": n % 3, "id": f"b{n}"} for n in range(50)), chunk=7),
            )
            assert (one.appended, other.appended) == (50, 50)
            assert [m.id for m in await seq.peek(0, limit=100) if m.id[0] == "a"] == [f"a{n}" for n in range(0, 50, 3)]
            source = numbers(10)
            with pytest.raises(BatchRefused) as caught:
                await seq.append_many(({**one, "group": one["group"] or []} async for one in source), chunk=2)
            assert [error.index for error in caught.value.refused] == [0]
            assert [one["body"] async for one in source] == list(range(2, 10))

    asyncio.run(use())
    with Sequencer("q", server.url, namespace=namespace) as seq, refused(ConfigurationError, "awaits_other"):
        seq.append_many(numbers(2))


def test_a_cancelled_append_gives_its_answer_to_nobody(server: EmbeddedServer, namespace: str) -> None:
    """Each receipt has the stamp of its own record. The whole storm, with its negative control: faults/test_line.py."""

    async def storm() -> None:
        async with AsyncSequencer("q", server.url, namespace=namespace) as seq:
            chance, stamps = random.Random(7), dict[str, int | None]()

            async def one(n: int) -> None:
                task = asyncio.ensure_future(seq.append(n, group="g", id=str(n)))
                if chance.random() < 0.4:
                    await asyncio.sleep(chance.random() / 500)
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    stamps[str(n)] = (await task).stamp

            await asyncio.gather(*(one(n) for n in range(500)))
            stored = {message.id: message.stamp for message in await seq.peek("g", limit=1000)}
            assert stamps.items() <= stored.items()
            assert 100 < len(stamps) < 450

    asyncio.run(storm())


def test_a_lease_is_awaited(server: EmbeddedServer, namespace: str) -> None:
    async def use() -> None:
        async with AsyncSequencer("q", server.url, namespace=namespace, max_attempts=1, shards=3) as seq:
            assert not await seq.claim()
            await seq.append_many({"body": n, "group": n % 2, "id": n} for n in range(8))
            async with await seq.claim(group=0) as lease:
                assert (len(lease), lease.remaining_s > 14) == (4, True)
                async for message in lease:
                    if message.body == 4:
                        break
                    await lease.ack(message)
                    await lease.renew()
            assert [message.body for message in await seq.peek(0)] == [4, 6]
            with pytest.raises(KeyError):
                async with await seq.claim(group=1) as lease:
                    async for _ in lease:
                        raise KeyError
            assert (await seq.explain(1)).reason == "parked"
            assert [group.group async for group in seq.parked()] == [("1",)]

            async def held() -> None:
                async with await seq.claim(lease=60) as lease:
                    async for _ in lease:
                        claimed.set()
                        await asyncio.sleep(60)

            claimed, task = asyncio.Event(), asyncio.ensure_future(held())
            await claimed.wait()
            assert (await seq.explain(0)).reason == "leased"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await seq.explain(0)).reason == "due", "released, and no failure was counted"
            async with await seq.claim(group=0) as lease:
                async for message in lease:
                    await lease.dead_letter(message)
            assert await seq.count_dead() == 1

    asyncio.run(use())


def test_it_takes_a_url_or_a_client_of_either_kind(server: EmbeddedServer, namespace: str) -> None:
    path = str(server.url).removeprefix("unix://").partition("@")[2] or str(server.url).removeprefix("unix://")
    async_client, client = redis.asyncio.Redis.from_url(server.url), redis.Redis.from_url(server.url)

    async def use() -> list[int]:
        for n, one in enumerate((server.url, client, async_client)):
            async with AsyncSequencer("q", one, namespace=namespace) as seq:
                assert path in repr(seq)
                await seq.append(n, "g")
        await async_client.aclose()
        with Sequencer("q", async_client, namespace=namespace) as seq_:
            return [message.body for message in await asyncio.to_thread(seq_.peek, "g")]

    assert asyncio.run(use()) == [0, 1, 2]
    with refused(ConfigurationError, "redis_invalid", kind="object"):
        AsyncSequencer("q", object())


def test_each_loop_has_its_own_connection(server: EmbeddedServer, namespace: str) -> None:
    seq = AsyncSequencer("q", server.url, namespace=namespace)

    async def append(n: int) -> Any:
        return await seq.append(n, group="g", id=str(n))

    assert [asyncio.run(append(n)).id for n in range(3)] == ["0", "1", "2"]
