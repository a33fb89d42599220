"""Ten independent things after a gift, each with an outcome of its own: what `queue` and `queue_task` were for (003).

To run it: `sequencer consume gifts -n 4 --app gift_compensation:seq`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sequencer import Message, Receipt, Sequencer

Params = dict[str, Any]
Method = Callable[[str, Params], Any]

seq = Sequencer(
    "gifts",
    group_by=("gift",),  # entries were independent of one another; for gifts in order see docs/from-older-systems.md
    id_by="gift",
    max_attempts=3,
    history_window=3 * 86_400,  # successes; what failed stays until a person says what becomes of it
)


class NotTrue(Exception):
    """A method did not return True."""


def fail_on_false(method: Method) -> Callable[[Message], bool]:
    """Anything but True was a failure there."""

    @functools.wraps(method)
    def call(message: Message) -> bool:
        if (answer := method(message.id, message.body["params"])) is not True:
            raise NotTrue(f"returned {answer!r}")
        return True

    return call


def auto(method: Method) -> Method:
    """A method that is tried up to three times."""
    seq.step(fail_on_false(method))
    return method


def manual(method: Method) -> Method:
    """A method that runs at most once. If it fails, or its end is not known, a person is asked."""
    seq.step(once=True)(fail_on_false(method))
    return method


def create_queue(id: str, params: Params, seconds: float = 0) -> Receipt:
    """Add a gift, to be handled in so many seconds. Repeating is harmless."""
    return seq.append({"gift": id, "params": params}, delay=seconds or None)


def run_again(id: str, *, done: Mapping[str, Any] | None = None, again: tuple[str, ...] = ()) -> bool:
    """Run what is not done of a gift again, after a repair: up to three attempts each. `done` and `again` answer for
    manual methods.
    """
    return seq.resume(id, done=done, again=again)


def call_service(name: str, id: str, params: Params) -> bool:
    """What stands here for the services of the shop."""
    print(f"{id}: {name}")
    return True


@manual
def debit(id: str, params: Params) -> bool:
    return call_service("debit", id, params)


@auto
def income(id: str, params: Params) -> bool:
    return call_service("income", id, params)


@auto
def points(id: str, params: Params) -> bool:
    return call_service("points", id, params)


@auto
def level(id: str, params: Params) -> bool:
    return call_service("level", id, params)


@auto
def ranking(id: str, params: Params) -> bool:
    return call_service("ranking", id, params)


@auto
def badge(id: str, params: Params) -> bool:
    return call_service("badge", id, params)


@auto
def statistics(id: str, params: Params) -> bool:
    return call_service("statistics", id, params)


@auto
def notice(id: str, params: Params) -> bool:
    return call_service("notice", id, params)


@auto
def invoice(id: str, params: Params) -> bool:
    return call_service("invoice", id, params)


@manual
def text_message(id: str, params: Params) -> bool:
    return call_service("text_message", id, params)
