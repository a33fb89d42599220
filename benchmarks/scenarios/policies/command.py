"""The command of scenario `policies`: what each policy costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import Scenario, parsed
from . import costs, trials

SCENARIO = Scenario("policies", trials.USUAL, trials.SMOKE, trials.measure, costs.summarise, costs.tables)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    messages: Annotated[int | None, typer.Option(min=1, max=10**7, help="In each phase.  [50000; smoke: 200]")] = None,
    variants: Annotated[str | None, typer.Option(help=f"Of {', '.join(v.name for v in trials.VARIANTS)}.")] = None,
) -> trials.Parameters:
    """What each policy costs: rates of the same workload, variant by variant in turn, and memory."""
    return replace(
        usual,
        variants=parsed("--variants", trials.parse_variants, variants, usual.variants),
        messages=messages or usual.messages,
    )
