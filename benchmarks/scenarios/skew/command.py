"""The command of scenario `skew`: inversions with and without a reorder window."""

from __future__ import annotations

from ...kit.scenario import Scenario
from . import trials

SCENARIO = Scenario("skew", trials.USUAL, trials.SMOKE, trials.measure, trials.summarise, trials.tables)


@SCENARIO.command
def command(usual: trials.Parameters) -> trials.Parameters:
    """Inversions and delays of messages that arrive out of order: no reorder window, half the skew, the whole."""
    return usual
