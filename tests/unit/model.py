"""A model of one lane in plain Python: takes the same calls as the scripts, answers in the same bytes.

Written from the scripts' contracts, not from their code: where the two differ, one of them is wrong (a test on the real
server feeds both the same calls).
"""

from __future__ import annotations

import json
import math
from typing import Any

from sequencer.calls import Call
from sequencer.policy import Policy, Sequenced

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
            self.old, self.old_last, self.new, self.began = self.new, self.last, {}, None
        if self.began is None:
            self.began = now
        self.last = now
        self.new.update(entries)


class ModelLane:
    """State of a lane; `now_us` is set by the test."""

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
        self.letters: dict[str, tuple[float, str]] = {}

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
        return self.marks.get(group, self.now_us, int(self.policy["mark_us"])) or ""

    def pass_mark(self, marks: dict[str, str]) -> None:
        self.marks.add(marks, self.now_us, int(self.policy["mark_us"]), int(self.policy["mark_cap"]))

    def remember(self, ids: list[str]) -> None:
        entries = dict.fromkeys(ids, "")
        self.seen.add(entries, self.now_us, int(self.policy["dedup_us"]), int(self.policy["dedup_cap"]))

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

    def bury(self, group: str, member: str, score: float, record: str) -> None:
        self.letters[f"{member[:16]}{group}\n{member[16:]}"] = (score, record)

    def remove(self, group: str, members: list[str]) -> None:
        for member in members:
            self.orders.get(group, {}).pop(member, None)
            if self.bodies.get(group, {}).get(member[16:], "")[:16] == member[:16]:
                del self.bodies[group][member[16:]]

    def opens_at(self, member: str, score: float, record: str, mark: str) -> float:
        """From when on a message may be handled at the head of its group; 0 for now."""
        at, arrived = 0.0, int(member[:16])
        if record[20] in "DT":
            at = int(record[21:37])
        if int(self.policy["window_us"]) and record[20] != "R":
            at = max(at, arrived + int(self.policy["window_us"]))
        if self.is_sequence and score > Sequenced.parse(mark).number + 1:
            ends = arrived + int(self.policy["gap_us"])
            if ends > self.now_us:
                at = max(at, ends)
            elif self.policy["on_gap"] == "park":
                return math.inf
        return at if at > self.now_us else 0.0

    # -- the scripts ------------------------------------------------------------------------------------------

    def append(self, _prefix: str, on_conflict: str, _now: str, words: str, *envelopes: str) -> bytes:
        items = json.loads(words)
        for word in items:
            if self.is_sequence and not (word[2] and float(word[2]) >= 0 and float(word[2]).is_integer()):
                raise Refused("SEQUENCE")
        base = max(self.clock, self.now_us - 1)
        self.clock = base + len(items)
        before = {group: (dict(self.orders.get(group, {})), dict(self.bodies.get(group, {}))) for group, *_ in items}
        marks: list[str] = []
        ready: list[tuple[str, float]] = []
        late: list[tuple[str, str, str, str, str]] = []
        for i, (word, envelope) in enumerate(zip(items, envelopes, strict=True), 1):
            marks.append(self.append_one(word, f"{base + i:016d}", envelope, on_conflict, ready, late))
        if on_conflict not in ("others", "replace") and any(mark[0] in "!#<" for mark in marks):
            for group, (order, body) in before.items():
                self.orders[group], self.bodies[group] = order, body
        else:
            for group, at in ready:
                self.wake(group, at)
            for group, message_id, stamp, score, record in late:
                if record:
                    self.bury(group, stamp + message_id, float(score), record)
                if stamp:
                    self.remember([f"{group}\n{message_id}"])
        self.drop_empty()
        return "".join(marks).encode()

    def append_one(
        self, word: list[str], stamp: str, envelope: str, on_conflict: str, ready: list[Any], late: list[Any]
    ) -> str:
        group, message_id, score, *rest = word
        due, flag, at, given = "", "0", float(self.now_us), score
        if rest:
            due = f"{self.now_us + int(rest[0]) if rest[0][0] == '+' else int(rest[0]):016d}"
            at, flag = float(due), "D" if score else "T"
        if not score:
            score = f"{(due or stamp)[:10]}.{(due or stamp)[10:]}"
        if int(self.policy["window_us"]):
            at = max(at, int(stamp) + int(self.policy["window_us"]))
        known = self.bodies.get(group, {}).get(message_id)
        if known is None:
            fate = self.fate(group, message_id, score, on_conflict)
            if fate == "=":
                return "=" + "0" * 16
            record = stamp + "0000" + flag + due + envelope
            if fate != "+":
                if fate != "#":
                    late.append((group, message_id, stamp if fate != "<" else "", score, record if fate == "x" else ""))
                return fate + stamp
        elif on_conflict == "replace":
            self.take(group, message_id)
            record = stamp + "0000" + flag + due + envelope
        else:
            start = 37 if known[20] in "DT" else 21
            same = known[start:] == envelope
            if same and given:
                same = self.orders[group][known[:16] + message_id] == float(given)
            if same and rest and rest[0][0] != "+" and known[20] != "R":
                same = known[20] in "DT" and int(known[21:37]) == int(rest[0])
            return ("=" if same else "!") + known[:16]
        self.bodies.setdefault(group, {})[message_id] = record
        self.orders.setdefault(group, {})[stamp + message_id] = float(score)
        ready.append((group, at))
        return "+" + stamp

    def fate(self, group: str, message_id: str, score: str, on_conflict: str) -> str:
        """What becomes of a message whose id is not pending."""
        window = int(self.policy["dedup_us"])
        if on_conflict != "replace" and self.seen.get(f"{group}\n{message_id}", self.now_us, window) is not None:
            return "="
        mark = self.mark(group)
        if self.is_sequence:
            if float(score) in self.orders.get(group, {}).values():
                return "#"
            if not mark:
                return "+"
            state, number = Sequenced.parse(mark), int(float(score))
            is_skipped = any(first <= number <= last for first, last in state.skipped)
            return "+" if number > state.number or is_skipped else "="
        on_late = self.policy["on_late"]
        if on_late == "handle" or not mark or float(score) >= float(mark):
            return "+"
        return {"refuse": "<", "drop": "~", "dead_letter": "x"}[on_late]

    def claim(self, _prefix: str, owner: str, lease_ms: str, groups: str, messages: str, size: str, _now: str) -> Any:
        due = [] if self.is_paused else self.due()
        if self.is_paused:
            return [self.now_us, b"", len(self.schedule), len(self.schedule)]
        if not due:
            first = min(self.schedule.values(), default=None)
            held = sum(1 for at in self.schedule.values() if at >= PAUSED)
            word = b"" if first is None else b"inf" if math.isinf(first) else str(int(first)).encode()
            return [self.now_us, word, len(self.schedule), held]
        token = f"{max(self.clock + 1, self.now_us):016d}"
        room, left = int(messages), int(size)
        entries: list[list[Any]] = []
        records = ""
        for group in due[: int(groups) + 1]:
            holder = self.leases.get(group)
            if len(entries) == int(groups) or room <= 0 or left <= 0 or (holder and entries):
                break
            if group in self.paused:
                self.schedule[group] = PAUSED
                continue
            mark = known = self.mark(group)
            if self.is_sequence:
                mark = mark or "#"
            entry: list[Any] = [group, holder[17:] if holder else "", mark, self.policy["on_late"]]
            put_off = 0.0
            for member in self.members(group)[: 1 if holder else room]:
                record, score = self.bodies[group][member[16:]], self.orders[group][member]
                put_off = self.opens_at(member, score, record, known)
                if put_off:
                    break
                if self.is_sequence and score > Sequenced.parse(known).number:
                    known = f"#{int(score)}"
                if holder and holder[16] == "1":
                    record = f"{record[:16]}{int(record[16:20]) + 1:04d}{record[20:]}"
                    self.bodies[group][member[16:]] = record
                left -= len(record)
                if left < 0 and (entries or len(entry) > 4):
                    break
                entry += [member, repr(score), len(record)]
                records += record
                room -= 1
            if put_off and len(entry) == 4:
                self.schedule[group] = put_off
                self.leases.pop(group, None)
                self.failures.pop(group, None)
                continue
            if len(entry) == 4:
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

    def ack(self, _prefix: str, words: str, _hint: str, _now: str, _length: str, _runs: str) -> list[int]:
        stale = []
        marks: dict[str, str] = {}
        ids: list[str] = []
        for position, (group, token, release, mark, _late, *members) in enumerate(json.loads(words), 1):
            if not self.holds(group, token):
                stale.append(position)
                continue
            self.remove(group, members)
            ids += [f"{group}\n{member[16:]}" for member in members]
            if members:
                self.failures.pop(group, None)
                if mark:
                    marks[group] = mark
            if release == "1" or not self.orders.get(group):
                self.schedule[group] = self.now_us
                self.leases.pop(group)
            self.drop_empty()
        self.remember(ids)
        self.pass_mark(marks)
        return stale

    def nack(
        self,
        _p: str,
        group: str,
        token: str,
        member: str,
        attempts: str,
        delay_ms: str,
        failure: str,
        mark: str,
        _is_late: str,
        _now: str,
    ) -> int:
        if not self.holds(group, token):
            return 0
        self.leases.pop(group)
        record = self.bodies.get(group, {}).get(member[16:], "")
        self.schedule[group] = self.now_us
        if record[:16] == member[:16]:
            record = f"{record[:16]}{int(attempts):04d}{record[20:]}"
            self.bodies[group][member[16:]] = record
        if member not in self.orders.get(group, {}):
            pass  # cancelled or replaced meanwhile
        elif delay_ms in ("dead", "drop"):
            if delay_ms == "dead":
                self.bury(group, member, self.orders[group][member], record)
            self.remove(group, [member])
            self.remember([f"{group}\n{member[16:]}"])
            self.pass_mark({group: mark} if mark else {})
            self.failures.pop(group, None)
        else:
            self.failures[group] = failure
            self.schedule[group] = math.inf if delay_ms == "park" else self.now_us + int(delay_ms) * 1000
        self.drop_empty()
        return 1

    def renew(self, words: str, lease_ms: str, _now: str) -> list[int]:
        stale = []
        for position, (group, token) in enumerate(json.loads(words), 1):
            if self.holds(group, token):
                self.schedule[group] = self.now_us + int(lease_ms) * 1000
            else:
                stale.append(position)
        return stale

    def revise(self, _p: str, group: str, message_id: str, score: str, due: str, _now: str) -> bytes:
        stamp = max(self.clock + 1, self.now_us)
        record, lease = self.bodies.get(group, {}).get(message_id), self.leases.get(group)
        if record is None:
            return b"missing"
        has_due = record[20] in "DT"
        if lease and max(int(record[:16]), int(record[21:37]) if has_due else 0) <= int(lease[:16]):
            return b"leased"
        taken = self.take(group, message_id)
        assert taken is not None
        if score:
            self.clock = stamp
            at = f"{self.now_us + int(due) if due[0] == '+' else int(due):016d}"
            flag = "T" if score == "due" and record[20] == "T" else "D"
            number = taken[1] if score == "due" else float(score)
            if flag == "T" and score == "due":
                number = float(f"{at[:10]}.{at[10:]}")
            self.orders[group][f"{stamp:016d}{message_id}"] = number
            self.bodies[group][message_id] = f"{stamp:016d}0000{flag}{at}{record[37 if has_due else 21 :]}"
        self.wake(group, self.now_us)
        self.drop_empty()
        return b"done"

    def pause(self, _p: str, group: str, is_paused: str, _now: str) -> int:
        before = self.is_paused if not group else group in self.paused
        if not group:
            self.is_paused = is_paused == "1"
        elif is_paused == "1":
            self.paused.add(group)
        else:
            self.paused.discard(group)
            if self.schedule.get(group) == PAUSED:
                self.schedule[group] = self.now_us
        return int(before != (is_paused == "1"))

    def redrive(self, _p: str, words: str, _now: str) -> bytes:
        marks, self.clock = "", self.clock or self.now_us
        for letter in json.loads(words):
            stamp, (group, _, message_id) = letter[:16], letter[16:].partition("\n")
            if letter not in self.letters:
                marks += "-"
            elif message_id in self.bodies.get(group, {}):
                marks += "="
            else:
                score, record = self.letters.pop(letter)
                envelope = record[37 if record[20] in "DT" else 21 :]
                self.bodies.setdefault(group, {})[message_id] = f"{stamp}0000R{envelope}"
                self.orders.setdefault(group, {})[stamp + message_id] = score
                self.wake(group, self.now_us)
                marks += "+"
        return marks.encode()

    def resume(self, _p: str, group: str, failure: str, member: str, skip: str, mark: str, _now: str) -> Any:
        visible = self.schedule.get(group)
        if visible is None:
            return [b"missing", b"", b""]
        if group in self.leases and visible < PAUSED:
            return [b"leased", b"", b""]
        if self.failures.get(group, "") != failure:
            return [b"changed", b"", b""]
        if skip == "1" and not member:
            return [b"unfailed", b"", b""]
        if skip != "1" and visible <= self.now_us:
            return [b"due", b"", b""]
        if not failure and not math.isinf(visible):
            return [b"unfailed", b"", b""]
        score, record = "", ""
        if member:
            score = repr(self.orders.get(group, {}).get(member, ""))
            record = self.bodies.get(group, {}).get(member[16:], "")
            record = record if record[:16] == member[:16] else ""
            if skip == "1":
                self.remove(group, [member])
                self.remember([f"{group}\n{member[16:]}"])
                self.pass_mark({group: mark} if mark else {})
            elif record:
                self.bodies[group][member[16:]] = f"{record[:16]}0000{record[20:]}"
        self.failures.pop(group, None)
        if visible != PAUSED:
            self.schedule[group] = self.now_us
        self.drop_empty()
        return [b"resumed", (score if skip == "1" else "").encode(), (record if skip == "1" else "").encode()]

    # -- for tests --------------------------------------------------------------------------------------------

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
        found += [
            f"{g} is parked without a failure"
            for g, at in self.schedule.items()
            if math.isinf(at) and g not in self.failures and not self.is_sequence
        ]
        return found
