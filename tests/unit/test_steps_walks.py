"""Walks over the rules of steps: nothing is charged twice, skipped, lost or held for ever. Each rule is needed.

`python -m tests.unit.test_steps_walks` searches the walk of each control anew, after the walks themselves were changed.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..support.examples import IS_NIGHTLY, examples
from ..support.steps_model.controls import CONTROLS
from ..support.steps_model.moods import FAULTS
from ..support.steps_model.rules import Rules
from ..support.steps_model.shard import Shard
from ..support.steps_model.walk import LINES, Walk

WALKS = 900

PLOTS = st.dictionaries(st.integers(0, LINES - 1), st.sampled_from(sorted(FAULTS)), max_size=25)


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), PLOTS)
def test_no_walk_that_hypothesis_finds_breaks_a_promise(seed: int, plot: dict[int, str]) -> None:
    """A plot says what goes wrong at which line."""
    assert Walk(random.Random(seed), plot=plot).run() == []


@pytest.mark.parametrize("name", CONTROLS)
def test_without_a_rule_its_walk_goes_wrong(name: str) -> None:
    """And with it the same walk is sound."""
    seed = CONTROLS[name].seed
    assert seed < WALKS, "it is among those that are searched"
    assert is_wrong(name, seed), "the walks were changed: run `python -m tests.unit.test_steps_walks`"
    assert Walk(random.Random(seed)).run() == []


def is_wrong(name: str, seed: int) -> bool:
    """Whether the walk breaks the promise that the rule is for."""
    control = CONTROLS[name]
    return any(text.startswith(control.breaks) for text in walked(seed, control.rules(), control.shard()))


def walked(seed: int, rules: Rules, shard: Shard) -> list[str]:
    """What a walk shows first; one that the missing rule ends in an error of the model shows nothing."""
    try:
        return Walk(random.Random(seed), rules=rules, shard=shard).run()[:1]
    except StopIteration:
        return []


@pytest.mark.slow
def test_walks_of_chance_break_no_promise_and_come_to_every_corner() -> None:
    """No line of the product runs here: before a merge a few of them will do."""
    seen: set[str] = set()
    for seed in range(WALKS if IS_NIGHTLY else 60):
        walk = Walk(random.Random(seed))
        assert walk.run() == [], seed
        runs = [run for runs in walk.truth.runs.values() for run in runs]
        seen |= {f"a step ended by {run.error}" for run in runs if run.error}
        seen |= {"a person said done"} if walk.truth.said else set()
        seen |= {"a pass was disturbed"} if walk.truth.disturbed else set()
        seen |= {"a step ran again by a word"} if any(run.is_repeated for run in runs) else set()
        seen |= {"a step ran under a second key"} if any("#2" in run.key for run in runs) else set()
    errors = ("error", "retry", "outage", "outage by hand", "park", "set aside", "declined", "result")
    said = {"a person said done", "a pass was disturbed", "a step ran again by a word", "a step ran under a second key"}
    assert seen >= said | {f"a step ended by {error}" for error in errors}


if __name__ == "__main__":
    for rule in CONTROLS:
        print(f'    "{rule}": {next((seed for seed in range(WALKS) if is_wrong(rule, seed)), None)},')
