"""What a HandlerTimeout is to the policies of a queue, and in virtual time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sequencer import Message
from sequencer.drain.outcome import decide
from sequencer.errors import HandlerTimeout
from sequencer.settings.options import QueueOptions
from sequencer.testing.memory_queue import MemoryQueue


@pytest.mark.parametrize("option", ["park_on", "dead_letter_on"])
@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("HandlerTimeout", True),
        ("sequencer.errors.HandlerTimeout", True),
        ("TimeoutError", False),
        ("OSError", False),
        ("Exception", False),
    ],
)
def test_a_handler_that_was_too_slow_is_named_by_its_own_name_only(option: str, name: str, fits: bool) -> None:
    """TimeoutError is what a handler raises when something else was too slow."""
    options = QueueOptions(queue="q", **cast(Any, {option: (name,)}))
    ended = decide(options, 1, HandlerTimeout("it ran longer"), 0.0).delay_s is None
    assert ended == fits
    assert decide(QueueOptions(queue="q", park_on=("TimeoutError",)), 1, TimeoutError(), 0.0).delay_s is None


def test_it_is_no_outage_unless_it_is_named() -> None:
    """It may be the message that is slow. What the handler itself waits for in vain is one."""
    assert decide(QueueOptions(queue="q"), 1, HandlerTimeout("it ran longer"), 0.0).outage is None
    assert decide(QueueOptions(queue="q"), 1, TimeoutError(), 0.0).outage is not None
    named = QueueOptions(queue="q", outage=("HandlerTimeout",))
    assert decide(named, 1, HandlerTimeout("it ran longer"), 0.0).outage is not None


def test_a_handler_that_takes_longer_than_its_limit_is_interrupted_in_virtual_time() -> None:
    queue = MemoryQueue()
    queue.append(1, group="g", id="1.1")
    ended: list[float] = []
    began = queue.now

    def handle(message: Message) -> None:
        try:
            queue.advance(2.0)
            queue.advance(3600.0 if message.attempt == 1 else 1.0)
        except Exception:
            raise AssertionError("it comes as no Exception") from None
        ended.append(queue.now)

    done = queue.drain(handle, handler_timeout=5.0)
    ((message, error),) = done.failed
    assert (message.id, type(error).__name__, len(done.handled)) == ("1.1", "HandlerTimeout", 1)
    assert "longer than 5 s" in str(error)
    assert 5.0 < ended[0] - began < 10.0, "the time went on to the end of the limit"
    queue.append(1, group="g", id="1.2")
    assert queue.consume(lambda message: queue.advance(9.0), handler_timeout=10.0).handled == 1
    queue.advance(100.0)
