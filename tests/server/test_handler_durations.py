"""How long handlers took is counted in each kind of consumer: once for each call, batch, or pass over steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sequencer import InlineSteps, Message, Sequencer
from sequencer.settings.options import ConsumerOptions
from sequencer.values.durations import RUN_BOUNDS_S
from tests.support.handling import Make


def runs_of(seq: Sequencer, handler: Any = None, **options: Any) -> tuple[int, float]:
    """How many were counted, and their time."""
    consumer = seq.consumer(handler, ConsumerOptions(until_empty=True, **options))
    consumer.run()
    *counts, seconds = consumer.runs
    assert len(counts) == len(RUN_BOUNDS_S) + 1
    return round(sum(counts)), seconds


@pytest.fixture
def seq(make: Make) -> Sequencer:
    seq = make(backoff=0.0, max_attempts=2, on_failure="drop")
    seq.append_many({"body": n, "group": str(n % 3)} for n in range(6))
    return seq


def fail_the_last(message: Message) -> None:
    if message.body == 5:
        raise ValueError


async def fail_the_last_awaited(message: Message) -> None:
    await asyncio.sleep(0)
    fail_the_last(message)


@pytest.mark.parametrize(
    ("handler", "concurrency"),
    [(fail_the_last, None), (fail_the_last, 3), (fail_the_last_awaited, None)],
)
def test_each_attempt_counts(seq: Sequencer, handler: Any, concurrency: int | None) -> None:
    count, seconds = runs_of(seq, handler, concurrency=concurrency)
    assert (count, seconds > 0) == (7, True), "the last message failed twice"


def test_a_batch_counts_once(seq: Sequencer) -> None:
    seq.handler(batch=10)(lambda batch: None)
    assert runs_of(seq)[0] == 3


def test_a_pass_over_steps_counts_once(seq: Sequencer) -> None:
    for name in ("charge", "ship"):
        seq.step(name=name)(lambda message: None)
    assert runs_of(seq)[0] == 6


def test_a_handler_with_steps_counts_once(seq: Sequencer) -> None:
    @seq.handler
    def handle(message: Message, steps: InlineSteps) -> None:
        steps.run("charge", lambda: 1)
        steps.run("ship", lambda: 2)

    count, seconds = runs_of(seq)
    assert (count, seconds > 0) == (6, True)
