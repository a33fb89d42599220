"""The queue for users' unit tests: what they would write, and that it says what went wrong."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterator
from typing import Any

import pytest

from sequencer import InlineSteps, Message, Sequencer
from sequencer.errors import ConfigurationError, HandlerNotFound, StopConsuming
from sequencer.settings.options import ClaimLimits
from sequencer.testing import assert_order
from sequencer.testing.memory_queue import Drained, MemoryQueue

from ..support.handling import got
from ..support.refused import refused


class Shop:
    """A user's handler, with the trouble that it may have."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.refusals = 2

    def charge(self, message: Message) -> None:
        if message.body["card"] == "slow bank" and self.refusals:
            self.refusals -= 1
            raise OSError("the bank does not answer")
        self.charged.append(message.id)


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue("orders", group_by=["user"], id_by="id", max_attempts=5)


def append(queue: MemoryQueue, user: int, number: int, card: str = "good", **options: Any) -> Any:
    return queue.append({"user": user, "id": f"{user}.{number}", "card": card}, **options)


def test_handler_that_fails_twice_succeeds_in_order(queue: MemoryQueue) -> None:
    shop = Shop()
    append(queue, 1, 1, "slow bank")
    append(queue, 1, 2)
    append(queue, 2, 1)
    done = queue.drain(shop.charge)
    assert [message.id for message in done.handled if message.group == ("1",)] == ["1.1", "1.2"]
    assert [type(error) for _, error in done.failed] == [OSError, OSError]
    assert done.handled[-1].attempt + done.handled[-2].attempt == 4
    assert done.elapsed_s > 1  # two backoffs, and nobody waited
    assert not done.parked
    assert_order(done.handled)


def test_delayed_message_comes_when_its_time_has_come(queue: MemoryQueue) -> None:
    append(queue, 1, 1, delay=3600)
    began = queue.now
    info = got(queue, [1], "1.1")
    assert info.state == "delayed"
    assert info.due_in_s == pytest.approx(3600)
    queue.advance(1800)
    assert queue.get([1], "1.1").due_in_s == pytest.approx(1800)  # type: ignore[union-attr]
    times: list[float] = []
    queue.drain(lambda message: times.append(queue.now))
    assert times == [pytest.approx(began + 3600)]


def test_shards_policies_and_the_rest_of_the_interface() -> None:
    queue = MemoryQueue("numbered", shards=2, sequence=True, gap_timeout=5, on_gap="skip")
    queue.append_many([{"body": n, "group": ["g", n % 3], "id": n, "score": n // 3 + 1} for n in range(30) if n != 6])
    queue.pause(["g", 1])
    done = queue.drain(lambda message: None)
    assert done.paused == [("g", "1")]
    assert len(done.handled) == 19
    assert_order(done.handled)
    assert queue.info().backlog == 10
    assert queue.explain(["g", 1]).reason == "paused"
    queue.unpause(["g", 1])
    assert queue.consume(lambda message: None).handled == 10


@pytest.mark.slow
def test_drain_that_does_not_end_says_so(queue: MemoryQueue) -> None:
    append(queue, 1, 1)
    with pytest.raises(AssertionError):
        queue.drain(lambda message: append(queue, 1, int(message.id.split(".")[1]) + 1), max_effects=200)
    with pytest.raises(HandlerNotFound):
        MemoryQueue().drain()
    with refused(ConfigurationError, "duration_invalid", name="advance"):
        queue.advance(-1)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["interrupted", "out of effects"])
def test_a_drain_that_is_broken_off_leaves_no_answer_to_others(ends: str) -> None:
    for runs in range(1, 20):
        queue = MemoryQueue("orders")
        queue.append_many([{"body": number, "group": ["g"]} for number in range(60)])
        left = iter(range(runs))

        def handle(_: Message, queue: MemoryQueue = queue, left: Iterator[int] = left) -> None:
            queue.advance(0.002)  # so that acknowledgements are sent between two handlers
            if ends == "interrupted" and next(left, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt if ends == "interrupted" else AssertionError):
            queue.drain(handle, max_effects=10_000 if ends == "interrupted" else runs)
        assert queue.info().groups == 1
        assert queue.append("more", ["other"]).outcome == "stored"


def test_assert_order_names_what_is_wrong(queue: MemoryQueue) -> None:
    for number in range(1, 4):
        append(queue, 1, number)
    done: Drained = queue.drain(lambda message: None)
    first, second, third = done.handled
    assert_order([first, second, second, third])  # handled twice, in order
    with pytest.raises(AssertionError):
        assert_order([first, third, second])


def test_missing_fakeredis_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "lupa":
            raise ImportError("No module named 'lupa'", name="lupa")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with refused(ConfigurationError, "fakeredis_missing", module="lupa"):
        MemoryQueue()


def test_consume_keeps_to_its_options(queue: MemoryQueue) -> None:
    for number in range(10):
        append(queue, number, 1)
    summary = queue.consume(lambda message: None, max_messages=4, until_empty=True, limits=ClaimLimits(1, 1))
    assert (summary.reason, summary.handled) == ("recycled", 4)
    summary = queue.consume(lambda message: queue.advance(1), max_age=1.5, limits=ClaimLimits(1, 1))
    assert (summary.reason, summary.handled) == ("recycled", 2)
    summary = queue.consume(lambda message: None)
    assert (summary.reason, summary.handled) == ("drained", 4)


def test_consume_says_why_it_ended_and_what_it_lost(queue: MemoryQueue) -> None:
    append(queue, 1, 1)

    def enough(message: Message) -> None:
        raise StopConsuming("enough")

    assert queue.consume(enough).reason == "stopped"
    assert not queue.drain(enough).failed

    def slow(message: Message) -> None:
        if not seen:
            seen.append(message.id)
            queue.advance(60)
            with queue.claim(lease=1) as other:
                other.ack(next(iter(other)))

    seen: list[str] = []
    assert queue.consume(slow, lease=15).lost == 1


def test_a_sequencer_of_an_application_is_taken_as_it_is() -> None:
    seq = Sequencer(
        "orders", namespace="shop", group_by=("user", "order"), id_by="id", max_attempts=2, park_on=(KeyError,)
    )
    told = []
    seq.observe(lambda event: told.append(event.name))

    @seq.handler
    def charge(message: Message) -> None:
        raise ValueError(message.group)

    queue = MemoryQueue(seq)
    assert (queue.queue, queue.options) == ("orders", seq.options)
    queue.append({"user": 7, "order": 1, "id": "e1"})
    assert [message.group for message, _ in queue.drain().failed] == [("7", "1")] * 2
    assert told == ["message failed", "group parked"]
    assert MemoryQueue(seq, max_attempts=5).options.max_attempts == 5
    stepped = Sequencer("gifts")

    @stepped.step(once=True)
    def pay(message: Message) -> int:
        return 1

    gifts = MemoryQueue(stepped)
    gifts.append({}, group="ann")
    assert [run.step for run in gifts.drain().steps] == ["pay"]


def test_until_idle_waits_for_nothing_that_is_not_due() -> None:
    queue = MemoryQueue("q", max_attempts=5, backoff=60, shards=2)
    queue.append_many({"body": n, "group": n, "id": n} for n in range(20))
    queue.append("later", group="later", delay=3600)
    queue.append("fails", group="fails")
    queue.append("paused", group="paused")
    queue.pause("paused")
    seen, began = [], queue.now

    def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == "fails":
            raise ValueError

    summary = queue.consume(handle, until_idle=True)
    assert (summary.reason, summary.handled, summary.failed) == ("drained", 20, 1)
    assert "later" not in seen
    assert queue.now - began < 1
    assert queue.info().backlog == 3


def test_coroutines_run_on_a_loop_of_its_own() -> None:
    queue, ran = MemoryQueue(backoff=1.0), list[Any]()
    queue.append(1, group="g")

    async def double(number: int) -> int:
        await asyncio.sleep(0)
        ran.append(number)
        return 2 * number

    async def handle(message: Message, steps: InlineSteps) -> None:
        doubled = await steps.run("double", double, message.body)
        if message.attempt == 1:
            raise ValueError("once more")
        ran.append(await steps.run("add", lambda: doubled + 1))

    done = queue.drain(handle)
    assert (len(done.handled), len(done.failed), ran) == (1, 1, [1, 3])


def test_coroutines_are_refused_where_a_loop_runs() -> None:
    async def handle(message: Message) -> None: ...

    async def drain() -> None:
        MemoryQueue().drain(handle)

    with refused(ConfigurationError, "loop_runs"):
        asyncio.run(drain())
