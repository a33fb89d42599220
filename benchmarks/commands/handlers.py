"""The command of scenario `handlers`: how much of their time slow handlers are busy."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from .. import handlers
from ..rounds import Where, chosen_placement, summarise
from ..scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, run


def command(
    processes: Annotated[
        int | None, typer.Option("--processes", "-n", min=1, max=256, help="Consumers.  [8; smoke: 3]")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=600, help="Of handlers in a run, at least.  [5; smoke: 0.2]")
    ] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    placement: Where = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """The part of their time that 8 consumers spend in handlers of 1 ms, 20 ms and 1 s."""
    usual = handlers.SMOKE if smoke else handlers.USUAL
    parameters = replace(
        usual,
        consumers=processes or usual.consumers,
        groups=(processes, usual.groups[1]) if processes else usual.groups,
        seconds=seconds or usual.seconds,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
        placement=chosen_placement(placement, redis),
    )
    scenario = Scenario("handlers", handlers.measure, summarise, handlers.tables, handlers.charts)
    run(scenario, parameters, redis, output, as_json)
