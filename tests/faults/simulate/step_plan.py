"""Which steps the messages of a seed have: of all kinds, in a part of the seeds; the others have a plain handler."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sequencer.drain.steps.declared import Steps, new_step

from ...support.steps_model.declared import Step

SHARE = 0.25
"""Of the seeds: how many have steps."""
INLINE = 0.25
"""Of those: how many have a handler that runs its steps as it goes."""
NAMES = ("charge", "points", "mail", "label")


def step_plan(seed: int, *, always: bool = False) -> tuple[Step, ...]:
    """The steps of a seed, none for most of them; `always`: at least one."""
    rng = random.Random(f"steps {seed}")
    if rng.random() >= SHARE and not always:
        return ()
    steps: list[Step] = []
    for name in NAMES[: rng.choice((1, 2, 3, 3, 4))]:
        order, once, optional = rng.choice((1, 1, 2, 5)), rng.random() < 0.4, rng.random() < 0.2
        before = [one.name for one in steps if optional or not one.optional]
        after = rng.choice(before) if before and rng.random() < 0.3 else ""
        attempts, has_check = rng.choice((None, None, 1, 2)), once and rng.random() < 0.4
        steps.append(Step(name, order, once, after, optional, attempts, has_check))
    if not is_inline(seed):
        return tuple(steps)
    return tuple(replace(one, order=1, optional=False, after="", attempts=None) for one in steps)


def is_inline(seed: int) -> bool:
    """Whether the steps of this seed, if there are any, are made by the code of a handler."""
    return random.Random(f"inline {seed}").random() < INLINE


def declared(plan: tuple[Step, ...], run: Callable[..., Any], check: Callable[..., Any], steps: Steps) -> Steps:
    """The same, as a program registers them. Both functions get the planned step before message and call."""
    for one in plan:
        options = {name: getattr(one, name) for name in ("name", "order", "once", "optional", "after", "attempts")}
        step = new_step(partial(run, one), **options)
        if one.has_check:
            step.check(partial(check, one))
        steps.add(step)
    steps.check()
    return steps
