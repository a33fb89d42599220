"""The command of scenario `floor`: the server's processor time for each message, beside the least that can do it."""

from __future__ import annotations

from ...kit.rounds import summarise
from ...kit.scenario import Scenario
from ...kit.server import bare_server
from . import trials

SCENARIO = Scenario("floor", trials.USUAL, trials.SMOKE, trials.measure, summarise, trials.tables, server=bare_server)


@SCENARIO.command
def command(usual: trials.Parameters) -> trials.Parameters:
    """Server CPU for each message, beside the same keys by plain commands, and by scripts that check nothing."""
    return usual
