"""The command of scenario `memory`: what a pending message, a group and each key cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.rounds import summarise
from ...kit.scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, parsed, run
from ...kit.server import bare_server
from ..growth.trials import sizes
from . import report, trials


def command(
    messages: Annotated[int | None, typer.Option(min=1, max=10**6, help="Of each shape.  [20000; smoke: 400]")] = None,
    groups: Annotated[str | None, typer.Option(help="Besides one for each message.  [1,100,5000; smoke: 1,20]")] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Bytes of the server's memory for a pending message, a group and what stays known, by key."""
    usual = trials.SMOKE if smoke else trials.USUAL
    parameters = replace(
        usual,
        messages=messages or usual.messages,
        groups=parsed("--groups", sizes, groups, usual.groups),
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    with bare_server(redis) as url:
        scenario = Scenario("memory", trials.measure, summarise, report.tables, report.charts)
        run(scenario, parameters, url, output, as_json)
