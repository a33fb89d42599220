"""Does on a link what the steps of `drain.inflight` ask. Every shell of a consumer uses this."""

from __future__ import annotations

from typing import Any, TypeVar

from ..drain.effects import Close, Collect, IsAnswered, Post, SendAndWait, Steps
from ..drain.inflight import InFlight
from ..errors import SequencerError
from ..net.link import Link

T = TypeVar("T")


def carry_out(steps: Steps[T], in_flight: InFlight, link: Link) -> T:
    """Do these steps of `in_flight`; returns what they return. Raises SequencerError."""
    resume, answer = steps.send, None
    try:
        while True:
            effect = resume(answer)
            try:
                resume, answer = steps.send, _do(effect, link)
            except BaseException as error:
                resume, answer = steps.throw, error
    except StopIteration as end:
        result: T = end.value
        return result
    except SequencerError:
        raise  # the steps know of it, and have noted what it means
    except BaseException:  # an interrupt may come between two effects: an answer may be half taken in
        steps.close()
        in_flight.lose()
        link.close()
        raise


def _do(effect: Any, link: Link) -> Any:
    kind = type(effect)
    if kind is SendAndWait:
        results = link.run(effect.calls, in_order=effect.in_order)
        return results, link.is_repeat
    if kind is Collect:
        return link.collect(effect.calls)
    if kind is Post:
        return link.post(effect.calls, in_order=effect.in_order)
    if kind is IsAnswered:
        return link.is_answered(effect.within_s)
    assert kind is Close
    return link.close()
