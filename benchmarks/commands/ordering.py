"""The command of scenario `ordering`: rates with every group in order."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import ordering
from ..scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, parsed, run, spreads


def command(
    messages: Annotated[int | None, typer.Option(min=1, max=10**7, help="In each phase.  [100000; smoke: 400]")] = None,
    naive_messages: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="The same for the naive version.  [10000; smoke: 200]")
    ] = None,
    producers: Annotated[int, typer.Option(min=1, max=64, help="Processes that append.")] = 2,
    consumers: Annotated[int, typer.Option(min=1, max=64, help="Processes that consume.")] = 2,
    runs: Runs = None,
    warmup: Warmup = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 100,zipf]")
    ] = None,
    naive: Annotated[bool, typer.Option(help="Run the naive version beside it.")] = True,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Rates with every group in order: producers and consumers at once, and draining a backlog."""
    usual = ordering.SMOKE if smoke else ordering.USUAL
    parameters = ordering.Parameters(
        scenarios=parsed("--scenarios", spreads, scenarios, usual.scenarios),
        messages=messages or usual.messages,
        naive_messages=(naive_messages or usual.naive_messages) if naive else 0,
        producers=producers,
        consumers=consumers,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("ordering", ordering.measure, ordering.summarise, ordering.tables)
    run(scenario, parameters, redis, output, as_json)
