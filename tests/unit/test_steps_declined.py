"""When nobody is asked about a `once` step: it says that nothing happened, or its check knows what did."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import Park, SetAside
from sequencer.testing import MemoryQueue

START_IS_NOTED = 2
"""Effects of a drain until a process can die in its first step: it claims, and notes the start."""


class CardDeclined(Exception):
    pass


def bank(*answers: Any, check: Any = None, **settings: Any) -> Any:
    """A queue with one message, whose step `charge` raises these in turn, and then returns "paid"."""
    seq, left = MemoryQueue("gifts", **{"max_attempts": 2, "backoff": 1.0} | settings), list(answers)

    @seq.step(once=True, declined=(CardDeclined,))
    def charge(message: Any) -> str:
        if left:
            raise left.pop(0)
        return "paid"

    if check is not None:
        charge.check(check)
    seq.append({}, "ann", id="g1")
    return seq


def failure_of(done: Any) -> str:
    failure = done.parked[0].failure if done.parked else done.dead[0].error
    return str(failure.type)


@pytest.mark.parametrize(
    ("error", "settings", "is_dead"),
    [
        (Park("look"), {}, False),
        (SetAside("no card"), {}, True),
        (CardDeclined("no money"), {"on_failure": "dead_letter"}, True),
    ],
)
def test_a_step_that_says_that_nothing_happened_is_no_question_and_runs_again_when_asked_to(
    error: Exception, settings: Any, is_dead: bool
) -> None:
    seq = bank(error, **settings)
    done = seq.drain()
    assert [run.step for run in done.steps] == ["charge"]
    assert failure_of(done).rpartition(".")[2] == type(error).__name__
    assert bool(done.dead) is is_dead
    assert seq.steps("ann", "g1").questions == ()
    if is_dead:
        seq.redrive(everything=True)
    else:
        seq.resume("ann")
    assert len(seq.drain().handled) == 1


def test_a_check_that_ends_its_process_too_is_asked_about() -> None:
    seq = bank(check=lambda message: "paid", max_attempts=1)
    for _ in range(2):
        with pytest.raises(AssertionError):
            seq.drain(max_effects=START_IS_NOTED)
        seq.advance(60)
    done = seq.drain()
    assert not done.steps
    assert failure_of(done) == "StepUnknown"


def test_in_a_handler_that_runs_steps_a_check_is_asked_after_the_last_attempt() -> None:
    seq, left = MemoryQueue("shop", max_attempts=1), [ValueError("no answer")]

    def charge() -> None:
        raise left.pop()

    @seq.handler
    def ship(message: Any, steps: Any) -> None:
        steps.run("charge", charge, once=True, check=lambda key: "paid")

    seq.append({}, "ann")
    assert len(seq.drain().handled) == 1
