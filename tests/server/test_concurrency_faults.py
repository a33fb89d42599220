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


def test_a_step_beside_another_outlives_its_handler_and_harms_nobody(make: Make) -> None:
    seq, handled = make(max_attempts=1), list[int]()
    append(seq, 20, 20)

    async def handle(message: Message, steps: InlineSteps) -> None:
        if message.body == 0:
            both = [steps.run(name, asyncio.sleep, 0.03, once=True) for name in "ab"]
            await asyncio.gather(*both)
        await asyncio.sleep(0.01)
        handled.append(message.body)

    summary = seq.consume(handle, until_empty=True, concurrency=1)
    assert (sorted(handled), summary.handled, summary.failed, summary.lost) == ([*range(1, 20)], 19, 1, 0)
    assert [info.failure.type for info in seq.parked() if info.failure] == ["ConfigurationError"]


def test_a_handler_that_gives_up_on_a_step_harms_nobody(make: Make, proxy: FaultProxy) -> None:
    """What its step asked the server is answered when nobody waits for it any more."""
    seq, handled = make(redis=proxy.url), list[int]()
    append(seq, 20, 20)

    async def handle(message: Message, steps: InlineSteps) -> None:
        if message.body == 0:
            proxy.add("request delayed", on=("save_step",), times=1, seconds=0.3)
            try:
                await asyncio.wait_for(steps.run("a", asyncio.sleep, 0, once=True), 0.1)
            except TimeoutError:
                handled.append(-1)
        await asyncio.sleep(0.01)
        handled.append(message.body)

    summary = seq.consume(handle, until_empty=True, concurrency=4)
    assert (sorted(handled), summary.handled, summary.lost) == ([*range(-1, 20)], 20, 0)
