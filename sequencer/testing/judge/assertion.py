"""Whether messages were handled in the order of their groups, for an assertion."""

from __future__ import annotations

from collections.abc import Iterable

from ...store.group import encode_group
from ...values.message import Message
from .history import Event
from .judgement import judge


def assert_order(messages: Iterable[Message | Event]) -> None:
    """Raise AssertionError for the first message that was handled out of the order of its group.

    Takes messages in the order in which they were handled (`Drained.handled`, or a list that your handler fills), or
    the events of a `Recorder`. Within a group the order is by (score, stamp) for all that were there when the later one
    was claimed; a message that came late, or was redriven, is excused. That one is handled twice is no disorder.
    """
    events: list[Event] = []
    for number, one in enumerate(messages):
        if isinstance(one, Event):
            events.append(one)
        else:
            words = encode_group(one.group), one.id, one.score, one.stamp, one.token, one.attempt, one.redriven
            events += [Event("begun", float(number), "", *words), Event("ended", number + 0.5, "", *words)]
    judged = judge([*[event._replace(what="appending", at=-1.0) for event in events], *events])
    if judged.disorder:
        cases = [case for case in judged.cases if case.startswith(("order", "overlap", "token back"))]
        raise AssertionError(cases[0] if cases else f"{judged.disorder} violations of order")
