"""AsyncSequencer consumes beside the other tasks of an event loop, on a real server."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sequencer import AsyncSequencer, EmbeddedServer, Message, Sequencer
from sequencer.consume.hub import Hub
from sequencer.errors import ConfigurationError, DataError, HandlerNotFound
from tests.support.refused import refused

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="")


async def eventually(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.005)


@pytest.fixture
def run(server: EmbeddedServer, namespace: str) -> Callable[..., None]:
    """Runs a coroutine function with an AsyncSequencer of these options."""

    def run(use: Callable[[AsyncSequencer], Awaitable[None]], **options: Any) -> None:
        async def with_queue() -> None:
            async with AsyncSequencer("q", server.url, namespace=namespace, **options) as seq:
                await use(seq)

        asyncio.run(with_queue())

    return run


async def append(seq: AsyncSequencer, messages: int, groups: int) -> None:
    await seq.append_many({"body": n, "group": n % groups, "id": n} for n in range(messages))


@pytest.mark.parametrize("shards", [1, 4])
def test_coroutines_run_on_the_running_loop(run: Callable[..., None], shards: int) -> None:
    async def use(seq: AsyncSequencer) -> None:
        await append(seq, 300, 30)
        seen: dict[Any, list[int]] = defaultdict(list)
        at_once, most, contexts, ticks = [0], [0], set[str](), [0]
        handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]

        @seq.handler
        async def handle(message: Message) -> None:
            contexts.add(REQUEST.get())
            REQUEST.set("of one handler")
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            await asyncio.sleep(0.001)
            at_once[0] -= 1
            seen[message.group].append(message.body)
            assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers

        async def tick() -> None:
            while True:
                ticks[0] += 1
                await asyncio.sleep(0.0005)

        ticking = asyncio.create_task(tick())
        REQUEST.set("of who consumes")
        summary = await seq.consume(until_empty=True)
        ticking.cancel()
        assert (summary.reason, summary.handled, summary.failed) == ("drained", 300, 0)
        assert all(numbers == sorted(numbers) for numbers in seen.values())
        assert (contexts, len(seen), most[0] > 10, ticks[0] > 5) == ({"of who consumes"}, 30, True, True)

    run(use, shards=shards)


def test_plain_functions_run_in_threads(run: Callable[..., None]) -> None:
    async def use(seq: AsyncSequencer) -> None:
        await append(seq, 40, 10)
        REQUEST.set("of who consumes")
        threads, contexts, met = set[int](), set[str](), threading.Barrier(3)

        def handle(message: Message) -> None:
            if message.body < 3:
                met.wait(10)  # three at once
            threads.add(threading.get_ident())
            contexts.add(REQUEST.get())

        summary = await seq.consume(handle, concurrency=3, until_empty=True)
        assert (summary.handled, summary.failed) == (40, 0)
        assert (len(threads), contexts) == (3, {"of who consumes"})
        assert threading.get_ident() not in threads

    run(use)


def test_leaving_the_block_finishes_what_runs(run: Callable[..., None]) -> None:
    async def use(seq: AsyncSequencer) -> None:
        handled, begun = list[int](), asyncio.Event()

        async def handle(message: Message) -> None:
            begun.set()
            await asyncio.sleep(0.05)
            handled.append(message.body)

        with pytest.raises(KeyError):
            async with seq.consuming(handle, concurrency=4) as consumer:
                await append(seq, 20, 10)
                await asyncio.wait_for(begun.wait(), 10)
                raise KeyError
        assert 0 < len(handled) < 20
        assert consumer.counts["handled"] == len(handled)
        assert (await seq.info()).backlog == 20 - len(handled)
        assert {group.owner for group in await seq.groups()} == {None}, "released"
        assert await seq.consume(handle, until_empty=True)
        assert sorted(handled) == [*range(20)]

    run(use)


async def wait_long(message: Message) -> None:
    await asyncio.sleep(60)


def compute_long(message: Message) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("handler", [wait_long, compute_long])
@pytest.mark.parametrize("way", ["grace", "cancelled in the block", "cancelled awaiting", "cancelled often"])
def test_handlers_are_interrupted_and_their_messages_released(
    run: Callable[..., None], way: str, handler: Callable[[Message], Any]
) -> None:
    """No attempt is counted."""

    async def use(seq: AsyncSequencer) -> None:
        await append(seq, 3, 3)
        consumers = list[Any]()

        async def in_block() -> None:
            grace = 0.1 if way == "grace" else None
            async with seq.consuming(handler, concurrency=3, grace=grace) as consumer:
                consumers.append(consumer)
                await eventually(lambda: all(one.running for one in consumer.slots.values()))
                if way != "grace":
                    asyncio.current_task().cancel()  # type: ignore[union-attr]
                    await asyncio.sleep(60)

        if way in ("grace", "cancelled in the block"):
            task = asyncio.create_task(in_block())
        else:
            task = asyncio.create_task(seq.consume(handler, concurrency=3, on_start=consumers.append))  # type: ignore[arg-type]
        await eventually(lambda: consumers and all(one.running for one in consumers[0].slots.values()))
        while not task.done():
            if way != "grace":
                task.cancel()
            await asyncio.wait([task], timeout=0.001 if way == "cancelled often" else 0.2)
        assert task.cancelled() == (way != "grace")
        assert {(await seq.explain(group)).reason for group in range(3)} == {"due"}
        assert [message.attempt for group in range(3) for message in await seq.peek(group)] == [1, 1, 1]

    run(use)


@pytest.mark.parametrize("handler", [wait_long, compute_long])
def test_an_error_of_the_consumer_is_logged_at_once_and_raised_at_the_end(
    run: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    handler: Callable[[Message], Any],
) -> None:
    """The hub is over, so handlers that run are interrupted."""

    def fail(*_: Any) -> bool:
        raise DataError("shards_changed", queue="q", before=1, now=2)

    async def use(seq: AsyncSequencer) -> None:
        is_at_end = False
        with pytest.raises(DataError):
            async with seq.consuming(handler, concurrency=3) as consumer:
                await append(seq, 2, 2)
                await eventually(lambda: consumer.running)
                monkeypatch.setattr(Hub, "_carry_out", fail)
                await append(seq, 5, 5)
                await eventually(lambda: consumer.error)
                assert [one for one in caplog.records if getattr(one, "event", "") == "consumer failed"]
                is_at_end = True
        assert is_at_end

    run(use)


def test_what_can_not_be_consumed_is_refused(run: Callable[..., None], server: EmbeddedServer, namespace: str) -> None:
    async def use(seq: AsyncSequencer) -> None:
        for call in (seq.consume, lambda **given: seq.consuming(**given).__aenter__()):
            with refused(HandlerNotFound, "handler_not_found"):
                await call()
            with pytest.raises(ConfigurationError):
                await call(handler=wait_long, concurrency=0)
        with pytest.raises(ConfigurationError):
            await seq.consuming(wait_long, grace="soon").__aenter__()
        for handler in (wait_long, compute_long):
            with refused(ConfigurationError, "loop_runs") as caught:
                Sequencer("q", server.url, namespace=namespace).consume(handler)
            assert "AsyncSequencer" in str(caught.value)

    run(use)
