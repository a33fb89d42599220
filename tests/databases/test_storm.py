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
    assert storm("sqlite", messages=500, kills=8, control=control)[CONTROLS[control][0]]
