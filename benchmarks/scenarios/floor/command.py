"""The command of scenario `floor`: the server's processor time for each message, beside the least that can do it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.rounds import summarise
from ...kit.scenario import Scenario, parsed, spreads
from ...kit.server import bare_server
from . import trials

SCENARIO = Scenario(
    "floor", trials.USUAL, trials.SMOKE, trials.measure, summarise, trials.tables, trials.charts, server=bare_server
)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    groups: Annotated[
        str | None, typer.Option("--spreads", help="Numbers of groups, or zipf.  [1,100,5000,zipf; smoke: 1,zipf]")
    ] = None,
    messages: Annotated[int | None, typer.Option(min=1, max=10**6, help="In a run.  [50000; smoke: 400]")] = None,
) -> trials.Parameters:
    """Server CPU for each message, beside the same keys by plain commands, and by scripts that check nothing."""
    return replace(
        usual, spreads=parsed("--spreads", spreads, groups, usual.spreads), messages=messages or usual.messages
    )
