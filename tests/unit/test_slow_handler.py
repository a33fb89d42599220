"""A handler that runs long is named: while it runs, and when a stop waits for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message
from sequencer.consume.stop import Stop
from sequencer.drain.consumer_events import runs_long
from sequencer.processes.worker.slow_handler import LONG_S, SlowHandlerMonitor
from sequencer.settings.options import QueueOptions


def message(number: int) -> Message:
    return Message(f"m{number}", ("g", "1"), 1.0, {}, {}, 1, 1, 0.0, "q", 1)


class Fixture:
    """A consumer whose running handler the test sets, and what was told of it."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, float, bool]] = []
        self.now, self.stop = 0.0, Stop()
        self.consumer = cast(Any, SimpleNamespace(running=None, events=SimpleNamespace(runs_long=self._runs_long)))
        self.monitor = SlowHandlerMonitor(self.consumer, self.stop)

    def _runs_long(self, one: Message, seconds: float, *, is_stopping: bool) -> None:
        self.told.append((self.now, one.id, round(seconds, 3), is_stopping))

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


def test_the_line_names_what_shows_it_and_what_ends_it() -> None:
    options = QueueOptions(queue="orders", namespace="shop")
    told = runs_long(options, "host.example:4711:0000ff", message(1), 10.0, is_stopping=False)
    assert told.fields["see"] == "sequencer explain orders g 1 --namespace shop"
    assert told.fields["fix"] == "kill -KILL 4711"
    assert "for 10 s; see: sequencer explain orders g 1" in told.text
    assert "if it hangs, end its process: kill -KILL 4711 (--handler-timeout sets a limit): that" in told.text
    assert told.text.endswith(
        "to take m1 away instead, in this order: sequencer pause orders g 1 --namespace shop; on host.example: kill "
        "-KILL 4711; once its lease ran out: sequencer skip orders g 1 --id m1 --dead-letter --namespace shop; "
        "sequencer unpause orders g 1 --namespace shop"
    )


def test_a_stop_names_what_it_waits_for(watched: Fixture) -> None:
    watched.consumer.running = (message(1), 0.0)
    watched.on_tick(30.0)
    watched.stop.at = 30.5
    for second in range(31, 80):
        watched.on_tick(float(second))
    assert watched.told == [
        (36.0, "m1", 36.0, True),
        (42.0, "m1", 42.0, True),
        (54.0, "m1", 54.0, True),
        (78.0, "m1", 78.0, True),
    ]


@given(st.lists(st.floats(0.01, LONG_S - 3), max_size=50), st.floats(0.1, 2.0))
def test_short_handlers_are_never_told_of(runs: list[float], beat_s: float) -> None:
    watched, now = Fixture(), 0.0
    for number, seconds in enumerate(runs):
        watched.consumer.running, end = (message(number), now), now + seconds
        while now < end:
            watched.on_tick(now)
            now += beat_s
    assert watched.told == []
