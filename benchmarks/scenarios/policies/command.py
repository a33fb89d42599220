"""The command of scenario `policies`: what each policy costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ...kit.scenario import Scenario, parsed, spreads
from . import costs, trials

SCENARIO = Scenario("policies", trials.USUAL, trials.SMOKE, trials.measure, costs.summarise, costs.tables)


@SCENARIO.command
def command(
    usual: trials.Parameters,
    messages: Annotated[int | None, typer.Option(min=1, max=10**7, help="In each phase.  [50000; smoke: 200]")] = None,
    producers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that append.  [2; smoke: 1]")] = None,
    consumers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that consume.  [2; smoke: 1]")] = None,
    scenarios: Annotated[str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 10]")] = None,
    variants: Annotated[str | None, typer.Option(help=f"Of {', '.join(v.name for v in trials.VARIANTS)}.")] = None,
) -> trials.Parameters:
    """What each policy costs: rates of the same workload, variant by variant in turn, and memory."""
    return replace(
        usual,
        scenarios=parsed("--scenarios", spreads, scenarios, usual.scenarios),
        variants=parsed("--variants", trials.parse_variants, variants, usual.variants),
        messages=messages or usual.messages,
        producers=producers or usual.producers,
        consumers=consumers or usual.consumers,
    )
