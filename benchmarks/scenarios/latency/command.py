"""The command of scenario `latency`: from append to handler start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...kit.rounds import summarise
from ...kit.scenario import Scenario
from . import nodejs, trials

SCENARIO = Scenario("latency", trials.USUAL, trials.SMOKE, trials.measure, summarise, trials.tables)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    seconds: Annotated[float | None, typer.Option(min=0.2, max=600, help="Of a run.  [10; smoke: 0.5]")] = None,
    cache: Annotated[Path, typer.Option(help="Where scenario `peers` has installed GroupMQ.")] = Path(nodejs.CACHE),
) -> trials.Parameters:
    """From append to handler start with idle consumers, beside GroupMQ where scenario `peers` has installed it."""
    parameters = replace(usual, seconds=seconds or usual.seconds, cache=str(cache))
    if parameters.left_out:
        typer.echo(f"GroupMQ is left out: {parameters.left_out}", err=True)
    return parameters
