"""The command of scenario `skew`: inversions with and without a reorder window."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import Scenario
from . import trials

SCENARIO = Scenario("skew", trials.USUAL, trials.SMOKE, trials.measure, trials.summarise, trials.tables)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    skew_s: Annotated[
        float | None, typer.Option("--skew", min=0.01, max=60, help="Seconds, at most.  [0.3; smoke: 0.06]")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, max=600, help="Of events.  [3; smoke: 0.3]")] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Events a second, of all producers.  [600]")
    ] = None,
) -> trials.Parameters:
    """Inversions and delays of messages that arrive out of order: no reorder window, half the skew, the whole."""
    return replace(usual, skew_s=skew_s or usual.skew_s, seconds=seconds or usual.seconds, rate=rate or usual.rate)
