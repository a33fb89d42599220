"""The command of scenario `memory`: what a pending message, a group and each key cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.rounds import summarise
from ...kit.scenario import Scenario, parsed
from ...kit.server import bare_server
from ..growth.trials import sizes
from . import report, trials

SCENARIO = Scenario(
    "memory", trials.USUAL, trials.SMOKE, trials.measure, summarise, report.tables, report.charts, server=bare_server
)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    messages: Annotated[int | None, typer.Option(min=1, max=10**6, help="Of each shape.  [20000; smoke: 400]")] = None,
    groups: Annotated[str | None, typer.Option(help="Besides one for each message.  [1,100,5000; smoke: 1,20]")] = None,
) -> trials.Parameters:
    """Bytes of the server's memory for a pending message, a group and what stays known, by key."""
    return replace(usual, messages=messages or usual.messages, groups=parsed("--groups", sizes, groups, usual.groups))
