"""What is found of scores in several units: in the messages that wait, and in watermarks.

What a unit is: `values/score_units.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..store.group import decode_group
from ..store.keys import ShardKeys
from ..store.replies import text
from ..texts.findings import Finding
from ..values.score_units import UNITS, unit_of
from .scope import Scope

SCORE = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
"""A watermark where scores are not numbers of a sequence, as Lua and Python both read it."""
PAGE = 500
"""Groups read in one round trip."""
Scored = tuple[str, float]
"""An encoded group, and a score in it."""


def examples_of(scored: Iterable[Scored]) -> dict[str, Scored]:
    """Unit -> the first that has it."""
    found: dict[str, Scored] = {}
    for one in scored:
        found.setdefault(unit_of(one[1]), one)
    return found


def check_units(scope: Scope) -> Iterator[Finding]:
    """Read the lowest and the highest score of each group, and the watermarks; a sequence has no times."""
    link, policy = scope.link, scope.shards[0].policy
    if link.command("HGET", policy, "sequence") == b"1":
        return
    waiting = examples_of(one for keys in scope.shards for one in _ends(scope, keys))
    units = [name for _, name in UNITS if name in waiting]
    if len(units) > 1:
        examples = {unit: (decode_group(waiting[unit][0]), waiting[unit][1]) for unit in units}
        yield scope.found("mixed score units", examples=examples)
    names = [name for keys in scope.shards for name in (keys.watermarks, keys.watermarks_old)]
    held = (one for name in names for page in scope.pages("HSCAN", name, PAGE) for one in page)
    marks = examples_of((text(group), float(mark)) for group, mark in held if group and SCORE.fullmatch(mark))
    window_s = int(link.command("HGET", policy, "mark_us") or 0) / 1e6
    units = [name for _, name in UNITS if name in marks or name in waiting]
    if len(units) > 1 and units[-1] in marks and window_s:
        group, mark = marks[units[-1]]
        fields = {"unit": units[-1], "mark": mark, "others": " and ".join(units[:-1]), "lowest": units[0]}
        yield scope.found("watermark unit", group=decode_group(group), window_s=window_s, **fields)


def _ends(scope: Scope, keys: ShardKeys) -> Iterator[Scored]:
    for page in scope.pages("ZSCAN", keys.schedule, PAGE):
        ends = [(text(name), at) for name, _ in page for at in (0, -1)]
        replies = scope.link.commands([("ZRANGE", keys.order(name), at, at, "WITHSCORES") for name, at in ends])
        yield from ((name, float(reply[1])) for (name, _), reply in zip(ends, replies, strict=True) if reply)
