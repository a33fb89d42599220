"""What the state of a queue tells beside its invariants: keys that can't be read, clocks, outages, remembered ids."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import DataError, SequencerError
from ..settings.body_fields import BODY_FIELDS, read_fields
from ..settings.policy import NUMBERS, merge_policy
from ..store.failure import decode_failure, error_line
from ..store.group import decode_group
from ..store.keys import ShardKeys
from ..store.replies import micros, pairs, text
from ..texts.findings import Finding
from ..texts.words import named
from ..values.score_units import unit_of
from .scope import Scope
from .server import MAX_CLOCK_OFF_S, reply_or_error

_NUMBERS = re.compile(rb"#\d{1,16}( \d{1,16}-\d{1,16})*")
"""How a sequence keeps how far a group has come: see Sequenced."""
_SCORE = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
"""A watermark where scores are not numbers of a sequence, as Lua and Python both read it."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A whole number of ours. int() would take more than Lua does: 1_000, or the digits of other scripts."""
ID_BYTES = 76
"""Of a remembered id of 16 to 21 characters on Redis 7.0; on Valkey 9.1 it is 44 to 57 (benchmark `memory`)."""


def check_state(scope: Scope) -> Iterator[Finding]:
    """What stops scripts or clients, or holds them back. Raises ServerError."""
    yield from _clocks(scope)
    yield from _outages(scope)
    yield from _unreadable(scope)
    yield from scope.cut(_watermarks(scope))


def _clocks(scope: Scope) -> Iterator[Finding]:
    """A clock ahead of the server's time: that was set back, or another server's data were loaded."""
    now_us = micros(scope.link.command("TIME"))
    ahead_s = 0.0
    for keys in scope.shards:
        clock, _ = reply_or_error(scope.link, "GET", keys.clock)
        if clock and clock.isdigit():
            ahead_s = max(ahead_s, (int(clock) - now_us) / 1e6)
    if ahead_s > MAX_CLOCK_OFF_S:
        yield scope.found("shard clock ahead", ahead_s=ahead_s)


def _outages(scope: Scope) -> Iterator[Finding]:
    for keys in scope.shards:
        now_us = micros(scope.link.command("TIME"))
        probe_us, (failure, probes) = scope.link.commands(
            [("HGET", keys.policy, "probe_us"), ("HMGET", keys.outage, "failure", "probes")]
        )
        if probe_us is not None and probe_us.isdigit():
            known, probe_in_s = decode_failure(failure or b"")[0], max(0.0, (int(probe_us) - now_us) / 1e6)
            fields = {"error": error_line(known), "probes": int(probes or 0), "probe_in_s": probe_in_s}
            yield scope.found("outage", shard=keys.number, shards=len(scope.shards), **fields)


def _unreadable(scope: Scope) -> Iterator[Finding]:
    """A policy, totals or times that no client of ours wrote: each reader of them stops with an error."""
    for keys in scope.shards:
        for key in (keys.policy, keys.stats, keys.memory):
            words = [word.decode("utf-8", "replace") for word in scope.link.command("HSCAN", key, 0, "COUNT", 100)[1]]
            stored = dict(pairs(words))
            own = {name: stored.get(name, "0") for name in NUMBERS} if key == keys.policy else stored
            try:
                for name, value in own.items():
                    if not _WHOLE.fullmatch(value):
                        raise DataError("not_whole", name=name, value=value[:60])
                if key == keys.policy:
                    merge_policy(scope.queue, stored, {})
                    read_fields(stored.get(BODY_FIELDS))
            except (ValueError, TypeError, SequencerError) as error:
                yield scope.found("unreadable", key=key, error=str(error))


def _watermarks(scope: Scope) -> Iterator[Finding]:
    """How far a group has come, where no client of ours wrote it: appends to the group and claims of it fail."""
    for keys in scope.shards:
        is_sequence = scope.link.command("HGET", keys.policy, "sequence") == b"1"
        for key in (keys.sequences, keys.watermarks, keys.watermarks_old):
            if scope.link.command("TYPE", key) not in (b"hash", b"none"):
                continue  # the check of invariants finds it
            wanted, example = (_NUMBERS, "#57") if is_sequence or key == keys.sequences else (_SCORE, "57.5")
            for page in scope.pages("HSCAN", key):
                for group, mark in page:
                    if group and not wanted.fullmatch(mark):  # "": see lua/parts/memory/remember.lua
                        value, parts = mark[:60].decode("utf-8", "replace"), decode_group(text(group))
                        yield scope.found("watermark unreadable", group=parts, key=key, value=value, example=example)


def check_units(scope: Scope) -> Iterator[Finding]:
    """Times in several units, such as seconds and milliseconds; a sequence has no times."""
    if scope.link.command("HGET", scope.shards[0].policy, "sequence") == b"1":
        return
    units = dict[str, str]()
    for group, score in (one for keys in scope.shards for one in _scores(scope, keys)):
        units.setdefault(unit_of(float(score)), f"group {named(decode_group(text(group)))}: {text(score)}")
    if len(units) > 1:
        yield scope.found("mixed score units", units=units)


def _scores(scope: Scope, keys: ShardKeys) -> Iterator[tuple[bytes, bytes]]:
    """The lowest and the highest score of each group, and the watermarks."""
    for page in scope.pages("ZSCAN", keys.schedule):
        ends = [(group, at) for group, _ in page for at in (0, -1)]
        commands = [("ZRANGE", keys.order(text(group)), at, at, "WITHSCORES") for group, at in ends]
        replies = scope.link.commands(commands)
        yield from ((group, reply[1]) for (group, _), reply in zip(ends, replies, strict=True) if reply)
    for key in (keys.watermarks, keys.watermarks_old):
        for page in scope.pages("HSCAN", key):
            yield from ((group, mark) for group, mark in page if group and _SCORE.fullmatch(mark))


def remembered_ids(scope: Scope) -> Iterator[Finding]:
    """How many ids of handled messages are remembered, and what they take. Raises ServerError."""
    count = full = window_us = 0
    for keys in scope.shards:
        window_us, cap = (
            int(word) if word and word.isdigit() and len(word) <= 18 else 0
            for word in scope.link.command("HMGET", keys.policy, "dedup_us", "dedup_cap")
        )
        new, old = scope.link.commands([("SCARD", keys.dedup), ("SCARD", keys.dedup_old)])
        count += new + old
        full = max(full, cap) if 0 < cap <= old else full
    if not count or not window_us:
        return
    window_s = window_us / 1e6
    if full:
        yield scope.found("ids capped", count=count, window_s=window_s, cap=full, more=4 * full)
    else:
        bytes_a_second = 2 * window_s * ID_BYTES
        yield scope.found("ids", count=count, bytes=count * ID_BYTES, window_s=window_s, bytes_a_second=bytes_a_second)
