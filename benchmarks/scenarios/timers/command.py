"""The command of scenario `timers`: how late timers fire."""

from __future__ import annotations

from ...kit.scenario import Scenario
from . import trials

SCENARIO = Scenario("timers", trials.USUAL, trials.SMOKE, trials.measure, trials.summarise, trials.tables)


@SCENARIO.command
def command(usual: trials.Parameters) -> trials.Parameters:
    """How late timers fire under load and after an outage, and how many are lost."""
    return usual
