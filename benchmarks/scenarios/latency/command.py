"""The command of scenario `latency`: from append to handler start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...kit.rounds import summarise
from ...kit.scenario import Scenario, parsed
from . import nodejs, trials


def rates(text: str) -> tuple[int, ...]:
    """`100,1000` as numbers. Raises ValueError."""
    found = tuple(int(part) for part in text.split(",") if part.isascii() and part.isdigit() and 0 < int(part) <= 10**5)
    if len(found) != len(text.split(",")):
        raise ValueError(f"rates {text!r} must be numbers from 1 to 100000")
    return found


SCENARIO = Scenario("latency", trials.USUAL, trials.SMOKE, trials.measure, summarise, trials.tables, trials.charts)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    rate: Annotated[str | None, typer.Option("--rates", help="Messages a second.  [100,1000]")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.2, max=600, help="Of a run.  [10; smoke: 0.5]")] = None,
    groups: Annotated[int | None, typer.Option(min=1, max=10**5, help="[1000; smoke: 20]")] = None,
    cache: Annotated[Path, typer.Option(help="Where scenario `peers` has installed GroupMQ.")] = Path(nodejs.CACHE),
) -> trials.Parameters:
    """From append to handler start with idle consumers, beside GroupMQ where scenario `peers` has installed it."""
    parameters = replace(
        usual,
        rates=parsed("--rates", rates, rate, usual.rates),
        seconds=seconds or usual.seconds,
        groups=groups or usual.groups,
        cache=str(cache),
    )
    if parameters.left_out:
        typer.echo(f"GroupMQ is left out: {parameters.left_out}", err=True)
    return parameters
