"""The command of scenario `timers`: how late timers fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import Scenario
from . import trials

SCENARIO = Scenario("timers", trials.USUAL, trials.SMOKE, trials.measure, trials.summarise, trials.tables)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    count: Annotated[int | None, typer.Option("--timers", min=1, max=10**5, help="[1000; smoke: 40]")] = None,
    spread_s: Annotated[
        float | None,
        typer.Option("--spread", min=0.1, max=600, help="Seconds in which they come due.  [5; smoke: 0.2]"),
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Ordinary messages a second.  [1000; smoke: 100]")
    ] = None,
    work_ms: Annotated[float, typer.Option("--work", min=0, max=1000, help="Ms that each handler takes.")] = 1.0,
    consumers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that consume.  [2; smoke: 1]")] = None,
    expiry: Annotated[
        bool, typer.Option(help="Beside it key-expiry events; changes `notify-keyspace-events` meanwhile.")
    ] = True,
) -> trials.Parameters:
    """How late timers fire under load and after an outage, and how many are lost."""
    return replace(
        usual,
        timers=count or usual.timers,
        spread_s=spread_s or usual.spread_s,
        rate=rate or usual.rate,
        work_s=work_ms / 1000,
        consumers=consumers or usual.consumers,
        systems=trials.SYSTEMS if expiry else trials.SYSTEMS[:1],
    )
