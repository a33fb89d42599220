"""Checks the invariants of a queue's data, reading only. On a queue at rest, anything it finds is a defect.

1. A group is in the schedule exactly when it has messages.
2. A group's order and body hold the same messages, member by member; an empty group leaves no key.
3. Leases and failures belong to groups in the schedule; no token and no stamp lies ahead of the lane's clock.
4. Every record carries the stamp of its member, and a readable count of attempts.
5. A parked group has a failure, or waits for a missing number; a paused one is among the paused groups.
6. Dead letters and their contents belong together.
7. The lane has no other keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from .codec import FLAG_AT, STAMP_DIGITS
from .keys import PAUSED, LaneKeys
from .scripts import Link

PAGE = 500


def audit(link: Link, lanes: list[LaneKeys]) -> list[str]:
    """One sentence for each broken invariant; empty when all hold."""
    return [problem for keys in lanes for problem in _audit_lane(link, keys)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _audit_lane(link: Link, keys: LaneKeys) -> Iterator[str]:
    schedule = _scan_pairs(link, "ZSCAN", keys.schedule)
    paused = {_text(group) for group in link.command("SMEMBERS", keys.paused)}
    is_sequence = link.command("HGET", keys.policy, "sequence") == b"1"
    leases = _scan_pairs(link, "HSCAN", keys.leases)
    failures = _scan_pairs(link, "HSCAN", keys.failures)
    clock = int(link.command("GET", keys.clock) or 0)
    known = {getattr(keys, field.name) for field in fields(keys)} | {f"{keys.marks}:old", f"{keys.seen}:old"}
    order_prefix, body_prefix = keys.order(""), keys.body("")
    groups = set(schedule)
    for key in _scan_keys(link, keys.prefix):
        if key.startswith(order_prefix):
            groups.add(key.removeprefix(order_prefix))
        elif key.startswith(body_prefix):
            groups.add(key.removeprefix(body_prefix))
        elif key not in known:
            yield f"unknown key {key!r}"
    for group in sorted(groups):
        yield from _audit_group(link, keys, group, group in schedule, clock)
    for name, table in (("lease", leases), ("failure", failures)):
        for group in table.keys() - schedule.keys():
            yield f"group {group!r} has a {name} but is not in the schedule"
    for group, visible in schedule.items():
        if float(visible) == float("inf") and group not in failures and not is_sequence:
            yield f"group {group!r} is parked without a failure"
        if float(visible) == PAUSED and group not in paused:
            yield f"group {group!r} is held as paused, but is not among the paused groups"
    letters = _scan_pairs(link, "HSCAN", keys.letters).keys() ^ _scan_pairs(link, "ZSCAN", keys.dead).keys()
    for letter in sorted(letters):
        yield f"dead letter {letter!r} has no content, or no place in the list"
    for group, holder in leases.items():
        if int(holder[:STAMP_DIGITS]) > clock:
            yield f"group {group!r} has token {holder[:STAMP_DIGITS]!r} ahead of the clock {clock}"


def _audit_group(link: Link, keys: LaneKeys, group: str, is_scheduled: bool, clock: int) -> Iterator[str]:
    members = [_text(member) for member in link.command("ZRANGE", keys.order(group), 0, -1)]
    words = link.command("HGETALL", keys.body(group))
    records = {_text(key): record for key, record in zip(words[::2], words[1::2], strict=True)}
    if is_scheduled != bool(members):
        yield f"group {group!r} has {len(members)} messages but is {'' if is_scheduled else 'not '}in the schedule"
    ids = {member[STAMP_DIGITS:] for member in members}
    if len(ids) != len(members):
        yield f"group {group!r} holds an id twice"
    if ids != records.keys():
        yield f"group {group!r}: order and body differ in {sorted(ids ^ records.keys())[:5]}"
    for member in members:
        record = records.get(member[STAMP_DIGITS:])
        if record is None:
            continue
        if record[:STAMP_DIGITS].decode("latin-1") != member[:STAMP_DIGITS]:
            yield f"group {group!r}: record of {member!r} carries stamp {record[:STAMP_DIGITS]!r}"
        if not record[STAMP_DIGITS:FLAG_AT].isdigit():
            yield f"group {group!r}: record of {member!r} has attempts {record[STAMP_DIGITS:FLAG_AT]!r}"
        if int(member[:STAMP_DIGITS]) > clock:
            yield f"group {group!r}: stamp of {member!r} is ahead of the clock {clock}"


def _scan_pairs(link: Link, command: str, key: str) -> dict[str, bytes]:
    cursor = b"0"
    found: dict[str, bytes] = {}
    while True:
        cursor, words = link.command(command, key, cursor, "COUNT", PAGE)
        found.update((_text(name), value) for name, value in zip(words[::2], words[1::2], strict=True))
        if int(cursor) == 0:
            return found


def _scan_keys(link: Link, prefix: str) -> Iterator[str]:
    cursor = b"0"
    pattern = "".join(f"[{char}]" if char in "*?[]\\" else char for char in prefix) + "*"
    seen: set[str] = set()
    while True:
        cursor, names = link.command("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
        seen.update(_text(name) for name in names)
        if int(cursor) == 0:
            yield from sorted(seen)
            return
