"""A handler that runs long is named: while it runs, when a stop waits for it, and when its consumer dies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message
from sequencer.consume.stop import Stop
from sequencer.processes.worker.long_run import LONG_S, SEEN_S, STOPPING_S, LongRun


def message(number: int) -> Message:
    return Message(f"m{number}", ("g", "1"), 1.0, {}, {}, 1, 1, 0.0, "q", 1)


class Watched:
    """A consumer whose running handler the test sets, and what was told of it."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, float, bool]] = []
        self.reports: list[str] = []
        self.now, self.stop = 0.0, Stop()
        self.consumer: Any = SimpleNamespace(running=None, events=SimpleNamespace(runs_long=self._tell))
        self.long_run = LongRun(self.consumer, self.stop, lambda event: self.reports.append(event["what"]) or True)

    def _tell(self, one: Message, seconds: float, *, is_stopping: bool) -> None:
        self.told.append((self.now, one.id, round(seconds, 3), is_stopping))

    def look(self, now: float) -> None:
        self.now = now
        self.long_run.look(now)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_is_told_after_a_minute_and_whenever_its_time_has_doubled(watched: Watched) -> None:
    watched.consumer.running = (message(1), 10.0)
    for second in range(10, 520):
        watched.look(float(second))
    assert [told for told, *_ in watched.told] == [70.0, 130.0, 250.0, 490.0]
    assert {(one, is_stopping) for _, one, _, is_stopping in watched.told} == {("m1", False)}


def test_a_stop_names_what_it_waits_for(watched: Watched) -> None:
    watched.consumer.running = (message(1), 0.0)
    watched.look(30.0)
    watched.stop.at = 30.5
    for second in range(31, 80):
        watched.look(float(second))
    assert watched.told == [
        (36.0, "m1", 36.0, True),
        (42.0, "m1", 42.0, True),
        (54.0, "m1", 54.0, True),
        (78.0, "m1", 78.0, True),
    ]


@given(st.lists(st.floats(0.01, LONG_S - 1), max_size=50), st.floats(0.1, 2.0))
def test_short_handlers_are_never_told_of(runs: list[float], beat_s: float) -> None:
    watched, now = Watched(), 0.0
    for number, seconds in enumerate(runs):
        watched.consumer.running, end = (message(number), now), now + seconds
        while now < end:
            watched.look(now)
            now += beat_s
    assert watched.told == []


def test_the_supervisor_knows_the_message_of_a_handler_that_takes_a_while(watched: Watched) -> None:
    watched.consumer.running = (message(1), 1.0)
    watched.look(1.0 + SEEN_S / 2)
    assert watched.reports == []
    watched.look(1.0 + SEEN_S)
    watched.look(3.0)
    assert watched.reports == ["group=g 1 id=m1"]
    watched.consumer.running = (message(2), 3.5)
    watched.look(3.6)
    assert watched.reports[1:] == [""], "it is over; the next one has only begun"
    watched.consumer.running = None
    watched.look(20.0)
    assert len(watched.reports) == 2
    assert STOPPING_S < LONG_S
