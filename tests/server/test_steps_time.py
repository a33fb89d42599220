"""Steps that take long, on a real server: leases, time limits, consumers that die."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.handling import ctrl_c
from .test_steps import Make


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


def test_two_consumers_hand_a_message_on_from_step_to_step(make: Make, seq: Sequencer) -> None:
    """One dies in the second step; the other goes on behind the first."""
    ran: list[str] = []

    def step(message: Any, call: Any) -> None:
        ran.append(call.name)
        if ran == ["a", "b"]:
            ctrl_c()

    for order, name in enumerate("abc"):
        seq.step(name=name, order=order)(step)
    seq.append(1, group="g", id="m")
    with pytest.raises(KeyboardInterrupt):
        seq.consume(until_empty=True)
    seq.consume(until_empty=True)
    assert ran == ["a", "b", "b", "c"]
    wait_until(lambda: seq.info().backlog == 0)
