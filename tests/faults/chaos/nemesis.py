"""What is done to a chaos run, drawn from its seed: first every act once, in a random order, then any.

Pure: `acts` says what to do; `run.py` does it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.proxy.fault import KINDS

Deed = Literal["proxy", "kill", "pause", "kill supervisor", "flush scripts"]
VICTIMS = ("consumers", "producer", "looper")
OFTEN = (("append",), ("claim",), ("ack",), ("append", "claim", "ack"))
"""What a fault meets soon: these go by all the time."""
SELDOM = (("nack",), ("renew",), ("resume",), ("redrive",), ("inspect",), ("pause",), ("BLPOP",), ())
ENDING = ("error NOPERM", "error CLUSTERDOWN", "error unknown")
"""Errors that a consumer does not wait out: it ends, and is replaced."""
HOLE_S = 0.5
EXPECTED = (
    *KINDS,
    "process killed",
    "process paused",
    "scripts flushed",
    "stale token refused",
    "lease expired",
    "script reloaded",
    "duplicate refused",
    "QueueFull",
    "OutcomeUnknown",
)
"""What must have taken effect."""


@dataclass(frozen=True, slots=True)
class Act:
    deed: Deed
    whom: str = ""
    """Whose process, for kill and pause."""
    which: int = 0
    order: dict[str, Any] = field(default_factory=dict)
    """For the proxy."""


LOST_APPENDS = Act("proxy", order={"add": "reply lost", "on": ["append"], "times": 12})
"""Three attempts of each of some appends: then their outcome is unknown."""


def acts(seed: int, lease_s: float) -> Iterator[Act]:
    """Endless."""
    draw = random.Random(seed)
    first = [_proxy(kind, draw, lease_s, OFTEN) for kind in KINDS]
    first += [LOST_APPENDS]
    first += [Act("kill", whom, draw.randrange(9)) for whom in VICTIMS]
    first += [Act("pause", whom, draw.randrange(9)) for whom in VICTIMS]
    first += [Act("flush scripts"), Act("kill supervisor")]
    draw.shuffle(first)
    yield from first
    while True:
        chance = draw.random()
        if chance < 0.7:
            yield _proxy(draw.choice(KINDS), draw, lease_s, OFTEN + SELDOM)
        elif chance < 0.95:
            deed: Deed = "kill" if draw.random() < 0.6 else "pause"
            yield Act(deed, draw.choice((*VICTIMS, "consumers")), draw.randrange(9))
        else:
            yield Act("flush scripts" if draw.random() < 0.8 else "kill supervisor")


def again(kind: str, lease_s: float) -> Act:
    """What should bring about an effect that is still missing."""
    draw = random.Random(kind)
    if kind in KINDS:
        return _proxy(kind, draw, lease_s, OFTEN)
    if kind == "QueueFull":
        return _proxy("error OOM", draw, lease_s, OFTEN)
    if kind in ("OutcomeUnknown", "duplicate refused"):
        return LOST_APPENDS
    if kind in ("scripts flushed", "script reloaded"):
        return Act("flush scripts")
    return Act("kill" if kind == "process killed" else "pause", "consumers")


FIRST_ACTS = len(KINDS) + 1 + 2 * len(VICTIMS) + 2


def _proxy(kind: str, draw: random.Random, lease_s: float, names: Sequence[tuple[str, ...]]) -> Act:
    on, times, seconds = draw.choice(names), draw.randrange(1, 5), round(draw.uniform(0.05, lease_s * 1.5), 3)
    if kind == "error OOM":
        on = ("append",)
    elif kind == "error NOSCRIPT":
        on = ()
    elif kind in ENDING:
        times = 1
    elif kind == "black hole":
        on, seconds = (), HOLE_S
    return Act("proxy", order={"add": kind, "on": list(on), "times": times, "seconds": seconds})
