"""The command of scenario `floor`: the server's processor time for each message, beside the least that can do it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.rounds import Where, chosen_placement, summarise
from ...kit.scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, parsed, run, spreads
from ...kit.server import bare_server
from . import trials


def command(
    groups: Annotated[
        str | None, typer.Option("--spreads", help="Numbers of groups, or zipf.  [1,100,5000,zipf; smoke: 1,zipf]")
    ] = None,
    messages: Annotated[int | None, typer.Option(min=1, max=10**6, help="In a run.  [50000; smoke: 400]")] = None,
    placement: Where = None,
    runs: Runs = None,
    warmup: Warmup = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Server CPU for each message, beside the same keys by plain commands, and by scripts that check nothing."""
    usual = trials.SMOKE if smoke else trials.USUAL
    parameters = replace(
        usual,
        spreads=parsed("--spreads", spreads, groups, usual.spreads),
        messages=messages or usual.messages,
        placement=chosen_placement(placement, redis),
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    with bare_server(redis) as url:
        scenario = Scenario("floor", trials.measure, summarise, trials.tables, trials.charts)
        run(scenario, parameters, url, output, as_json)
