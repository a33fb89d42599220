"""The command of scenario `consumers`: what more consumer processes do to the total."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from .. import consumers
from ..rounds import Where, chosen_placement
from ..scenario import AsJson, Output, RedisUrl, Runs, Scenario, Smoke, Warmup, parsed, run

MOST = 256


def counts(text: str) -> tuple[int, ...]:
    """`1,2,4` as numbers. Raises ValueError."""
    found = tuple(int(part) for part in text.split(",") if part.isascii() and part.isdigit() and 0 < int(part) <= MOST)
    if len(found) != len(text.split(",")):
        raise ValueError(f"numbers of processes {text!r} must be numbers from 1 to {MOST}")
    return found


def command(
    processes: Annotated[
        str | None, typer.Option("--consumers", help="Numbers of processes.  [1,2,4,8,32; smoke: 1,3]")
    ] = None,
    backlog: Annotated[
        int | None, typer.Option(min=1, max=10**7, help="Messages to drain.  [100000; smoke: 500]")
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**5, help="Messages a second of the stream.  [3000; smoke: 300]")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.5, max=600, help="Of the stream.  [4; smoke: 0.6]")] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    placement: Where = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Total rate and server CPU with 1 to 32 consumer processes, most of them idle."""
    usual = consumers.SMOKE if smoke else consumers.USUAL
    parameters = replace(
        usual,
        consumers=parsed("--consumers", counts, processes, usual.consumers),
        backlog=backlog or usual.backlog,
        rate=rate or usual.rate,
        seconds=seconds or usual.seconds,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
        placement=chosen_placement(placement, redis),
    )
    scenario = Scenario("consumers", consumers.measure, consumers.summarise, consumers.tables, consumers.charts)
    run(scenario, parameters, redis, output, as_json)
