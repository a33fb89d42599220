"""Order within a group is by message, then by step. What gets in front, and what comes back, runs in its own place."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.drain.steps.rules import View
from sequencer.testing import MemoryQueue


def ran_with_one_in_front() -> list[str]:
    """Message and step, in their order: m1 arrives while m2 waits behind a failure of its second step."""
    seq = MemoryQueue("gifts", max_attempts=3)

    @seq.step(order=1)
    def charge(message: Any) -> None: ...

    @seq.step(order=2)
    def points(message: Any, step: Any) -> None:
        if message.id == "m2" and step.attempt == 1:
            seq.append({}, "ann", id="m1", score=1)
            raise ValueError("no")

    for number in (2, 3):
        seq.append({}, "ann", id=f"m{number}", score=number)
    return [f"{run.message.id} {run.step}" for run in seq.drain().steps]


IN_FRONT = [
    *("m2 charge", "m2 points", "m1 charge", "m1 points", "m2 points"),
    *("m3 charge", "m3 points"),
]


def test_what_gets_in_front_of_half_done_work_runs_first_and_the_ledger_stays_with_its_message() -> None:
    assert ran_with_one_in_front() == IN_FRONT


def test_an_acknowledgement_of_a_pass_with_an_open_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "is_finished", property(lambda view: True))
    ran = ran_with_one_in_front()
    assert ran != IN_FRONT
    assert ran.count("m2 points") == 1, "it failed, and its message is gone"


@pytest.mark.parametrize("on_unresolved", ["park", "dead_letter"])
def test_what_comes_back_runs_its_open_steps_before_what_lies_behind_it(on_unresolved: Any) -> None:
    """Half-done messages that a policy, or a person, set aside."""
    seq: Any = MemoryQueue("gifts", max_attempts=1, on_failure="dead_letter", on_unresolved=on_unresolved)
    broken = {"m1": "points", "m2": "label"}
    for order, name in enumerate(("charge", "points", "label")):

        def step(message: Any, call: Any) -> None:
            if broken.get(message.id) == call.name:
                raise ValueError("no")

        seq.step(name=name, order=order, once=name == "label")(step)
    for number in (1, 2, 3):
        seq.append({}, "ann", id=f"m{number}", score=number)
    first = seq.drain()
    assert [run.message.id for run in first.steps] == ["m1"] * 3 + ["m2"] * 3 + ["m3"] * 3 * (on_unresolved != "park")
    broken.clear()
    for number in (4, 5):
        seq.append({}, "ann", id=f"m{number}", score=number)
    assert seq.redrive(error="ValueError").redriven == 1
    if on_unresolved == "park":
        assert seq.resume("ann", again=["label"])
    else:
        assert seq.redrive(id="m2", again=["label"]).redriven == 1
    ran = [f"{run.message.id} {run.step}" for run in seq.drain().steps]
    behind = ("m4", "m5") if on_unresolved == "dead_letter" else ("m3", "m4", "m5")
    rest = [f"{id} {name}" for id in behind for name in ("charge", "points", "label")]
    assert ran == ["m1 points", "m2 label", *rest]
