"""The command of scenario `fairness`: what one group that never ends costs the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from .. import fairness
from ..rounds import Where, chosen_placement
from ..scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, run


def command(
    load: Annotated[
        float | None,
        typer.Option(min=0.05, max=0.95, help="Part of the consumers' time for the others.  [0.6; smoke: 0.2]"),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.5, max=600, help="Of a run.  [10; smoke: 0.6]")] = None,
    groups: Annotated[int | None, typer.Option(min=1, max=10**5, help="Other groups.  [1000; smoke: 20]")] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    placement: Where = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """The wait of all other groups' messages with and without one group that never ends."""
    usual = fairness.SMOKE if smoke else fairness.USUAL
    parameters = replace(
        usual,
        load=load or usual.load,
        seconds=seconds or usual.seconds,
        groups=groups or usual.groups,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
        placement=chosen_placement(placement, redis),
    )
    scenario = Scenario("fairness", fairness.measure, fairness.summarise, fairness.tables, fairness.charts)
    run(scenario, parameters, redis, output, as_json)
