"""Worker slots under faults of their server, of what handlers depend on, and of handlers themselves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import InlineSteps, Message, Sequencer
from sequencer.errors import ConfigurationError
from sequencer.testing import wait_until
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background

PATIENCE_S = 15.0
Make = Callable[..., Sequencer]
KINDS = pytest.mark.parametrize("kind", ["threads", "loop"])


class Handlers:
    """Notes what ended well, in its order; `act` may raise."""

    def __init__(self, kind: str, act: Callable[[Message], None] = lambda _: None, pause_s: float = 0.002) -> None:
        self.seen: dict[Any, list[int]] = defaultdict(list)
        self.begun = 0
        self._act, self._pause_s = act, pause_s
        self.handle: Callable[[Message], Any] = self._plain if kind == "threads" else self._coroutine

    def _end(self, message: Message) -> None:
        self._act(message)
        self.seen[message.group].append(message.body)

    def _plain(self, message: Message) -> None:
        self.begun += 1
        time.sleep(self._pause_s)
        self._end(message)

    async def _coroutine(self, message: Message) -> None:
        self.begun += 1
        await asyncio.sleep(self._pause_s)
        self._end(message)

    @property
    def is_in_order(self) -> bool:
        """Each number first came behind the smaller ones of its group; a message may come again."""
        return all([*dict.fromkeys(numbers)] == sorted(set(numbers)) for numbers in self.seen.values())

    @property
    def handled(self) -> set[int]:
        return {number for numbers in self.seen.values() for number in numbers}


def append(seq: Sequencer, count: int, groups: int) -> None:
    seq.append_many({"body": n, "group": n % groups, "id": str(n)} for n in range(count))


# -- steps that outlive their handler ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gather", "task"])
def test_a_step_that_its_handler_leaves_harms_nobody(make: Make, how: str) -> None:
    """It is cancelled, and the next message begins when it is over; a once step that began is asked about."""
    seq, handled, late = make(max_attempts=1), list[int](), list[Any]()
    append(seq, 20, 20)

    async def later(step: Any) -> None:
        await asyncio.sleep(0.02)
        late.extend(await asyncio.gather(step, return_exceptions=True))

    async def handle(message: Message, steps: InlineSteps) -> None:
        if message.body == 0 and how == "gather":
            await asyncio.gather(*[steps.run(name, asyncio.sleep, 0.03, once=True) for name in "ab"])
        elif message.body == 0:
            late.append(asyncio.ensure_future(later(steps.run("a", asyncio.sleep, 0))))
            raise ValueError("no")
        await asyncio.sleep(0.01)
        handled.append(message.body)

    summary = seq.consume(handle, until_empty=True, concurrency=1)
    assert (sorted(handled), summary.handled, summary.failed, summary.lost) == ([*range(1, 20)], 19, 1, 0)
    assert [info.failure.type for info in seq.parked() if info.failure] == [
        "StepUnknown" if how == "gather" else "ValueError"
    ]
    assert [getattr(error, "code", error) for error in late if not isinstance(error, asyncio.Task)] == [
        *(["step_misplaced"] if how == "task" else [])
    ]


@pytest.mark.parametrize("concurrency", [None, 2])
def test_steps_of_a_handler_that_is_over_do_not_run(make: Make, concurrency: int | None) -> None:
    """Kept for a later message in the same thread, or in another one."""
    seq, kept, codes, ran = make(), list[InlineSteps](), list[Any](), list[Any]()
    append(seq, 6, 2)

    def handle(message: Message, steps: InlineSteps) -> None:
        for old in kept:
            with pytest.raises(ConfigurationError) as caught:
                old.run("late", ran.append, message.body)
            codes.append(caught.value.code)
        kept.append(steps)
        steps.run("own", ran.append, message.body)

    summary = seq.consume(handle, until_empty=True, concurrency=concurrency)
    assert (summary.handled, summary.failed, sorted(ran)) == (6, 0, [*range(6)])
    assert (len(codes) >= 6, {*codes}) == (True, {"step_misplaced"})


def test_a_handler_that_gives_up_on_a_step_harms_nobody(make: Make, proxy: FaultProxy) -> None:
    """What its step asked the server is answered after the handler's patience."""
    seq, handled = make(redis=proxy.url), list[int]()
    append(seq, 20, 20)

    async def handle(message: Message, steps: InlineSteps) -> None:
        if message.body == 0:
            proxy.add("request delayed", on=("save_step",), times=1, seconds=0.3)
            async with asyncio.timeout(0.1):
                await steps.run("a", asyncio.sleep, 0.01, once=True)
        await asyncio.sleep(0.01)
        handled.append(message.body)

    summary = seq.consume(handle, until_empty=True, concurrency=4)
    assert (sorted(handled), summary.handled, summary.lost) == ([*range(1, 20)], 19, 0)
    assert [info.failure.type for info in seq.parked() if info.failure] == ["StepUnknown"]


# -- the server, and what handlers depend on --------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("shards", [1, 3])
def test_a_server_that_is_away_for_longer_than_a_lease(make: Make, proxy: FaultProxy, kind: str, shards: int) -> None:
    seq, handlers = make(shards=shards), Handlers(kind)
    seq.connect()
    with Background(make(redis=proxy.url), handlers.handle, concurrency=16, lease=0.5):
        for part in range(4):
            count = 200 * part
            seq.append_many({"body": n, "group": n % 40, "id": str(n)} for n in range(count, count + 200))
            wait_until(lambda count=count: handlers.begun > count + 20, PATIENCE_S)  # type: ignore[misc]
            proxy.add("black hole" if part % 2 else "reply lost", times=3, seconds=0.8)
            proxy.add("request reset", on=("claim", "ack", "renew"), times=2)
        wait_until(lambda: seq.info().backlog == 0, PATIENCE_S, "all is handled")
    assert handlers.handled == set(range(800))
    assert handlers.is_in_order


@KINDS
def test_an_outage_holds_all_worker_slots_back_and_parks_nothing(make: Make, kind: str) -> None:
    is_away = threading.Event()
    is_away.set()

    def bank(_: Message) -> None:
        if is_away.is_set():
            raise ConnectionError("the bank is closed")

    seq, handlers = make(max_attempts=2, backoff=0.05), Handlers(kind, bank)
    append(seq, 200, 100)
    with Background(seq, handlers.handle, concurrency=16):
        wait_until(lambda: seq.info().outage, PATIENCE_S, "an outage")
        begun = handlers.begun
        threading.Event().wait(1.0)
        assert handlers.begun - begun <= 16 + 3, "those that ran, and probes"
        is_away.clear()
        seq.probe_outage()
        wait_until(lambda: seq.info().backlog == 0, PATIENCE_S, "all is handled")
        assert seq.info().outage is None
    assert not [*seq.parked()]
    assert handlers.is_in_order
