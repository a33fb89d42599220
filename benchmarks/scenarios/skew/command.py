"""The command of scenario `skew`: inversions with and without a reorder window."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, run
from . import trials


def command(
    skew_s: Annotated[
        float | None, typer.Option("--skew", min=0.01, max=60, help="Seconds, at most.  [0.3; smoke: 0.06]")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, max=600, help="Of events.  [3; smoke: 0.3]")] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Events a second, of all producers.  [600]")
    ] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Inversions and delays of messages that arrive out of order: no reorder window, half the skew, the whole."""
    usual = trials.SMOKE if smoke else trials.USUAL
    parameters = replace(
        usual,
        skew_s=skew_s or usual.skew_s,
        seconds=seconds or usual.seconds,
        rate=rate or usual.rate,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("skew", trials.measure, trials.summarise, trials.tables)
    run(scenario, parameters, redis, output, as_json)
