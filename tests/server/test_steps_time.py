"""Steps that take long, on a real server: leases, time limits, consumers that die."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.consume.threads import Consumer


def test_leases_are_renewed_while_steps_run(seq: Sequencer) -> None:
    ran: Counter[str] = Counter()
    pause = threading.Event()

    def step(message: Any, call: Any) -> None:
        ran[call.name] += 1
        pause.wait(0.7)

    for order, name in enumerate("ab"):
        seq.step(name=name, order=order)(step)
    seq.append(1, group="g", id="m")
    seq.consume(until_empty=True, lease=0.5)
    assert ran == {"a": 1, "b": 1}


def test_the_time_limit_counts_for_each_step(seq: Sequencer) -> None:
    def waiting(seconds: float) -> Callable[[Any], bool]:
        return lambda message: bool(threading.Event().wait(seconds))

    seq.step(name="a", order=1)(waiting(0.3))
    seq.step(name="b", order=2)(waiting(0.3))
    seq.step(name="late", order=3, once=True)(waiting(30))
    seq.append(1, group="g", id="m")
    seq.consume(until_empty=True, handler_timeout=0.5)
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert "step late failed at" in parked.failure.message
    assert "HandlerTimeout: it ran longer than 0.5 s" in parked.failure.message


@pytest.mark.parametrize("is_inline", [False, True])
def test_time_in_steps_is_time_in_handlers(seq: Sequencer, is_inline: bool) -> None:
    """`run --status` and the scaler know by that how busy a consumer is."""
    taken: list[float] = []

    def step(*_: Any) -> None:
        began = time.monotonic()
        threading.Event().wait(0.05)
        taken.append(time.monotonic() - began)

    def handler(message: Any, steps: Any) -> None:
        for name in ("a", "b"):
            step()
            steps.run(name, step)

    if is_inline:
        seq.handler(handler)
    else:
        for name in ("a", "b"):
            seq.step(name=name)(step)
    seq.append(1, group="g")
    seq.append(2, group="h")
    consumers: list[Consumer] = []
    began = time.monotonic()
    seq.consume(until_empty=True, on_start=consumers.append)
    assert sum(taken) <= consumers[0].handlers_s <= time.monotonic() - began
