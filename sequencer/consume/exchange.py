"""Does on a link what an exchange of `drain.inflight` asks. Every shell of a consumer uses this."""

from __future__ import annotations

from typing import Any, TypeVar

from ..drain.effects import Close, Collect, Exchange, IsAnswered, Post, SendAndWait
from ..drain.inflight import InFlight
from ..errors import SequencerError
from ..net.link import Link

T = TypeVar("T")


def carry_out(exchange: Exchange[T], in_flight: InFlight, link: Link) -> T:
    """Do this exchange of `in_flight`; returns what it returns. Raises SequencerError."""
    resume, answer = exchange.send, None
    try:
        while True:
            effect = resume(answer)
            try:
                resume, answer = exchange.send, _do(effect, link)
            except BaseException as error:
                resume, answer = exchange.throw, error
    except StopIteration as end:
        result: T = end.value
        return result
    except SequencerError:
        raise  # the exchange knows of it, and has noted what it means
    except BaseException:  # an interrupt may come between two effects: an answer may be half taken in
        exchange.close()
        in_flight.lose()
        link.close()
        raise


def _do(effect: Any, link: Link) -> Any:
    kind = type(effect)
    if kind is SendAndWait:
        waits = {} if effect.wait is None else {"wait": effect.wait}
        results = link.run(effect.calls, **waits)
        return results, link.is_repeat, link.confirmed if waits else 0
    if kind is Collect:
        return link.collect(effect.calls)
    if kind is Post:
        return link.post(effect.calls)
    if kind is IsAnswered:
        return link.is_answered(effect.within_s)
    assert kind is Close
    return link.close()
