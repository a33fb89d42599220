"""The command of scenario `growth`: rates as there are more messages, more in a group, and more groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import Scenario, parsed
from ...kit.server import bare_server
from . import report, trials

SCENARIO = Scenario(
    "growth",
    trials.USUAL,
    trials.SMOKE,
    trials.measure,
    report.summarise,
    report.tables,
    report.charts,
    server=bare_server,
)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    messages: Annotated[str | None, typer.Option(help="Of one group.  [10000,100000,1000000; smoke: 200,1000]")] = None,
    each: Annotated[
        str | None, typer.Option(help="Each of another group.  [10000,100000,1000000; smoke: 100,300]")
    ] = None,
    a_group: Annotated[str | None, typer.Option(help="In each group.  [1,10,100,1000; smoke: 1,20]")] = None,
    groups: Annotated[
        str | None, typer.Option(help="In all, the cold ones too.  [1000,100000,1000000; smoke: 20,500]")
    ] = None,
) -> trials.Parameters:
    """Rates with more messages in a group and more groups, the longest calls, and the consumer's memory."""
    return replace(
        usual,
        messages=parsed("--messages", trials.sizes, messages, usual.messages),
        each=parsed("--each", trials.sizes, each, usual.each),
        a_group=parsed("--a-group", trials.sizes, a_group, usual.a_group),
        groups=parsed("--groups", trials.sizes, groups, usual.groups),
    )
