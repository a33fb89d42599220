"""Walks over the protocol of registry and lanes: no group lies in two lanes, and nobody waits for ever.

Each rule is needed: without it some walk goes wrong.
"""

from __future__ import annotations

import pytest

from ..support.model.registry import RULES
from ..support.model.walk import Walk

WALKS = 300
"""Of the sound protocol, and at most so many without a rule, until one goes wrong."""


@pytest.mark.parametrize("part", range(4))
def test_no_walk_puts_a_group_into_two_lanes_or_stops_anybody(part: int) -> None:
    wrong = {seed: found for seed in range(part, WALKS, 4) if (found := Walk(seed).run())}
    assert wrong == {}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    assert any(Walk(seed, without=rule).run() for seed in range(WALKS)), f"without it {RULES[rule]}"
