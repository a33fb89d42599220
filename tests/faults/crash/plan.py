"""Which points there are, and which cases a run attempts: all of them, or a part chosen by a seed.

The list of points is written down, and each run first passes them without a fault: a point that the list names and no
process passes, or that a process passes and the list lacks, is a problem like any other. Otherwise a call that was
renamed would simply not be broken any more.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from .points import KINDS, Case, Kind, kinds_at
from .work import VARIANTS

MOMENTS = ("before", "sent", "after")
_CALLS: dict[str, str] = {
    "producer": "command sync_shard register append",
    "consumer": "command sync_shard wait claim ack nack",
    "renewer": "ack renew",
    "operator": "command sync_shard inspect resume pause redrive purge",
}
_ONLY: dict[str, str] = {"default": "append update", "sequence": "skip_gap"}
"""Calls of the operator that only one variant has."""


def named_points(variant: str) -> list[str]:
    """Every point of a variant, in the order of the work."""
    points: list[str] = []
    for party, calls in _CALLS.items():
        more = _ONLY[variant] if party == "operator" else ""
        points += [f"{party}.connect:{moment}" for moment in ("before", "after") if party != "renewer"]
        points += [f"{party}.{call}:{moment}" for call in f"{calls} {more}".split() for moment in MOMENTS]
    return points + [f"consumer.handler:{moment}" for moment in ("before", "after", "recorded")]


class Chain(NamedTuple):
    """Cases that differ in their passage only: from the first on until one is not reached, or up to the last."""

    variant: str
    point: str
    kind: Kind
    first: int = 1
    last: int | None = None

    def case(self, passage: int) -> Case:
        return Case(self.variant, self.point, passage, self.kind)


SELDOM = {f"renewer.{call}:{when}" for call in ("connect", "command", "nack", "claim") for when in MOMENTS}
"""Passed only where the machine stood still, or where two batches in a row took alike: the renewer connects when the
connection was lost, sends a failure when the next exchange is late, and a claim shortly before a batch ends."""


def mismatch(variant: str, passages: Mapping[str, int]) -> list[str]:
    """Where the list of points and what the processes passed differ."""
    named = set(named_points(variant))
    problems = [
        f"{variant}: no process passes {point}, which the list names" for point in sorted(named - set(passages))
    ]
    return problems + [
        f"{variant}: a process passes {point}, which the list lacks" for point in sorted(set(passages) - named - SELDOM)
    ]


def every_chain() -> list[Chain]:
    """All points, all their kinds, all passages."""
    return [
        Chain(variant, point, kind)
        for variant in VARIANTS
        for point in named_points(variant)
        for kind in kinds_at(point)
    ]


def slice_of(seed: int) -> list[Chain]:
    """For a quick run: each named point once, at its first passage."""
    choice = random.Random(seed)
    chosen: dict[str, Chain] = {}
    for variant in choice.sample(VARIANTS, len(VARIANTS)):
        for point in named_points(variant):
            if point not in chosen:
                chosen[point] = Chain(variant, point, choice.choice(kinds_at(point)), 1, 1)
    return choice.sample(list(chosen.values()), len(chosen))


def some(first: Collection[Chain], count: int) -> list[Chain]:
    """A few of these, each kind of fault among them."""
    found = [next(chain for chain in first if chain.kind == kind) for kind in KINDS]
    return (found + [chain for chain in first if chain not in found])[:count]
