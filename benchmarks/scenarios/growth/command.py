"""The command of scenario `growth`: rates as there are more messages in a group, and more groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.rounds import Where, chosen_placement
from ...kit.scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, parsed, run
from ...kit.server import bare_server
from . import report, trials


def command(
    messages: Annotated[str | None, typer.Option(help="Of one group.  [10000,100000,1000000; smoke: 200,1000]")] = None,
    groups: Annotated[
        str | None, typer.Option(help="In all, the cold ones too.  [1000,100000,1000000; smoke: 20,500]")
    ] = None,
    placement: Where = None,
    runs: Runs = None,
    warmup: Warmup = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Rates with more messages in a group and more groups, the longest calls, and the consumer's memory."""
    usual = trials.SMOKE if smoke else trials.USUAL
    parameters = replace(
        usual,
        messages=parsed("--messages", trials.sizes, messages, usual.messages),
        groups=parsed("--groups", trials.sizes, groups, usual.groups),
        placement=chosen_placement(placement, redis),
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    with bare_server(redis) as url:
        scenario = Scenario("growth", trials.measure, report.summarise, report.tables, report.charts)
        run(scenario, parameters, url, output, as_json)
