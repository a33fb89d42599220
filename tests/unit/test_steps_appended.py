"""Messages that are appended with steps already done: half-done work that another system began."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import BatchRefused, EffectsSaved, InvalidMessage
from sequencer.testing import MemoryQueue

PAID = {"charge": {"payment": "p9"}}


def gifts(**settings: Any) -> tuple[Any, list[Any]]:
    seq, ran = MemoryQueue("gifts", **settings), list[Any]()

    @seq.step(order=1, once=True)
    def charge(message: Any) -> None:
        ran.append("charge")

    @seq.step(order=2, after="charge")
    def points(message: Any, step: Any) -> None:
        ran.append(("points", step.result))

    return seq, ran


def test_a_step_that_was_done_before_does_not_run_and_hands_on_its_result() -> None:
    seq, ran = gifts()
    assert not seq.append({}, "ann", id="g1", done=PAID).duplicate
    assert seq.append({}, "ann", id="g1", done=PAID).duplicate
    seq.append_many([{"body": {}, "group": "bob", "id": "g2", "done": {"charge": None}}])
    seq.append({}, "cy", id="g3", delay=60, done=PAID)
    (step,) = seq.steps("ann").steps
    assert (step.name, step.state, step.who, step.result) == ("charge", "done", "producer", {"payment": "p9"})
    with pytest.raises(EffectsSaved):
        seq.cancel("ann", "g1")
    assert len(seq.drain().handled) == 3
    assert ran == [("points", {"payment": "p9"}), ("points", None), ("points", {"payment": "p9"})]


def test_each_append_gives_its_steps_keys_of_their_own() -> None:
    seq, keys = gifts(dedup_window=0)[0], set()
    for _ in range(2):
        seq.append({}, "ann", id="g1", done=PAID)
        keys |= {run.key for run in seq.drain().steps}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "done", [["charge"], {"": 1}, {"(handler)": 1}, {"charge": object()}, {"charge": "x" * 20_000}]
)
def test_what_is_no_step_or_no_result_is_refused(done: Any) -> None:
    seq, _ = gifts()
    with pytest.raises(InvalidMessage):
        seq.append({}, "ann", done=done)
    with pytest.raises(BatchRefused):
        seq.append_many([{"body": {}, "group": "ann", "done": done}])
