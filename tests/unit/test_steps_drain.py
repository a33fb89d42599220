"""The real drain with steps, in virtual time, with links that lose requests and replies: what runs again, and when."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

import sequencer.drain.protocol
from sequencer.drain.batch import BatchSize
from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner

from ..support.model.shard import ModelShard
from ..support.steps_machine import StepsMachine
from .test_drain import SEARCH, SETTINGS


@pytest.fixture(autouse=True)
def _begin_with_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs here are too short for a batch to grow by itself."""
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(BatchSize, messages=8))


@pytest.mark.slow
def test_runs_with_steps_keep_the_order_and_repeat_nothing() -> None:
    run_state_machine_as_test(StepsMachine, settings=SETTINGS)


class NotesNothing(ModelShard):
    """A note is answered and not written."""

    def save_step(self, *words: Any) -> int:
        kept = {group: dict(bodies) for group, bodies in self.bodies.items()}
        code = super().save_step(*words)
        for group, bodies in kept.items():
            self.bodies[group].update(bodies)
        return code


@pytest.mark.nightly
def test_a_shard_that_keeps_no_ledger_is_caught() -> None:
    machine = type("Control", (StepsMachine,), {"shard_class": NotesNothing})
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(machine, settings=SEARCH)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["goes on without a note", "once as automatic"])
def test_a_broken_engine_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "once as automatic":
        is_open = View.is_open
        state = "started"
        monkeypatch.setattr(
            View, "is_open", lambda self, one: is_open(self, one) or self.entry(one.name).state == state
        )
    else:

        def unwaited(self: Any, *asked: Any, **about: Any) -> Any:
            yield from ()
            return 1

        monkeypatch.setattr(StepRunner, "note", unwaited)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(StepsMachine, settings=SEARCH)
