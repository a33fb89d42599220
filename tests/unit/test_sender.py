"""Attempts, time limits and what is told of failures: a thread for each target, which nothing ends or holds up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import pytest

from sequencer.processes.alerts import sender as module
from sequencer.processes.alerts.notice import DeliveryFailed, Notice
from sequencer.processes.alerts.sender import ALL_ATTEMPTS_S, ATTEMPTS, BETWEEN_S, MAX_WAITING, Sender
from sequencer.processes.alerts.targets import Target
from sequencer.testing import wait_until

from ..support.notices import notice

PATIENCE_S = 30.0
NEVER = float("inf")
CANARY = "canary-7f3a"


class Scene:
    """A target that does what it is told, its sender, and what became of it."""

    name, kind = "ops", "webhook"
    made: ClassVar[list[Scene]] = []

    def __init__(self, *acts: Callable[[], Any], timeout_s: float = 5.0) -> None:
        self.acts, self.timeout_s = list(acts), timeout_s
        self.seen: list[int] = []
        """Numbers of the notices that were tried."""
        self.sent: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.sender = Sender(cast(Target, self), self.fail)
        self.made.append(self)

    def send(self, told: Notice) -> None:
        self.seen.append(told.number)
        if self.acts:
            self.acts.pop(0)()

    def fail(self, name: str, error: DeliveryFailed) -> None:
        self.failed.append((name, error.code))
        self.last = error.fields

    def offer(self, number: int = 0, until: float = NEVER, on_sent: Callable[[], Any] | None = None) -> bool:
        then = on_sent or (lambda: self.sent.append(f"{number} by {threading.current_thread().name}"))
        return self.sender.offer(until, notice(number=number), then)

    def wait_idle(self) -> None:
        wait_until(lambda: self.sender.is_idle, PATIENCE_S, "all is sent or given up")


def refuse(code: str = "apprise_failed") -> Callable[[], None]:
    return breaks(DeliveryFailed(code))


def breaks(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No pause between attempts; and no thread is left."""
    monkeypatch.setattr(module, "BETWEEN_S", 0.001)
    yield
    while Scene.made:
        Scene.made.pop().sender.close()


@pytest.fixture
def admission() -> Iterator[threading.Event]:
    """For targets that hang: open at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_notices_are_sent_in_order_and_noted_in_the_thread_of_the_sender() -> None:
    scene = Scene()
    assert all(scene.offer(number) for number in range(3))
    scene.wait_idle()
    assert scene.sent == [f"{number} by alerts to ops" for number in range(3)]
    assert (scene.seen, scene.failed) == ([0, 1, 2], [])


def test_a_try_that_fails_is_made_again_and_told_only_when_none_is_left() -> None:
    scene = Scene(refuse(), refuse(), lambda: None)
    scene.offer()
    scene.wait_idle()
    assert (scene.seen, scene.sent, scene.failed) == ([0] * ATTEMPTS, ["0 by alerts to ops"], [])


def test_a_failure_is_told_once_until_a_notice_is_taken_again() -> None:
    scene = Scene(*[refuse("a")] * 6, *[refuse("b")] * 3, lambda: None, *[refuse("a")] * 3)
    for number in range(5):
        scene.offer(number)
    scene.wait_idle()
    assert scene.failed == [("ops", "a"), ("ops", "b"), ("ops", "a")]
    assert scene.sent == ["3 by alerts to ops"]


def test_a_notice_whose_time_is_over_is_not_sent() -> None:
    scene = Scene()
    scene.offer(0, until=time.monotonic())
    scene.offer(1)
    scene.wait_idle()
    assert (scene.seen, scene.failed) == ([1], [("ops", "alert_too_late")])


def test_no_try_begins_that_could_end_after_the_time_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ALL_ATTEMPTS_S", PATIENCE_S)
    scene = Scene(refuse(), lambda: None, timeout_s=PATIENCE_S)
    scene.offer()
    scene.wait_idle()
    assert (scene.seen, scene.failed) == ([0], [("ops", "apprise_failed")])


def test_the_attempts_fit_into_the_right_to_send() -> None:
    """Three of the usual 5 s, and never more than 18 s of the 30."""
    assert 3 * 5 + 2 * BETWEEN_S <= ALL_ATTEMPTS_S < 30


def test_a_target_that_hangs_holds_nobody_else(admission: threading.Event) -> None:
    hanging, other = Scene(admission.wait), Scene()
    hanging.offer(0)
    hanging.offer(1)
    other.offer()
    other.wait_idle()
    assert len(other.sent) == 1
    wait_until(lambda: hanging.seen, PATIENCE_S, "it is asked")
    assert hanging.seen == [0]
    assert all(one.daemon for one in threading.enumerate() if one.name == "alerts to ops"), "the process may end"
    admission.set()
    hanging.wait_idle()
    assert len(hanging.sent) == 2


@pytest.mark.parametrize("error", [ValueError(CANARY), SystemExit(CANARY)])
@pytest.mark.parametrize("is_noted", [False, True])
def test_what_nobody_foresaw_is_told_by_type_and_place_only(error: BaseException, is_noted: bool) -> None:
    """Of a target, or of what notes that it was sent."""
    scene = Scene(*[breaks(error)] * (0 if is_noted else 3))
    scene.offer(0, on_sent=breaks(error) if is_noted else None)
    scene.offer(1)
    scene.wait_idle()
    assert scene.failed == [("ops", "alert_unforeseen")]
    assert scene.last == {"type": type(error).__name__, "file": "test_sender.py", "line": scene.last["line"]}
    assert scene.sent == ["1 by alerts to ops"]


def test_so_many_wait_and_no_more(admission: threading.Event) -> None:
    scene = Scene(admission.wait, timeout_s=PATIENCE_S)
    scene.offer()
    wait_until(lambda: scene.seen, PATIENCE_S)
    assert [scene.offer(number) for number in range(MAX_WAITING + 1)] == [True] * MAX_WAITING + [False]


def test_a_closed_sender_sends_nothing_more(admission: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scene, "name", "closed")
    scene = Scene(admission.wait, timeout_s=PATIENCE_S)
    scene.offer(0)
    scene.offer(1)
    wait_until(lambda: scene.seen, PATIENCE_S)
    scene.sender.close()
    assert not scene.offer(2)
    admission.set()
    wait_until(lambda: "alerts to closed" not in {one.name for one in threading.enumerate()}, PATIENCE_S, "it ends")
    assert scene.seen == [0]
