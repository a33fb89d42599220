"""Handlers of batches: the order, the prefix that is acknowledged, and whose failure it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

import sequencer.drain.batches
from sequencer import Batch, Message, Outage, Park, Retry, SetAside
from sequencer.drain.batch import of_batches
from sequencer.drain.steps.functions import BatchHandler
from sequencer.errors import ConfigurationError
from sequencer.settings.options import ClaimLimits
from sequencer.testing import MemoryQueue

from ..support.examples import examples
from ..support.machine import ConsumersMachine
from ..support.simulated_consumer import SimConsumer

SETTINGS = settings(
    max_examples=examples(300), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
SEARCH = settings(SETTINGS, max_examples=1500, phases=[Phase.generate], derandomize=True, database=None)


class BatchConsumer(SimConsumer):
    batch = BatchHandler(print, size=3)


class BatchesMachine(ConsumersMachine):
    def new_consumer(self) -> SimConsumer:
        self.names += 1
        return BatchConsumer(self, f"c{self.names}")


@pytest.mark.slow
def test_order_exclusion_and_every_message_are_kept() -> None:
    run_state_machine_as_test(BatchesMachine, settings=SETTINGS)


@pytest.mark.parametrize("done", [lambda batch, heard: len(batch), lambda batch, heard: len(batch) - 1])
def test_more_than_the_prefix_is_caught(monkeypatch: pytest.MonkeyPatch, done: Callable[..., int]) -> None:
    """The control: after a failure all of it is acknowledged, or all but the last."""
    monkeypatch.setattr(sequencer.drain.batches, "_done", done)
    with pytest.raises((AssertionError, IndexError)):
        run_state_machine_as_test(BatchesMachine, settings=SEARCH)


# -- whose failure it is ---------------------------------------------------------------------------------------------


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue(max_attempts=3, backoff=1)


def filled(queue: MemoryQueue, count: int) -> list[list[int]]:
    """Calls of the handler, with the bodies that it got; the queue has so many messages of one group."""
    for number in range(count):
        queue.append(number, group="g", id=str(number))
    return []


@pytest.mark.slow
@given(st.integers(1, 12), st.integers(1, 30), st.lists(st.integers(0, 12), max_size=12))
@settings(max_examples=examples(60), deadline=None)
def test_what_is_done_is_not_repeated_and_what_is_not_done_is(size: int, count: int, failures: list[int]) -> None:
    """Each call but the last ones fails, behind so many messages that are done."""
    queue, done, problems = MemoryQueue(max_attempts=50), list[int](), list[Any]()
    filled(queue, count)

    @queue.handler(batch=size)
    def handle(batch: Batch) -> None:
        bodies = [message.body for message in batch]
        is_next = bodies == [*range(len(done), len(done) + len(batch))]
        if not is_next or len(batch) > size or (batch[0].attempt > 1 and len(batch) > 1):
            problems.append((bodies, len(done)))
        until = min(failures.pop(), len(batch) - 1) if failures else len(batch)
        if 0 < until < len(batch):
            batch.done(batch[until - 1])
        done.extend(bodies[:until])
        if until < len(batch):
            raise ValueError("no")

    drained = queue.drain()
    assert (done, problems, drained.parked) == ([*range(count)], [], [])
    assert [message.body for message in drained.handled] == done


@pytest.mark.parametrize(
    ("kind", "calls_after", "outcome"),
    [
        (ValueError, [[2], [3, 4]], ""),
        (Retry, [[2], [3, 4]], ""),
        (Outage, [[2, 3, 4]], ""),
        (Park, [], "parked"),
        (SetAside, [[3, 4]], "dead"),
    ],
)
def test_what_a_batch_raises_concerns_the_first_message_not_done(
    queue: MemoryQueue, kind: Any, calls_after: list[list[int]], outcome: str
) -> None:
    calls = filled(queue, 5)

    @queue.handler(batch=10)
    def handle(batch: Batch) -> None:
        calls.append([message.body for message in batch])
        if len(calls) == 1:
            batch.done(batch[1])
            raise kind("why")

    done = queue.drain()
    assert calls == [[0, 1, 2, 3, 4], *calls_after]
    assert [message.id for message, _ in done.failed] == ["2"]
    assert [group.failure.id for group in done.parked if group.failure] == ["2"] * (outcome == "parked")
    assert len(done.dead) == (outcome == "dead")


def test_a_failure_behind_the_last_message_is_the_last_ones(queue: MemoryQueue) -> None:
    calls = filled(queue, 3)

    @queue.handler(batch=5)
    def handle(batch: Batch) -> None:
        calls.append([message.body for message in batch])
        batch.done(batch[-1])
        if len(calls) == 1:
            raise ValueError("closing the file")

    assert [message.body for message, _ in queue.drain().failed] == [2]
    assert calls == [[0, 1, 2], [2]]


def test_a_message_that_failed_goes_alone_and_batches_grow_behind_it(queue: MemoryQueue) -> None:
    calls = filled(queue, 12)

    @queue.handler(batch=10)
    def handle(batch: Batch) -> None:
        calls.append([message.body for message in batch])
        if len(calls) == 1:
            raise ValueError("no")

    queue.drain()
    assert calls == [[*range(10)], [0], [1, 2], [3, 4, 5, 6], [7, 8, 9, 10, 11]]


def test_a_late_message_that_is_dropped_ends_a_batch() -> None:
    queue, calls = MemoryQueue(on_late="drop"), list[list[float]]()
    queue.append(1, group="g", id="before", score=5)
    queue.drain(print)
    for score in (6, 3, 7):
        queue.append(score, group="g", id=str(score), score=score)

    @queue.handler(batch=10)
    def handle(batch: Batch) -> None:
        calls.append([message.score for message in batch])

    assert (queue.drain().failed, calls) == ([], [[6.0, 7.0]])


# -- what it is given, and what is claimed for it --------------------------------------------------------------------


def test_a_batch_is_a_sequence_that_notes_how_far_it_is_done() -> None:
    messages = [Message(str(n), ("g",), 1.0, n, {}, 1, 1, 0.0, "q", n) for n in range(4)]
    batch = Batch(messages)
    assert ([*batch], len(batch), batch[1:3], batch.group) == (messages, 4, tuple(messages[1:3]), ("g",))
    assert (batch.done_count, batch.failing) == (0, messages[0])
    for position, count in ((1, 2), (0, 2), (3, 4)):
        batch.done(messages[position])
        assert batch.done_count == count
    assert batch.failing == messages[3]
    with pytest.raises(ValueError, match="'x' is not in this batch"):
        batch.done(messages[0]._replace(id="x"))


@given(st.integers(1, 1000), st.booleans(), st.integers(0, 2000), st.none() | st.integers(1, 500))
def test_a_claim_asks_for_a_batch_of_each_group(size: int, is_slot: bool, handled: int, left: int | None) -> None:
    batches = of_batches(ClaimLimits(), size, is_slot=is_slot)
    batches.learn(handled, 0.001)
    limits = batches.next_limits(left)
    if left is not None:
        assert limits.messages <= left
    elif is_slot:
        assert limits.messages >= size * limits.groups
    else:
        assert limits.messages // 8 >= min(size, 125)
        assert limits.messages >= min(size, 125) * limits.groups


def test_refusals(queue: MemoryQueue) -> None:
    for options in ({"batch": 0}, {"batch": 1001}, {"batch": True}, {"timeout": 0}, {"backoff": -1}):
        with pytest.raises(ConfigurationError):
            queue.handler(**options)(print)
    with pytest.raises(ConfigurationError) as raised:
        queue.handler(batch=5)(lambda message, steps: None)  # type: ignore[type-var]
    assert raised.value.code == "batch_with_steps"
    queue.step(name="s")(print)
    with pytest.raises(ConfigurationError) as raised:
        queue.handler(batch=5)(print)
    assert raised.value.code == "handler_and_steps"
