"""A handler that runs long is named: while it runs, and when a stop waits for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message
from sequencer.consume.stop import Stop
from sequencer.processes.worker.control_thread import LONG_S, SlowHandlerMonitor


def message(number: int) -> Message:
    return Message(f"m{number}", ("g", "1"), 1.0, {}, {}, 1, 1, 0.0, "q", 1)


class Fixture:
    """A consumer whose running handler the test sets, and what was told of it."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, float, bool]] = []
        self.now, self.stop = 0.0, Stop()
        self.consumer = cast(Any, SimpleNamespace(running=None, events=SimpleNamespace(emit=self._emit)))
        self.monitor = SlowHandlerMonitor(self.consumer, self.stop)

    def _emit(self, name: str, one: Message, *, runs_s: float, is_stopping: bool) -> None:
        assert name == "handler slow"
        self.told.append((self.now, one.id, runs_s, is_stopping))

    def on_tick(self, now: float) -> None:
        self.now = now
        self.monitor.on_tick(now)


@pytest.fixture
def watched() -> Fixture:
    return Fixture()


def test_it_is_told_after_a_minute_and_whenever_its_time_has_doubled(watched: Fixture) -> None:
    for number, began in ((1, 10.0), (2, 600.0)):
        watched.consumer.running = (message(number), began)
        for second in range(510):
            watched.on_tick(began + second)
    after = [60.0, 120.0, 240.0, 480.0]
    assert [(one, told, is_stopping) for told, one, _, is_stopping in watched.told] == [
        *(("m1", 10.0 + seconds, False) for seconds in after),
        *(("m2", 600.0 + seconds, False) for seconds in after),
    ]


def test_a_stop_names_what_it_waits_for(watched: Fixture) -> None:
    watched.consumer.running = (message(1), 0.0)
    watched.on_tick(30.0)
    watched.stop.at = 30.5
    for second in range(31, 80):
        watched.on_tick(float(second))
    assert watched.told == [(seconds, "m1", seconds, True) for seconds in (36.0, 42.0, 54.0, 78.0)]


@given(st.lists(st.floats(0.01, LONG_S - 3), max_size=50), st.floats(0.1, 2.0))
def test_short_handlers_are_never_told_of(runs: list[float], beat_s: float) -> None:
    watched, now = Fixture(), 0.0
    for number, seconds in enumerate(runs):
        watched.consumer.running, end = (message(number), now), now + seconds
        while now < end:
            watched.on_tick(now)
            now += beat_s
    assert watched.told == []
