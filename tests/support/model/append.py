"""The appending script of the model. The shard itself is in shard.py."""

from __future__ import annotations

import json
from typing import Any

from sequencer.store.watermark import Sequenced

from ..arrivals import arrivals
from .record import Cut
from .state import Refused, ShardState, due_score, unit_of


def content_of(envelope: str) -> str:
    """All but what stands behind a newline: the trace in which it was sent."""
    return envelope.partition("\n")[0]


class ArrivingShard(ShardState):
    """Takes messages in."""

    def append(self, *args: str) -> bytes:
        on_conflict, is_dry_run, items, envelopes = arrivals(args)
        assert not is_dry_run
        relay, *numbers = args[1].split(" ")
        if numbers:
            last, (number, least) = self.relays.get(relay, 0), map(int, numbers)
            if not least <= last < number:
                return f"F{last}".encode()
        ledgers = json.loads(args[2])[2] if args[2] else []
        self.appended = dict(zip(ledgers[::2], ledgers[1::2], strict=True))
        for word in items:
            if self.is_sequence and not (word[2] and float(word[2]) >= 0 and float(word[2]).is_integer()):
                raise Refused("SEQUENCE")
        base = max(self.clock, self.now_us - 1)
        self.clock = base + len(items)
        self.orders_before = {group: dict(order) for group, order in self.orders.items()}
        before = {group: (dict(self.orders.get(group, {})), dict(self.bodies.get(group, {}))) for group, *_ in items}
        marks: list[str] = []
        ready: list[tuple[str, float]] = []
        late: list[tuple[str, str, str, str, str]] = []
        for i, (word, envelope) in enumerate(zip(items, envelopes, strict=True), 1):
            marks.append(self.append_one(i, word, f"{base + i:016d}", envelope, on_conflict, ready, late))
        if on_conflict not in ("others", "replace") and any(mark[0] in "!#<*" for mark in marks):
            for group, (order, body) in before.items():
                self.orders[group], self.bodies[group] = order, body
        else:
            if numbers:
                self.relays[relay] = number
            for group, at in ready:
                if self.is_sequence and self.mark(group):
                    self.numbers[group] = self.mark(group)
                self.wake(group, at)
            for group, message_id, stamp, score, record in late:
                if record:
                    self.bury(group, stamp + message_id, float(score), record)
                if stamp:
                    self.remember([f"{group}\n{message_id}"])
        self.drop_empty()
        backlog = str(len(self.orders.get(items[0][0], {}))) if args[1] == "2" else ""
        return ("".join(marks) + backlog).encode()

    def append_one(
        self, i: int, word: list[str], stamp: str, envelope: str, on_conflict: str, ready: list[Any], late: list[Any]
    ) -> str:
        group, message_id, score, *rest = word
        due, unit, flag, at, given = "", "s", "0", float(self.now_us), score
        if rest:
            time = rest[0].rstrip("mus")
            unit = rest[0][len(time) :] or ("" if score else self.unit_for(group))
            due = f"{self.now_us + int(time) if time[0] == '+' else int(time):016d}"
            at, flag = float(due), "D" if score else "T"
        elif not score:
            flag = "A"
        if not score:
            score = due_score(due or stamp, unit)
        if int(self.policy["window_us"]):
            at = max(at, int(stamp) + int(self.policy["window_us"]))
        known = self.bodies.get(group, {}).get(message_id)
        record = Cut(stamp, "0000", flag, due, self.appended.get(i, ""), envelope).text()
        if known is not None and on_conflict != "replace":
            return self.compare(word, known, envelope, given)
        if known is not None and self.is_protected(known):
            fate = "*"
        elif known is not None:
            is_own = not self.is_sequence or self.orders[group][known[:16] + message_id] == float(score)
            fate = "+" if is_own else "!"
        else:
            fate = self.fate(group, message_id, score, on_conflict)
        if fate == "=":
            return "=" + "0" * 16
        if fate in "<~x":
            late.append((group, message_id, stamp if fate != "<" else "", score, record if fate == "x" else ""))
        if fate != "+":
            return fate + stamp
        if on_conflict == "replace":
            self.note_again(f"{group}\n{message_id}")
        if self.take(group, message_id):
            at = float(self.now_us)  # what lies behind the old one may be due
        self.bodies.setdefault(group, {})[message_id] = record
        self.orders.setdefault(group, {})[stamp + message_id] = float(score)
        ready.append((group, at))
        return "+" + stamp

    def unit_for(self, group: str) -> str:
        """The unit of a due time that is a score: as the scores that are there have it."""
        first = next(iter(sorted(self.schedule, key=lambda name: (self.schedule[name], name))), "")
        own, other = (max(self.orders_before.get(name, {}).values(), default=None) for name in (group, first))
        return unit_of(float(own if own is not None else self.mark(group) or other or 0))

    def compare(self, word: list[str], known: str, envelope: str, score: str) -> str:
        group, message_id, _, *rest = word
        cut = Cut.of(known)
        same = content_of(cut.envelope) == content_of(envelope)
        if same and score:
            same = self.orders[group][known[:16] + message_id] == float(score)
        if same and rest and rest[0][0] != "+" and cut.flag != "R":
            same = bool(cut.due) and int(cut.due) == int(rest[0].rstrip("mus"))
        return ("=" if same else "!") + known[:16]

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
