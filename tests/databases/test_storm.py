"""Small storms; `python -m tests.databases.storm` makes larger ones."""

from __future__ import annotations

import pytest

from .storm import CONTROLS, storm

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "sqlite"])
def test_each_order_has_its_effect_once_and_in_order(kind: str) -> None:
    assert not any(storm(kind, messages=1500, kills=20).values())


@pytest.mark.parametrize("control", CONTROLS)
def test_a_rule_that_is_taken_away_shows(control: str) -> None:
    """On a busy machine not in each storm: nothing may wait in the queue when it is lost."""
    assert any(storm("sqlite", 1000, 8, control, seed=seed)[CONTROLS[control][0]] for seed in range(1, 5))
