"""What is found of scores in several units: in the messages that wait, and in watermarks.

What a unit is: `values/score_units.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..net.link import Link
from ..store.group import decode_group
from ..store.keys import ShardKeys
from ..store.replies import pairs, scanned, text
from ..texts.commands import command, to_one_unit
from ..texts.explanations import mixed
from ..texts.words import named
from ..values.score_units import UNITS, unit_of
from ..values.views import Finding

SCORE = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
"""A watermark where scores are not numbers of a sequence, as Lua and Python both read it."""
PAGE = 500
"""Groups looked at in one round trip."""
Scored = tuple[str, float]
"""An encoded group, and a score in it."""


def unit_finding(queue: str, examples: Mapping[str, Scored], namespace: str = "sequencer") -> Finding | None:
    """What is said of scores in these units, of each one example; None where there is one unit."""
    if len(examples) < 2:
        return None
    decoded = {unit: (decode_group(group), score) for unit, (group, score) in examples.items()}
    text = f"queue {queue}: {mixed(decoded)}; {to_one_unit(queue, namespace)}"
    return Finding("scores", "warning", f"{text}; what was handled stays in the order that it had")


def mark_finding(
    queue: str,
    namespace: str,
    marks: Mapping[str, Scored],
    scores: Mapping[str, Scored],
    window_s: float,
) -> Finding | None:
    """What is said of a watermark in a higher unit than others, or than scores that wait; None where there is none."""
    units = [name for _, name in UNITS if name in marks or name in scores]
    if len(units) < 2 or units[-1] not in marks or not window_s:
        return None
    group, mark = marks[units[-1]]
    forget, keep = (
        command("configure", queue, namespace=namespace, options=["--watermark-window", f"{seconds:.15g}"])
        for seconds in (0.001, window_s)
    )
    lower = " and ".join(units[:-1])
    said = f"the watermark of group {named(decode_group(group))} looks like a time in {units[-1]} ({mark:.17g}), "
    said += f"others in {lower}: what comes there in {units[0]} is late; when all producers send one unit"
    said += f", to forget it: {forget}; then, when some messages were handled: {keep}"
    return Finding("scores", "warning", f"queue {queue}: {said}")


def examples_of(scored: Iterable[Scored]) -> dict[str, Scored]:
    """Unit -> the first that has it."""
    found: dict[str, Scored] = {}
    for one in scored:
        found.setdefault(unit_of(one[1]), one)
    return found


def check_units(
    link: Link, namespace: str, queue: str, shards: Sequence[ShardKeys], limit: int | None
) -> Iterator[Finding]:
    """Look at the lowest and the highest score of each group, about `limit` of them; a sequence has no times."""
    if link.command("HGET", shards[0].policy, "sequence") == b"1":
        return
    found: dict[str, Scored] = {}
    for keys in shards:
        for scored in _pages(link, keys, limit):
            found = {**examples_of(scored), **found}
    if finding := unit_finding(queue, found, namespace):
        yield finding
    names = [name for keys in shards for name in (keys.marks, keys.marks_old)]
    held = (one for name in names for one in hash_pairs(link, name, limit))
    marks = examples_of((text(group), float(mark)) for group, mark in held if group and SCORE.fullmatch(mark))
    window_us = int(link.command("HGET", shards[0].policy, "mark_us") or 0)
    if finding := mark_finding(queue, namespace, marks, found, window_us / 1e6):
        yield finding


def hash_pairs(link: Link, key: str, limit: int | None) -> Iterator[tuple[bytes, bytes]]:
    """The fields of a hash and what they hold, in pages: about `limit` of them."""
    cursor: bytes | None = b"0"
    count = 0
    while cursor is not None and (limit is None or count < limit):
        cursor, words = scanned(link.command("HSCAN", key, cursor, "COUNT", 500))
        count += len(words) // 2
        yield from pairs(words)


def _pages(link: Link, keys: ShardKeys, limit: int | None) -> Iterator[list[Scored]]:
    cursor: bytes | None = b"0"
    count = 0
    while cursor is not None and (limit is None or count < limit):
        cursor, words = scanned(link.command("ZSCAN", keys.schedule, cursor, "COUNT", PAGE))
        names = [text(name) for name, _ in pairs(words)]
        count += len(names)
        ends = [(name, at) for name in names for at in (0, -1)]
        replies = link.commands([("ZRANGE", keys.order(name), at, at, "WITHSCORES") for name, at in ends])
        yield [(name, float(reply[1])) for (name, _), reply in zip(ends, replies, strict=True) if reply]
