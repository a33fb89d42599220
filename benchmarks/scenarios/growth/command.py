"""The command of scenario `growth`: rates as there are more messages, more in a group, and more groups."""

from __future__ import annotations

from ...kit.scenario import Scenario
from ...kit.server import bare_server
from . import report, trials

SCENARIO = Scenario(
    "growth",
    trials.USUAL,
    trials.SMOKE,
    trials.measure,
    report.summarise,
    report.tables,
    server=bare_server,
)


@SCENARIO.command
def command(usual: trials.Parameters) -> trials.Parameters:
    """Rates with more messages in a group and more groups, the longest calls, and the consumer's memory."""
    return usual
