"""The command of scenario `peers`: sequencer beside other systems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..kit.scenario import Output, Runs, Scenario, Smoke, Warmup, parsed, run
from . import host, results, systems
from . import trials as peers_trials
from .installation import available


def command(
    wanted: Annotated[
        str | None,
        typer.Option("--systems", help=f"Of {','.join(systems.ALL)}.  [all; smoke: sequencer,groupmq,naive]"),
    ] = None,
    columns: Annotated[str | None, typer.Option(help=f"Of {','.join(systems.BY_NAME)}.  [all]")] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="In each cell.  [by system; smoke: 200]")
    ] = None,
    cache: Annotated[Path, typer.Option(help="Where peers are installed, once.")] = peers_trials.USUAL.cache,
    trials: Annotated[
        int | None, typer.Option(min=0, max=10, help="Runs to find the best settings.  [2; smoke: 0]")
    ] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    output: Output = None,
    smoke: Smoke = False,
) -> None:
    """Rates of sequencer beside its peers, each installed by itself, on a server of their own."""
    base = peers_trials.SMOKE if smoke else peers_trials.USUAL
    chosen = parsed("--columns", systems.parse_columns, columns, base.columns)
    some = parsed("--systems", systems.parse, wanted, base.systems)
    found, left_out = available(some, cache, is_smoke=smoke)
    parameters = replace(
        base,
        systems=tuple(found),
        columns=chosen,
        cache=cache,
        left_out=tuple(left_out),
        messages=messages or base.messages,
        trials=base.trials if trials is None else trials,
        runs=runs or base.runs,
        warmup=base.warmup if warmup is None else warmup,
    )
    scenario = Scenario(
        "peers",
        peers_trials.USUAL,
        peers_trials.SMOKE,
        peers_trials.measure,
        results.summarise,
        results.tables,
        results.charts,
    )
    with host.server() as address:
        run(scenario, parameters, address.url, output)
