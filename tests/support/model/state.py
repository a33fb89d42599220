"""The state of a shard in plain Python, and what several scripts do to it. The shard itself is in shard.py."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sequencer.calls.call import Call
from sequencer.settings.policy import Policy
from sequencer.store.watermark import Sequenced

from .record import Cut

PAUSED = 9e15


class Refused(Exception):
    """A call that the script answers with an error: nothing was changed."""


class Generations:
    """What stays known for a window of time, in two generations of bounded size."""

    def __init__(self) -> None:
        self.new: dict[str, str] = {}
        self.old: dict[str, str] = {}
        self.began: int | None = None
        self.last = 0
        self.old_last: int | None = None
        self.old_began = 0

    def get(self, key: str, now: int, window: int) -> str | None:
        if window > 0 and self.began is not None and now - self.last <= window and key in self.new:
            return self.new[key]
        if window > 0 and self.old_last is not None and now - self.old_last <= window:
            return self.old.get(key)
        return None

    def add(self, entries: dict[str, str], now: int, window: int, cap: int) -> None:
        if not entries or window <= 0:
            return
        if self.old_last is not None and now - self.old_last > window:
            self.old, self.old_last = {}, None
        if self.began is not None and (now - self.began > window or len(self.new) >= cap):
            self.old, self.old_last, self.old_began = self.new, self.last, self.began
            self.new, self.began = {}, None
        if self.began is None:
            self.began = now
        self.last = now
        self.new.update(entries)


def again(entry: str) -> str:
    """What notes that an id was appended again."""
    return f"\n{entry}"


def height(mark: str) -> float:
    """How high a watermark stands: a score, or the number that a sequence has come to."""
    return float(mark.removeprefix("#").split()[0])


def unit_of(score: float) -> str:
    """The unit of a score that is a time."""
    return "s" if score < 1e11 else "ms" if score < 1e14 else "us"


def due_score(time: str, unit: str) -> str:
    """A time, 16 digits of us, as a score."""
    whole = {"s": 10, "ms": 13, "us": 16}[unit]
    return f"{time[:whole]}.{time[whole:]}"


class ShardState:
    """State of a shard, and what several scripts do to it; `now_us` is set by the test."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now_us = 1_700_000_000_000_000
        self.policy: Any = (policy or Policy()).stored()
        self.clock = 0
        self.schedule: dict[str, float] = {}
        self.leases: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.orders: dict[str, dict[str, float]] = {}
        self.bodies: dict[str, dict[str, str]] = {}
        self.paused: set[str] = set()
        self.is_paused = False
        self.seen, self.marks = Generations(), Generations()
        self.numbers: dict[str, str] = {}
        self.letters: dict[str, tuple[float, str]] = {}
        self.died: dict[str, int] = {}
        self.told: dict[str, str] = {}
        """The failure of each letter."""
        self.relays: dict[str, int] = {}
        """Of each relay of an outbox the number of its last batch."""
        self.skipped: set[str] = set()
        """What was skipped last."""
        self.is_gap = False
        """Whether the message that was looked at last waits for a missing number."""

    def run(self, call: Call[Any]) -> Any:
        """Do what the script does and parse its reply as the client would."""
        args = [arg.decode() if isinstance(arg, bytes) else arg for arg in call.args]
        reply = getattr(self, call.script)(*args)
        return call.parse(reply)

    # -- what the scripts share -------------------------------------------------------------------------------

    @property
    def is_sequence(self) -> bool:
        return bool(self.policy["sequence"] == "1")

    def due(self) -> list[str]:
        return sorted((g for g, at in self.schedule.items() if at <= self.now_us), key=lambda g: (self.schedule[g], g))

    def members(self, group: str) -> list[str]:
        order = self.orders.get(group, {})
        return sorted(order, key=lambda member: (order[member], member))

    def holds(self, group: str, token: str) -> bool:
        """Whether this token may still change the group."""
        return self.leases.get(group, "")[:16] == token

    def mark(self, group: str) -> str:
        return self.numbers.get(group) or self.marks.get(group, self.now_us, int(self.policy["mark_us"])) or ""

    def pass_mark(self, marks: dict[str, str]) -> None:
        if self.is_sequence:
            self.numbers.update({group: mark for group, mark in marks.items() if self.orders.get(group)})
            marks = {group: mark for group, mark in marks.items() if not self.orders.get(group)}
        self.marks.add(marks, self.now_us, int(self.policy["mark_us"]), int(self.policy["mark_cap"]))

    def remember(self, ids: list[str]) -> None:
        entries = dict.fromkeys(ids, "")
        self.seen.add(entries, self.now_us, int(self.policy["dedup_us"]), int(self.policy["dedup_cap"]))

    def known_ids(self) -> list[tuple[dict[str, str], int]]:
        """The generations of ids that are valid, and when they began."""
        seen, window = self.seen, int(self.policy["dedup_us"])
        new = [(seen.new, seen.began)] if seen.began is not None and self.now_us - seen.last <= window else []
        old = (
            [(seen.old, seen.old_began)] if seen.old_last is not None and self.now_us - seen.old_last <= window else []
        )
        return [*new, *old] if window > 0 else []

    def note_again(self, entry: str) -> None:
        for known, _ in self.known_ids() if self.letters else ():
            if entry in known:
                known[again(entry)] = ""

    def forget_again(self, entry: str) -> None:
        for known in (self.seen.new, self.seen.old):
            known.pop(again(entry), None)

    def was_handled(self, entry: str, died: int) -> bool:
        return any(entry in known and (died < began or again(entry) in known) for known, began in self.known_ids())

    def wake(self, group: str, at: float) -> None:
        visible = self.schedule.get(group)
        if visible is not None and (visible == PAUSED or group in self.leases or group in self.failures):
            return
        self.schedule[group] = min(math.inf if visible is None else visible, max(at, self.now_us))

    def take(self, group: str, message_id: str) -> tuple[str, float] | None:
        record = self.bodies.get(group, {}).pop(message_id, None)
        if record is None:
            return None
        score = self.orders[group].pop(record[:16] + message_id)
        if record[:16] in self.failures.get(group, ""):
            del self.failures[group]
        return record, score

    def bury(self, group: str, member: str, score: float, record: str, failure: str = "") -> None:
        letter = f"{member[:16]}{group}\n{member[16:]}"
        self.told[letter] = failure
        self.letters[letter], self.died[letter] = (score, record), self.now_us
        self.forget_again(f"{group}\n{member[16:]}")

    def remove(self, group: str, members: list[str]) -> None:
        for member in members:
            self.orders.get(group, {}).pop(member, None)
            if self.bodies.get(group, {}).get(member[16:], "")[:16] == member[:16]:
                del self.bodies[group][member[16:]]

    def opens_at(self, member: str, score: float, record: str, mark: str) -> float:
        """From when on a message may be handled at the head of its group; 0 for now."""
        at, arrived = 0.0, int(member[:16])
        self.is_gap = False
        if record[20] in "DTdt":
            at = int(record[21:37])
        if int(self.policy["window_us"]) and record[20] not in "Rr":
            at = max(at, arrived + int(self.policy["window_us"]))
        if self.is_sequence and record[20] not in "Rr" and score > Sequenced.parse(mark).number + 1:
            ends = arrived + int(self.policy["gap_us"])
            if ends > self.now_us:
                self.is_gap = ends >= at
                at = max(at, ends)
            elif self.policy["on_gap"] == "park":
                self.is_gap = True
                return math.inf
        return at if at > self.now_us else 0.0

    def is_protected(self, record: str) -> bool:
        """Effects that were noted are not thrown away by cancel, replace and discard."""
        return Cut.of(record).has_effects

    def rewritten(self, record: str, attempts: str, ledger: str) -> str:
        """With this count and this ledger; "" leaves each."""
        cut = Cut.of(record).with_ledger(ledger)
        return replace(cut, attempts=f"{int(attempts):04d}" if attempts else cut.attempts).text()

    # -- for tests --------------------------------------------------------------------------------------------

    def drop_empty(self) -> None:
        for group in [group for group, order in self.orders.items() if not order]:
            if group in self.numbers:
                self.pass_mark({group: self.numbers.pop(group)})
            for table in (self.orders, self.bodies, self.schedule, self.leases, self.failures):
                table.pop(group, None)
        for group in [group for group, body in self.bodies.items() if not body]:
            del self.bodies[group]

    def problems(self) -> list[str]:
        """Broken invariants, as the check of invariants would say."""
        found = []
        if self.schedule.keys() != self.orders.keys():
            found.append(f"schedule {sorted(self.schedule)} but messages in {sorted(self.orders)}")
        found += [
            f"{g}: order and body differ" for g, o in self.orders.items() if {m[16:] for m in o} != set(self.bodies[g])
        ]
        found += [f"lease on {group}, which is not scheduled" for group in self.leases.keys() - self.schedule.keys()]
        found += [
            f"{g} is parked without a failure"
            for g, at in self.schedule.items()
            if math.isinf(at) and g not in self.failures and not self.is_sequence
        ]
        return found
