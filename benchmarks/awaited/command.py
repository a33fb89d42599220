"""The command of scenario `async`: many handlers in one process, and appends from an event loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..kit.scenario import Output, Scenario, Smoke, Warmup, parsed, run
from ..load.placement import parse as parse_placement
from ..peers import host
from ..peers.installation import available
from ..usual.command import among
from . import report
from .cases import OTHERS, PARTS
from .trials import SMOKE, USUAL, measure


def command(
    parts: Annotated[str | None, typer.Option("--part", "--parts", help=f"Of {','.join(PARTS)}.  [all]")] = None,
    peers: Annotated[str | None, typer.Option(help=f"Of {','.join(OTHERS)}, or none.  [all]")] = None,
    before: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="A checkout to compare the single slot with.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(min=0.001, max=100, help="Of the usual number of messages.  [1; smoke: 0.01]")
    ] = None,
    cache: Annotated[Path, typer.Option(help="Where peers are installed, once.")] = USUAL.cache,
    placement: Annotated[str, typer.Option(help="Processors: apart, together or free.")] = "apart",
    runs: Annotated[
        int | None, typer.Option("--runs", "--turns", min=1, max=100, help="Runs that are reported.  [5; smoke: 1]")
    ] = None,
    warmup: Warmup = None,
    output: Output = None,
    smoke: Smoke = False,
) -> None:
    """Many handlers in one process, awaited or in threads, beside peers; and appends from an event loop."""
    usual = SMOKE if smoke else USUAL
    parameters = replace(
        usual,
        parts=parsed("--part", among(PARTS), parts, usual.parts),
        peers=() if peers == "none" else parsed("--peers", among(tuple(OTHERS)), peers, usual.peers),
        before=str(before.absolute()) if before else "",
        scale=scale or usual.scale,
        cache=cache,
        placement=parsed("--placement", parse_placement, placement, usual.placement),
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    asked = [OTHERS[name] for name in parameters.peers if "loop" in parameters.parts]
    found, left_out = available(asked, cache, is_smoke=smoke)
    parameters = replace(parameters, peers=tuple(one.name for one in found), left_out=tuple(left_out))
    scenario = Scenario("async", USUAL, SMOKE, measure, report.summarise, report.tables)
    with host.server() as address:
        run(scenario, parameters, address.url, output)
