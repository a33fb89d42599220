"""A model of one lane in plain Python: takes the same calls as the scripts, answers in the same bytes.

Written from the scripts' contracts, not from their code: where the two differ, one of them is wrong (a test on the real
server feeds both the same calls).
"""

from __future__ import annotations

import json
import math
from typing import Any

from sequencer.calls import Call


class ModelLane:
    """State of a lane; `now_us` is set by the test."""

    def __init__(self) -> None:
        self.now_us = 1_700_000_000_000_000
        self.clock = 0
        self.schedule: dict[str, float] = {}
        self.leases: dict[str, str] = {}
        self.failures: dict[str, bytes] = {}
        self.orders: dict[str, dict[str, float]] = {}
        self.bodies: dict[str, dict[str, str]] = {}

    def run(self, call: Call[Any]) -> Any:
        """Do what the script does and parse its reply as the client would."""
        args = [arg.decode() if isinstance(arg, bytes) else arg for arg in call.args]
        reply = getattr(self, call.script)(*args)
        return call.parse(reply)

    def due(self) -> list[str]:
        return sorted((g for g, at in self.schedule.items() if at <= self.now_us), key=lambda g: (self.schedule[g], g))

    def members(self, group: str) -> list[str]:
        order = self.orders.get(group, {})
        return sorted(order, key=lambda member: (order[member], member))

    def holds(self, group: str, token: str) -> bool:
        """Whether this token may still change the group."""
        return self.leases.get(group, "")[:16] == token

    def append(self, _prefix: str, on_conflict: str, _now: str, words: str, *envelopes: str) -> bytes:
        marks, new = [], []
        base = max(self.clock, self.now_us - 1)
        items = json.loads(words)
        self.clock = base + len(items)
        for i, (group, message_id, score, envelope) in enumerate(
            ((*word, envelope) for word, envelope in zip(items, envelopes, strict=True)), 1
        ):
            stamp = f"{base + i:016d}"
            known = self.bodies.setdefault(group, {}).get(message_id)
            if known is None:
                self.bodies[group][message_id] = stamp + "0000" + envelope
                number = float(score) if score else int(stamp) / 1e6
                self.orders.setdefault(group, {})[stamp + message_id] = number
                new.append((group, stamp, message_id))
                marks.append("+" + stamp)
                continue
            same = known[20:] == envelope
            if same and score:
                same = self.orders[group][known[:16] + message_id] == float(score)
            marks.append(("=" if same else "!") + known[:16])
        if on_conflict != "others" and any(mark[0] == "!" for mark in marks):
            for group, stamp, message_id in new:
                del self.bodies[group][message_id], self.orders[group][stamp + message_id]
        else:
            for group, _, _ in new:
                self.schedule.setdefault(group, self.now_us)
        self.drop_empty()
        return "".join(marks).encode()

    def claim(self, _prefix: str, owner: str, lease_ms: str, groups: str, messages: str, size: str, _now: str) -> Any:
        due = self.due()
        if not due:
            first = min(self.schedule.values(), default=None)
            parked = sum(1 for at in self.schedule.values() if math.isinf(at))
            word = b"" if first is None else b"inf" if math.isinf(first) else str(int(first)).encode()
            return [self.now_us, word, len(self.schedule), parked]
        token = f"{max(self.clock + 1, self.now_us):016d}"
        room, left = int(messages), int(size)
        entries: list[list[Any]] = []
        records = ""
        for group in due:
            holder = self.leases.get(group)
            if len(entries) == int(groups) or room <= 0 or left <= 0 or (holder and entries):
                break
            entry: list[Any] = [group, holder[17:] if holder else ""]
            for member in self.members(group)[: 1 if holder else room]:
                record = self.bodies[group][member[16:]]
                if holder and holder[16] == "1":
                    record = f"{record[:16]}{int(record[16:20]) + 1:04d}{record[20:]}"
                    self.bodies[group][member[16:]] = record
                left -= len(record)
                if left < 0 and (entries or len(entry) > 2):
                    break
                entry += [member, repr(self.orders[group][member]), len(record)]
                records += record
                room -= 1
            if len(entry) == 2:
                break
            entries.append(entry)
            self.clock = int(token)
            self.schedule[group] = self.now_us + int(lease_ms) * 1000
            self.leases[group] = token + "0" + owner
            if holder:
                break
        if len(entries) == 1:
            self.leases[entries[0][0]] = token + "1" + owner
        return [self.now_us, token.encode(), json.dumps(entries).encode(), records.encode()]

    def ack(self, _prefix: str, words: str, _hint: str, _now: str) -> list[int]:
        stale = []
        for position, (group, token, release, *members) in enumerate(json.loads(words), 1):
            if not self.holds(group, token):
                stale.append(position)
                continue
            for member in members:
                self.orders.get(group, {}).pop(member, None)
                self.bodies.get(group, {}).pop(member[16:], None)
            if members:
                self.failures.pop(group, None)
            if release == "1" or not self.orders.get(group):
                self.schedule[group] = self.now_us
                self.leases.pop(group)
            self.drop_empty()
        return stale

    def nack(
        self, _p: str, group: str, token: str, member: str, attempts: str, delay_ms: str, failure: str, _now: str
    ) -> int:
        if not self.holds(group, token):
            return 0
        record = self.bodies[group].get(member[16:])
        if record is not None:
            self.bodies[group][member[16:]] = f"{record[:16]}{int(attempts):04d}{record[20:]}"
        self.failures[group] = failure.encode()
        self.schedule[group] = self.now_us + int(delay_ms) * 1000 if delay_ms else math.inf
        self.leases.pop(group)
        return 1

    def renew(self, words: str, lease_ms: str, _now: str) -> list[int]:
        stale = []
        for position, (group, token) in enumerate(json.loads(words), 1):
            if self.holds(group, token):
                self.schedule[group] = self.now_us + int(lease_ms) * 1000
            else:
                stale.append(position)
        return stale

    def drop_empty(self) -> None:
        for group in [group for group, order in self.orders.items() if not order]:
            for table in (self.orders, self.bodies, self.schedule, self.leases, self.failures):
                table.pop(group, None)  # type: ignore[attr-defined]
        for group in [group for group, body in self.bodies.items() if not body]:
            del self.bodies[group]

    def problems(self) -> list[str]:
        """Broken invariants, as the auditor would say."""
        found = []
        if self.schedule.keys() != self.orders.keys():
            found.append(f"schedule {sorted(self.schedule)} but messages in {sorted(self.orders)}")
        found += [
            f"{g}: order and body differ" for g, o in self.orders.items() if {m[16:] for m in o} != set(self.bodies[g])
        ]
        found += [f"lease on {group}, which is not scheduled" for group in self.leases.keys() - self.schedule.keys()]
        return found
