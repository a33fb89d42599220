"""The command of scenario `usual`: sequencer beside what a team writes itself or installs instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..kit.scenario import Output, Runs, Scenario, Smoke, Warmup, parsed, run
from ..load.placement import parse as parse_placement
from ..peers import host
from ..peers.host import Address
from ..peers.installation import available
from ..peers.systems import ALL as PEERS
from . import promises, rates, report
from .crew import SYSTEMS
from .rates import CASES, PARTS, SMOKE, USUAL, Parameters


def among(every: tuple[str, ...], always: tuple[str, ...] = ()) -> Callable[[str], tuple[str, ...]]:
    """Reads `one,two`, in the order of `every`."""

    def choose(text: str) -> tuple[str, ...]:
        names = text.split(",")
        for name in names:
            if name not in every:
                raise ValueError(f"{name!r} must be one of {', '.join(every)}")
        return tuple(name for name in every if name in names or name in always)

    return choose


def measure(url: str, parameters: Parameters, on_run: Callable[[Any], None]) -> list[Any]:
    """All runs of the cases, then all trials of the promises. Raises ServerError."""
    address = Address.parse(url)
    runs: list[Any] = rates.measure(address, parameters, on_run) if "rates" in parameters.parts else []
    return [*runs, *(promises.measure(address, parameters, on_run) if "promises" in parameters.parts else [])]


def command(
    systems: Annotated[str | None, typer.Option(help=f"Of {','.join(SYSTEMS)}.  [all; smoke: without peers]")] = None,
    parts: Annotated[str | None, typer.Option(help="Of rates,promises.  [both]")] = None,
    cases: Annotated[str | None, typer.Option(help=f"Of {','.join(CASES)}.  [all]")] = None,
    claims: Annotated[str | None, typer.Option(help=f"Of {','.join(promises.CLAIMS)}.  [all]")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=600, help="Of 5 ms handlers, and one by one.  [3; smoke: 0.3]")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, max=100, help="Of each promise.  [3; smoke: 1]")] = None,
    cache: Annotated[Path, typer.Option(help="Where peers are installed, once.")] = USUAL.cache,
    placement: Annotated[str, typer.Option(help="Processors: apart, together or free.")] = "apart",
    runs: Runs = None,
    warmup: Warmup = None,
    output: Output = None,
    smoke: Smoke = False,
) -> None:
    """The usual case: one message a group, slow handlers; beside own Streams, the seed's algorithm, Celery and RQ."""
    usual = SMOKE if smoke else USUAL
    own = ("sequencer",)
    parameters = replace(
        usual,
        systems=parsed("--systems", among(SYSTEMS, own), systems, usual.systems),
        parts=parsed("--parts", among(PARTS), parts, usual.parts),
        cases=parsed("--cases", among(CASES), cases, usual.cases),
        claims=parsed("--claims", among(tuple(promises.CLAIMS)), claims, usual.claims),
        placement=parsed("--placement", parse_placement, placement, usual.placement),
        seconds=seconds or usual.seconds,
        trials=trials or usual.trials,
        cache=cache,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("usual", USUAL, SMOKE, measure, report.summarise, report.tables)
    peers = [PEERS[name] for name in parameters.systems if name in PEERS]
    found, left_out = available(peers, cache, is_smoke=smoke)
    there = tuple(name for name in parameters.systems if name not in PEERS or PEERS[name] in found)
    parameters = replace(parameters, systems=there, left_out=tuple(left_out))
    with host.server() as address:
        run(scenario, parameters, address.url, output)
