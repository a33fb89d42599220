"""A signal at each instruction of a consumer and its handlers: it ends a handler that is late, and nothing else."""

from __future__ import annotations

import signal
import sys
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from sequencer import Message
from sequencer.consume import interruption, time_limit
from sequencer.consume.time_limit import TimeIsUp, TimeLimit
from sequencer.errors import HandlerTimeout

from ..support.limited import Answers, perform
from ..support.limited import heard as heard

pytestmark = pytest.mark.usefixtures("heard")
WATCHED = ("perform.py", "time_limit.py", "test_time_limit_signals.py")
LIMIT_S = 5.0
FIRST: Message = Message("m1", ("g",), 1.0, {}, {}, 1, 1, 0.0, "q", 1)
SECOND = FIRST._replace(id="m2")


class Late:
    """A handler whose first message takes too long, by a clock that only it moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.now_s, self.is_over, self.fails = 100.0, False, fails
        monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def handle(self, message: Message) -> None:
        if message is FIRST:
            self.now_s += LIMIT_S
            self.is_over = True
            self.rest(message)

    def rest(self, message: Message) -> None:
        """What the handler does once its time is over."""
        if self.fails:
            raise ValueError("its own")


LATE = (Late.handle.__code__, Late.rest.__code__)


def signalled_at(count: int, late: Late, kind: type[TimeLimit]) -> tuple[Answers, bool] | None:
    """What came of both messages with a signal at this instruction, and whether that was the handler's, too late.
    None when there are not so many.
    """
    passed, must_end = 0, False

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal passed, must_end
        if frame.f_code.co_filename.rpartition("/")[2] not in WATCHED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            passed += 1
            if passed == count:
                must_end = late.is_over and frame.f_code in LATE and frame.f_locals["message"] is FIRST
                signal.raise_signal(interruption.SIGNAL)
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        # In a generator: what Python knows of errors in progress ends with it. Between two instructions no signal of
        # the
        # real world comes, and an error that does leaves some of that behind.
        (answers,) = (perform(kind(LIMIT_S), late.handle, messages) for messages in [[FIRST, SECOND]])
    finally:
        sys.settrace(old)
    return (answers, must_end) if passed >= count else None


def problem_at(count: int, monkeypatch: pytest.MonkeyPatch, kind: type[TimeLimit], *, fails: bool) -> str | None:
    """What a signal at this instruction does wrong; "" for nothing. None when there are not so many."""
    with monkeypatch.context() as patch:
        try:
            found = signalled_at(count, Late(patch, fails=fails), kind)
        except TimeIsUp:
            return "it came into what is no handler"
    if found is None:
        return None
    (first, second), must_end = found
    if second is not None:
        return "it failed the next message"
    if must_end and not isinstance(first, HandlerTimeout):
        return "it was lost"
    own = isinstance(first, ValueError) if fails else first is None
    return "" if own or isinstance(first, HandlerTimeout) else f"the message failed with {first!r}"


def problems(monkeypatch: pytest.MonkeyPatch, kind: type[TimeLimit], *, fails: bool) -> tuple[set[str], int]:
    found, count = set(), 1
    while (problem := problem_at(count, monkeypatch, kind, fails=fails)) is not None:
        found.add(problem)
        count += 1
    return found - {""}, count


@pytest.mark.parametrize("fails", [False, True])
def test_wherever_the_signal_comes_it_ends_the_handler_that_is_late_or_nothing(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    found, count = problems(monkeypatch, TimeLimit, fails=fails)
    assert found == set()
    assert count > 200, "instructions from the first effect to the last"


class LooksAtNoFrame(TimeLimit):
    """A control: raises wherever it comes, if a handler was too slow."""

    def _on_signal(self, frame: FrameType | None) -> None:
        if self._since is not None and vars(time_limit)["time"].monotonic() - self._since >= self.seconds:
            raise TimeIsUp


class LooksAtNoClock(TimeLimit):
    """A control: raises into whichever handler runs."""

    def _on_signal(self, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is not None:
            raise TimeIsUp


class ForgetsNoRun(TimeLimit):
    """A control: what a run that was interrupted began with stays until the next one says its own."""

    def outcome(self, error: BaseException) -> BaseException:
        since = self._since
        try:
            return super().outcome(error)
        finally:
            self._since, self._is_raised = since, False


class NeverRaises(TimeLimit):
    """A control: takes no notice."""

    def _on_signal(self, frame: FrameType | None) -> None:
        return


@pytest.mark.parametrize(
    ("control", "found"),
    [
        (LooksAtNoFrame, "it came into what is no handler"),
        (LooksAtNoClock, "it failed the next message"),
        (NeverRaises, "it was lost"),
    ],
)
def test_a_control_of_it_is_found(monkeypatch: pytest.MonkeyPatch, control: type[TimeLimit], found: str) -> None:
    assert found in problems(monkeypatch, control, fails=True)[0]


@pytest.mark.parametrize(("kind", "fails"), [(TimeLimit, False), (ForgetsNoRun, True)])
def test_a_second_signal_for_a_handler_that_ended_does_not_end_the_next(
    monkeypatch: pytest.MonkeyPatch, kind: type[TimeLimit], fails: bool
) -> None:
    """It comes as soon as the frame is there that runs the next one, and before that knows the time."""
    late = Late(monkeypatch)
    limit = kind(LIMIT_S)

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "call" and frame.f_code is limit._code:
            signal.raise_signal(interruption.SIGNAL)
        return None

    monkeypatch.setattr(late, "rest", lambda _message: signal.raise_signal(interruption.SIGNAL))
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        first, second = perform(limit, late.handle, [FIRST, SECOND])
    finally:
        sys.settrace(old)
    assert isinstance(first, HandlerTimeout)
    assert isinstance(second, HandlerTimeout) == fails
