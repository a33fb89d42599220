"""The time limit of a handler: when it interrupts, whom, and what it leaves behind."""

from __future__ import annotations

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message
from sequencer.consume.time_limit import IGNORED_S, REPEAT_S, ThreadTimeLimit, TimeIsUp, TimeLimit
from sequencer.errors import ConfigurationError, HandlerTimeout, StopConsuming
from sequencer.testing import wait_until

from ..support.limited import heard as heard
from ..support.limited import perform
from ..support.refused import refused

pytestmark = pytest.mark.usefixtures("heard")
LIMIT_S = 5.0
FIRST: Message = Message("m1", ("g",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)


TINY_S = 0.0005


class Beside:
    """Looks without a pause, as a renewer that has nothing else to do."""

    def __init__(self, limit: TimeLimit) -> None:
        self.limit, self.is_over = limit, False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.is_over:
            self.limit.check(time.monotonic())
            time.sleep(0)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        self._thread.join()


class Counting(TimeLimit):
    """Takes down when it would interrupt."""

    def __init__(self, raises_at: int | None = None) -> None:
        super().__init__(LIMIT_S)
        self.sent: list[float] = []
        self.now, self.raises_at = 0.0, raises_at

    def _interrupt(self) -> None:
        self.sent.append(self.now)
        self._is_raised = len(self.sent) == self.raises_at

    def at(self, now: float) -> bool:
        self.now = now
        return self.check(now)


@given(st.lists(st.floats(0.0005, 1.0), min_size=1, max_size=200), st.none() | st.integers(1, 3))
def test_it_is_interrupted_when_it_is_late_again_until_that_took_effect_and_told_once(
    ticks: list[float], raises_at: int | None
) -> None:
    limit, now, stuck = Counting(raises_at), 0.0, []
    limit._since = 0.0
    for tick in ticks:
        now += tick
        if limit.at(now):
            stuck.append(now)
    assert all(sent >= LIMIT_S for sent in limit.sent)
    assert bool(limit.sent) == (now >= LIMIT_S)
    assert all(after - before >= REPEAT_S - 1e-9 for before, after in zip(limit.sent, limit.sent[1:], strict=False))
    assert raises_at is None or len(limit.sent) <= raises_at
    assert len(stuck) == bool(limit.sent and now >= limit.sent[0] + IGNORED_S)
    assert all(one >= limit.sent[0] + IGNORED_S for one in stuck)


def test_a_program_that_has_the_signal_is_told_at_the_start() -> None:
    old = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        with refused(ConfigurationError, "signal_taken", signal="SIGUSR2", limit_s=5):
            perform(TimeLimit(LIMIT_S), lambda message: None, [FIRST])
    finally:
        signal.signal(signal.SIGUSR2, old)


def test_a_signal_that_comes_when_all_is_over_is_no_harm() -> None:
    assert perform(TimeLimit(LIMIT_S), lambda message: None, [FIRST]) == [None]
    signal.raise_signal(signal.SIGUSR2)


@pytest.mark.slow
def test_one_that_swallows_it_is_handled_when_it_ends_and_is_not_interrupted_twice() -> None:
    limit, swallowed = TimeLimit(TINY_S), []

    def handle(message: Message) -> None:
        for _ in range(3):
            try:
                wait_until(lambda: False, 0.2)
            except TimeIsUp as error:
                swallowed.append(error)
            except AssertionError:
                continue

    with Beside(limit):
        assert perform(limit, handle, [FIRST]) == [None]
    assert len(swallowed) == 1


def test_outside_the_main_thread_there_is_none() -> None:
    with ThreadPoolExecutor(1) as pool, refused(ConfigurationError, "main_thread_needed"):
        pool.submit(lambda: TimeLimit(1.0).in_force().__enter__()).result()


@pytest.mark.slow
@pytest.mark.parametrize("stops", [False, True])
def test_handlers_in_another_thread_are_interrupted_there_and_nothing_else_is(stops: bool) -> None:
    """Handlers that take about their limit, or about as long as a stop takes to come."""
    limit, count = ThreadTimeLimit(None if stops else TINY_S), 2_000
    took, done = list[float](), list[BaseException | None]()
    stop = threading.Event()

    def handle(message: Message) -> None:
        began = time.monotonic()
        while time.monotonic() - began < TINY_S * (0.5 + len(took) % 16 / 12):
            pass

    def interrupt() -> None:
        while not stop.wait(TINY_S):
            limit.interrupt()

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    other = threading.Thread(target=interrupt)
    thread = threading.Thread(target=lambda: done.extend(perform(limit, handle, [FIRST] * count, took)))
    try:
        with Beside(limit):
            if stops:
                other.start()
            thread.start()
            thread.join()
    finally:
        sys.setswitchinterval(switch_s)
        stop.set()
        if stops:
            other.join()
    kind = StopConsuming if stops else HandlerTimeout
    assert {type(one) for one in done} == {kind, type(None)}
    assert len(done) == count
    assert 100 < sum(one is None for one in done) < count - 100
    assert stops or not [at for at, one in zip(took, done, strict=True) if one and at < TINY_S], "before its time"
