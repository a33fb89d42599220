"""Examines a server and the queues on it: whether it may be used, what it may lose, which rights the user lacks, and
whether the invariants of the data hold. Works on a server that a Sequencer would refuse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from ..errors import ConfigurationError, DataError, SequencerError, ServerUnavailable, shown
from ..net.endpoint import Endpoint
from ..net.link import ConnectionAlone, Link, finish
from ..settings.body_fields import BODY_FIELDS, read_fields
from ..settings.policy import NUMBERS, merge_policy
from ..store.group import decode_group
from ..store.keys import ShardKeys, shard_keys
from ..store.replies import Reading, micros, pairs, text
from ..texts.commands import command
from ..texts.words import many, named
from ..values.checks import check_name
from ..values.views import Finding, Level
from .invariants import InvariantCheck
from .leases import held_long, told_no_consumers, told_parked
from .outage import told_outage
from .registrations import check_registrations
from .remembered import told_ids
from .rights import SCRATCH, is_denied, needed, refused_commands
from .scores import SCORE, check_units, hash_pairs
from .server import (
    MAX_CLOCK_OFF_S,
    admin_command,
    is_full,
    memory_findings,
    once_findings,
    reply_or_error,
    server_facts,
    server_findings,
)

_NUMBERS = re.compile(rb"#\d{1,16}( \d{1,16}-\d{1,16})*")
"""How a sequence keeps how far a group has come: see Sequenced."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A whole number of ours. int() would take more than Lua does: 1_000, or the digits of other scripts."""
MAX_SHOWN = 50
"""Problems of one kind in one queue that are shown one by one; the rest is counted."""
MAX_LISTED = 10_000
"""The same for a program."""


def diagnose(
    endpoint: Endpoint,
    namespace: str,
    queue: str | None = None,
    *,
    repair: bool = False,
    limit: int | None = None,
    for_program: bool = False,
) -> list[Finding]:
    """Examine the server, and one queue or all of the namespace; with `repair`, repair what the data allow.

    `limit`: about how many names to read in each queue; `for_program`: list what is broken thing by thing, not only as
    much as a person reads. Reads in pages, and may run while producers and consumers do.
    Raises ConfigurationError, ServerUnavailable, DataError.
    """
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigurationError(f"limit={shown(limit)} must be a whole number from 1")
    link = Link(endpoint)
    try:
        with Reading(endpoint.name):
            most = MAX_LISTED if for_program else MAX_SHOWN
            return list(_diagnose(link, namespace, queue, repair, limit, most))
    finally:
        link.close()


def is_healthy(findings: list[Finding]) -> bool:
    """Whether no problem is left."""
    return all(one.level != "problem" or one.repaired for one in findings)


def memory_trouble(endpoint: Endpoint) -> str:
    """What is to be said of a server that is full, or nearly; "" for others. Raises ServerError."""
    link = Link(endpoint)
    try:
        info = {name: value for name, value in server_facts(link)[0].items() if name != "errorstat_OOM"}
        found = memory_findings(info, admin_command(endpoint))  # what it refused is of the past: told by doctor
        return next((one.text for one in found if one.level != "ok"), "")
    finally:
        link.close()


def _diagnose(
    link: Link, namespace: str, queue: str | None, repair: bool, limit: int | None, most: int
) -> Iterator[Finding]:
    link.connection()
    facts, cli = server_facts(link), admin_command(link.endpoint)
    server = list(server_findings(*facts, cli))
    memory = [one for one in server if one.check == "memory"]
    yield from (one for one in server if one not in memory)
    if any(one.level == "problem" and one.check in ("version", "role", "loading") for one in server):
        yield Finding("queues", "warning", "not checked, because this server can't hold queues as it is")
        yield from memory
        return
    shards, denied = dict[str, int](), ""
    try:
        yield from check_registrations(link, namespace, queue, shards, repair=repair)
    except ServerUnavailable:
        raise
    except SequencerError as error:
        denied = str(error)
    queues = sorted(shards) if queue is None else [queue]
    yield from memory
    yield from _rights(link, namespace, queues or [SCRATCH], may_ask=bool(facts[0]))
    if repair and is_full(facts[0]):
        again = command("doctor", *([] if queue is None else [queue]), namespace=namespace, options=["--repair"])
        text = f"a server that is full takes no repair that needs room: make room first, as said above, then: {again}"
        yield Finding("memory", "warning", text)
    counted = Counter[bool]()
    if denied:
        yield Finding("queues", "problem", f"can't be listed: {denied}")
        return
    for name in queues:
        if name not in shards:
            yield Finding("queues", "warning", f"queue {name!r} was never used here; is its name right?")
            continue
        keys = [shard_keys(namespace, name, shard) for shard in range(shards[name])]
        try:
            yield from _dispatch(link, name, keys, repair)
            yield from _shard_clocks(link, name, keys)
            yield from told_outage(link, namespace, name, keys)
            yield from _readable(link, name, keys)
            yield from _numbers(link, name, keys, limit, most)
            check = InvariantCheck(link, keys, repair=repair, limit=limit)
            yield from _invariants(check, namespace, name, repair, limit, counted, most)
            if check.has_once:
                yield from once_findings(name, *facts[:2], cli)
            yield from held_long(link, namespace, name, keys, most)
            yield from told_parked(link, namespace, name, keys)
            yield from told_no_consumers(link, namespace, name, keys)
            with suppress(DataError):  # of a key that is told by now
                yield from check_units(link, namespace, name, keys, limit)
                yield from told_ids(link, namespace, name, keys)
        except SequencerError as error:
            yield Finding("invariants", "problem", f"queue {name}: could not be checked to the end: {error}")
    if repair and counted and len(queues) > 1:
        said = f"in all queues: {counted[True]:,} repaired, {counted[False]:,} left"
        yield Finding("invariants", "problem" if counted[False] else "ok", said)
    if not queues:
        yield Finding("queues", "ok", f"none in namespace {namespace!r}")


def _rights(link: Link, namespace: str, queues: list[str], *, may_ask: bool) -> Iterator[Finding]:
    refused: dict[str, Exception] = {}
    for queue in queues:
        alone, shards = ConnectionAlone(link.connection(), link.endpoint.name), [shard_keys(namespace, queue, SCRATCH)]
        refused |= finish(refused_commands(alone, namespace, queue, shards, needed("admin")))
        if alone.is_given_up:
            link.close()
    missing = sorted(name if name[0] == "~" else f"+{name.lower()}" for name in refused if is_denied(refused[name]))
    missing += [] if may_ask else ["+info"]
    unknown = [f"{name}: {error}" for name, error in refused.items() if "unknown command" in str(error)]
    if missing:
        yield Finding("rights", "problem", f"the user lacks {' '.join(missing)}; grant it with ACL SETUSER")
    for said in unknown:
        yield Finding("rights", "problem", said)
    if not (missing or unknown):
        yield Finding("rights", "ok", "every command and script of ours may be run")


def _dispatch(link: Link, queue: str, shards: list[ShardKeys], repair: bool) -> Iterator[Finding]:
    """A dispatch list of another type stops every script; what it holds may be lost, so it can go."""
    for keys in shards:
        kind = link.command("TYPE", keys.dispatch)
        if kind not in (b"list", b"none"):
            if repair:
                link.command("DEL", keys.dispatch)
            text = f"queue {queue}: the dispatch list {keys.dispatch} is a {kind.decode()}; it can be deleted"
            yield Finding("keys", "problem", text, repair)


def _readable(link: Link, queue: str, shards: list[ShardKeys]) -> Iterator[Finding]:
    """A policy, totals or times that no client of ours wrote: each reader of them stops with an error."""
    for keys in shards:
        for key in (keys.policy, keys.stats, keys.memory):
            words = [word.decode("utf-8", "replace") for word in link.command("HSCAN", key, 0, "COUNT", 100)[1]]
            stored = dict(pairs(words))
            own = [stored.get(name, "0") for name in NUMBERS] if key == keys.policy else stored.values()
            try:
                if odd := next((value for value in own if not _WHOLE.fullmatch(value)), None):
                    raise ValueError(f"{odd[:60]!r} is no whole number")
                if key == keys.policy:
                    merge_policy(queue, stored, {})
                    read_fields(stored.get(BODY_FIELDS))
            except (ValueError, TypeError, ConfigurationError) as error:
                yield Finding("keys", "problem", f"queue {queue}: {key} can't be read ({error}); correct it with HSET")


def _numbers(link: Link, queue: str, shards: list[ShardKeys], limit: int | None, most: int) -> Iterator[Finding]:
    """How far a group has come, where no client of ours wrote it: appends to the group and claims of it fail."""
    count = 0
    for keys in shards:
        is_sequence = link.command("HGET", keys.policy, "sequence") == b"1"
        for key in (keys.numbers, keys.marks, keys.marks_old):
            if link.command("TYPE", key) not in (b"hash", b"none"):
                continue  # the check of invariants finds it
            wanted, example = (_NUMBERS, "#57") if is_sequence or key == keys.numbers else (SCORE, "57.5")
            for group, mark in hash_pairs(link, key, limit):
                if group and not wanted.fullmatch(mark):  # "": see lua/parts/memory/remember_marks
                    count += 1
                    if count <= most:
                        parts = decode_group(text(group))
                        said = f"{key} says {mark[:60]!r}, not how far it has come, such as {example}"
                        said = f"queue {queue}: group {named(parts)}: {said}; correct it with HSET"
                        yield Finding("keys", "problem", said, group=parts)
    if count > most:
        yield Finding("keys", "problem", f"queue {queue}: and {count - most:,} more like these")


def _shard_clocks(link: Link, queue: str, shards: list[ShardKeys]) -> Iterator[Finding]:
    """A shard clock ahead of the server's time: that was set back, or another server's data were loaded."""
    now_us = micros(link.command("TIME"))
    ahead_s = 0.0
    for keys in shards:
        clock, _ = reply_or_error(link, "GET", keys.clock)
        if clock and clock.isdigit():
            ahead_s = max(ahead_s, (int(clock) - now_us) / 1e6)
    if ahead_s > MAX_CLOCK_OFF_S:
        text = f"the shard clock is {ahead_s:.1f} s ahead of the server's time, which was set back"
        yield Finding(
            "clock", "warning", f"queue {queue}: {text}; leases of dead consumers and delays end that much later"
        )


def _invariants(
    check: InvariantCheck,
    namespace: str,
    queue: str,
    repair: bool,
    limit: int | None,
    counted: Counter[bool],
    most: int,
) -> Iterator[Finding]:
    """What is broken in a queue, and how many things; these `counted` too, by whether they are repaired now."""
    counts: Counter[tuple[str, bool]] = Counter()
    for one in check.run():
        kind = one.check, one.repaired
        counts[kind] += 1
        counted[one.repaired] += 1
        if counts[kind] <= most:
            yield replace(one, text=f"queue {queue}: {one.text}")
    for (name, repaired), count in counts.items():
        if count > most:
            yield Finding(name, "problem", f"queue {queue}: and {count - most:,} more like these", repaired)
    if check.lost or check.emptied:
        gone = {"message": check.lost, "whole group": check.emptied}
        said = f"removed as lost: {' and '.join(many(count, name) for name, count in gone.items() if count)}; append "
        said += (
            "what is lost again from its source; ids that the server still knows as handled within dedup_window are "
        )
        yield Finding("messages", "warning", f"queue {queue}: {said}not added twice")
    repaired_count = sum(count for (_, repaired), count in counts.items() if repaired)
    left = counts.total() - repaired_count
    seen = f"groups: {check.groups:,}, messages: {check.messages:,}"
    if check.is_cut:
        yield Finding(
            "invariants",
            "warning",
            f"queue {queue}: stopped at the limit of {many(limit or 0, 'name')}; read were {seen}",
        )
    if not counts:
        yield Finding("invariants", "ok", f"queue {queue}: all hold ({seen})")
    else:
        level: Level = "problem" if left else "ok"
        repairing = command("doctor", queue, namespace=namespace, options=["--repair"])
        fix = "" if repair else f"; to repair what the data allow: {repairing}"
        yield Finding("invariants", level, f"queue {queue}: {repaired_count:,} repaired, {left:,} left ({seen}){fix}")
