"""The simulation with steps: sound code passes, and negative control are caught, each by its own problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from sequencer.drain.steps import passes, rules
from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner
from sequencer.store.ledger import step_key

from ..support.changed_script import changed_script
from .simulate.seed import Ground, play_seed, stage_set
from .test_simulate_controls import changed

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with stage_set() as ground:
        yield ground


def test_sound_code_passes(ground: Ground) -> None:
    for seed in {control.seed for *_, control in [*IN_CODE.values(), *IN_SCRIPTS.values()]}:
        played = play_seed(ground, seed, steps=True)
        assert not played.problems, f"seed {seed}: {played.problems}"
        assert played.play.steps
        assert played.judgement.messages


def test_same_seed_same_trace(ground: Ground) -> None:
    """Of one whose handlers run their steps as they go."""
    once, again = (play_seed(ground, 4, steps=True) for _ in range(2))
    assert once.play.is_inline
    assert once.trace == again.trace
    assert not once.problems
    assert sum(" step " in line for line in once.trace) > 50


def _unwaited(self: StepRunner, group: Any, asked: Any) -> Any:
    """A pass that goes on without its note."""
    yield from ()
    return 1


def _is_open(real: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, step: real(self, step) or self.entry(step.name).state == "started"


def _key_of_the_try(real: Callable[..., str]) -> Callable[..., str]:
    return lambda *given: f"{real(*given)}{given[-1].attempts}"


SEEDS_FOR_A_CONTROL = 40
"""A change of the library moves what a seed shows."""


class Control(NamedTuple):
    """What a problem must say, and a seed that showed it, to begin with: `python -m` of this file searches them."""

    reason: str
    seed: int


IN_CODE: dict[str, tuple[Any, str, Any, Control]] = {
    "goes on without a note": (StepRunner, "_note", _unwaited, Control("not noted: ", 0)),
    "once as automatic": (View, "is_open", _is_open(View.is_open), Control("runs once", 0)),
    "an acknowledgement with an open step": (View, "is_finished", property(lambda view: True), Control("skipped: ", 5)),
    "a question is given up": (rules, "questions", lambda ledger: [], Control("question lost: ", 5)),
    "another key for each attempt": (passes, "step_key", _key_of_the_try(step_key), Control("another key: ", 0)),
}
TOKEN = "if not held or sub(held, 1, 16) ~= token then return 0 end"
LEDGER = "with the ledger"
IN_SCRIPTS: dict[str, tuple[str, str, str, Control]] = {
    "a note without its token": ("note", TOKEN, "", Control("note of group", 0)),
    "progress that counts for nothing": ("note", "progressed and '0' or ''", "''", Control("claimed as tried", 6)),
    "an answer that is not written": ("resume", "(record, '0', ledger)", "(record, '0', '')", Control(LEDGER, 5)),
    "a letter that loses its ledger": ("redrive", "'R', '', known)", "'R', '', '')", Control(LEDGER, 0)),
}


def is_caught(ground: Ground, name: str, seed: int) -> bool:
    """Whether this seed shows what is wrong with the control."""
    *what, control = IN_CODE[name] if name in IN_CODE else IN_SCRIPTS[name]
    with (changed if name in IN_CODE else changed_script)(*what):
        return any(control.reason in problem for problem in play_seed(ground, seed, steps=True).problems)


@pytest.mark.parametrize("name", [*IN_CODE, *IN_SCRIPTS])
def test_broken_control_is_caught_for_its_reason(ground: Ground, name: str) -> None:
    *_, control = IN_CODE[name] if name in IN_CODE else IN_SCRIPTS[name]
    seeds = range(control.seed, control.seed + SEEDS_FOR_A_CONTROL)
    assert any(is_caught(ground, name, seed) for seed in seeds), f"{SEEDS_FOR_A_CONTROL} seeds did not catch it"


if __name__ == "__main__":
    with stage_set() as stage:
        for one in (*IN_CODE, *IN_SCRIPTS):
            print(f"{one}: {next((seed for seed in range(100) if is_caught(stage, one, seed)), None)}")
