"""Handlers under a time limit, in a consumer's own loop and without its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from sequencer import Message
from sequencer.consume import interruption
from sequencer.consume.perform import Performer
from sequencer.consume.time_limit import TimeLimit
from sequencer.drain.effects import Handle

Answers = list[BaseException | None]


class Lone(Performer):
    """It asks no server."""

    def ask(self, effect: Any) -> None:
        raise AssertionError(effect)

    def invalidate(self) -> None:
        """Nothing is kept here."""


def nobody(_frame: FrameType | None) -> None:
    """Hears a signal that comes before the limit is in force, or after it."""


@pytest.fixture
def heard() -> Iterator[None]:
    """For all tests of a file: `pytestmark = pytest.mark.usefixtures("heard")`."""
    interruption.hear(nobody)
    yield
    interruption.forget(nobody)


def perform(
    limit: TimeLimit, handler: Callable[[Message], Any], messages: list[Message], took: list[float] | None = None
) -> Answers:
    """What came of each message, where a consumer's own loop runs the handler; `took`: at most how long that took."""
    took = [] if took is None else took

    def effects() -> Generator[Any, Any, Answers]:
        answers: Answers = []
        for message in messages:
            began = time.monotonic()
            answers.append((yield Handle(message)))
            took.append(time.monotonic() - began)
        return answers

    events = SimpleNamespace(released=lambda *_, **__: None)
    runner = SimpleNamespace(held=None)
    with limit.in_force():
        return Lone(handler, cast(Any, runner), cast(Any, events), limit).perform(effects())
