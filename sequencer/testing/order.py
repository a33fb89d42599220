"""Whether messages were handled in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..texts.refusals import refusal_text
from ..values.message import Message


def assert_order(messages: Iterable[Message]) -> None:
    """Raise AssertionError for the first message that was handled out of the order of its group.

    Takes messages in the order in which they were handled: `Drained.handled`, or a list that your handler fills.
    Within a group the order is by (score, stamp) for all that were there when the later one was claimed; a message that
    came late, was redriven, or was handled before is excused.
    """
    handled = defaultdict[tuple[str, ...], list[Message]](list)
    for message in messages:
        group, place = handled[message.group], (message.score, message.stamp)
        passed = next((one for one in group if (one.score, one.stamp) > place and one.token > message.stamp), None)
        is_repeat = any(one.stamp == message.stamp for one in group)
        if passed and not (message.redriven or is_repeat):
            about = {"group": message.group, "id": message.id, "other": passed.id}
            raise AssertionError(refusal_text("not_in_order", about))
        group.append(message)
