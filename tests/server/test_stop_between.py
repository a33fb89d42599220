"""A stop that comes between two handlers, in the moment before the next one begins."""

from __future__ import annotations

from typing import Any

from sequencer import Sequencer
from sequencer.consume.stop import Stop
from sequencer.settings.options import ConsumerOptions


def test_stage_2_just_before_a_handler_begins_is_not_lost(seq: Sequencer) -> None:
    begun: list[Any] = []
    seq.append("x", group="g", id="1")
    consumer = seq.consumer(begun.append, ConsumerOptions())
    consumer.on_first = consumer.interrupt  # in a signal handler, where the drain has asked for the handler already
    summary = consumer.run()
    assert (summary.reason, summary.handled, summary.failed) == ("stopped", 0, 0)
    assert begun == []
    (message,) = seq.peek(["g"])
    assert message.attempt == 1, "released uncounted"


def test_a_stage_does_not_go_back() -> None:
    """A signal that means stage 1 may be noted by one thread while another notes stage 2."""
    stop = Stop()
    stop.request(2)
    stop.request(1)
    assert stop.stage == 2

    class Late(int):
        def __gt__(self, other: object) -> bool:  # the other thread comes just then
            raced.request(2)
            return isinstance(other, int) and int(self) > int(other)

        __lt__ = __le__ = __ge__ = __gt__

    raced = Stop()
    raced.request(Late(1))
    assert raced.stage == 2
