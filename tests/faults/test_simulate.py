"""The simulation itself: it is deterministic, sound code passes, and a kind of fault that is missing is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .simulate.fault_test import ENOUGH, EXPECTED, MAX_PROBLEMS, PLAIN_EXPECTED, STEPS_EXPECTED, result_of
from .simulate.seed import Ground, play_seed, stage_set

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with stage_set() as ground:
        yield ground


def test_sound_code_passes(ground: Ground) -> None:
    for seed in range(12):
        played = play_seed(ground, seed, steps=seed % 3 == 0)
        assert not played.problems, f"seed {seed}: {played.problems}"
        assert played.judgement.messages


def test_same_seed_same_trace(ground: Ground) -> None:
    for seed in (1, 5, 9):
        once, again = play_seed(ground, seed), play_seed(ground, seed)
        assert once.trace == again.trace
        assert once.events == again.events
        assert len(once.trace) > 100
    assert play_seed(ground, 2).trace != play_seed(ground, 3).trace


def test_clock_going_back_only_delays(ground: Ground) -> None:
    for seed in range(4):
        played = play_seed(ground, seed, backward=True)
        assert not played.problems, f"seed {seed}: {played.problems}"
        assert played.faults["clock backward"]


def test_many_seeds_without_a_kind_of_fault_fail(ground: Ground) -> None:
    calm = play_seed(ground, 2)
    calm.faults.clear()
    result = result_of([calm] * ENOUGH, "simulate", 0.0, backward=False)
    kinds = [*EXPECTED, *(STEPS_EXPECTED if calm.play.steps else PLAIN_EXPECTED)]
    missing = [f"fault that never took effect: {kind}" for kind in kinds]
    assert [*result.problems[:-1]] == missing[:MAX_PROBLEMS]
    assert result.problems[-1] == f"... and {len(missing) - MAX_PROBLEMS} more problems"
    assert result_of([calm], "simulate", 0.0, backward=False).is_passed
