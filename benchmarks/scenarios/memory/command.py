"""The command of scenario `memory`: what a pending message, a group and each key cost."""

from __future__ import annotations

from ...kit.rounds import summarise
from ...kit.scenario import Scenario
from ...kit.server import bare_server
from . import report, trials

SCENARIO = Scenario("memory", trials.USUAL, trials.SMOKE, trials.measure, summarise, report.tables, server=bare_server)


@SCENARIO.command
def command(usual: trials.Parameters) -> trials.Parameters:
    """Bytes of the server's memory for a pending message, a group and what stays known, by key."""
    return usual
