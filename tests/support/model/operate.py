"""The scripts of the model that people use rather than consumers. The lane itself is in lane.py."""

from __future__ import annotations

import json
import math
from typing import Any

from .state import PAUSED, LaneState


class MendedLane(LaneState):
    """Is mended by hand."""

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
        if not score:
            self.forget_again(f"{group}\n{message_id}")
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
            elif self.was_handled(f"{group}\n{message_id}", self.died[letter]):
                marks += "~"
            else:
                score, record = self.letters.pop(letter)
                if self.is_sequence and self.mark(group):
                    self.numbers[group] = self.mark(group)
                envelope = record[37 if record[20] in "DT" else 21 :]
                self.bodies.setdefault(group, {})[message_id] = f"{stamp}0000R{envelope}"
                self.orders.setdefault(group, {})[stamp + message_id] = score
                self.note_again(f"{group}\n{message_id}")
                self.wake(group, self.now_us)
                marks += "+"
        return marks.encode()

    def resume(self, _p: str, group: str, failure: str, member: str, ending: str, mark: str, _now: str) -> Any:
        visible = self.schedule.get(group)
        if visible is None:
            return [b"missing", b"", b""]
        if group in self.leases and visible < PAUSED:
            return [b"leased", b"", b""]
        if self.failures.get(group, "") != failure:
            return [b"changed", b"", b""]
        if ending and not member:
            return [b"unfailed", b"", b""]
        if not ending and visible <= self.now_us:
            return [b"due", b"", b""]
        if not failure and not math.isinf(visible):
            return [b"unfailed", b"", b""]
        score, record = "", ""
        if member:
            score = repr(self.orders.get(group, {}).get(member, ""))
            record = self.bodies.get(group, {}).get(member[16:], "")
            record = record if record[:16] == member[:16] else ""
            if ending:
                if ending == "dead":
                    self.bury(group, member, self.orders[group][member], record)
                else:
                    self.skipped = {f"{member[:16]}{group}\n{member[16:]}"}
                self.remove(group, [member])
                self.remember([f"{group}\n{member[16:]}"])
                self.pass_mark({group: mark} if mark else {})
            elif record:
                self.bodies[group][member[16:]] = f"{record[:16]}0000{record[20:]}"
        self.failures.pop(group, None)
        if visible != PAUSED:
            self.schedule[group] = self.now_us
        self.drop_empty()
        return [b"resumed", (score if ending else "").encode(), (record if ending else "").encode()]

    def resume_many(self, _p: str, words: str, ending: str, _now: str) -> bytes:
        marks = ""
        for group, digest, member, mark in json.loads(words):
            failure = self.failures.get(group)
            if failure is None or not math.isinf(self.schedule.get(group, 0)):
                marks += "-"
            elif f"{len(failure.encode())} {failure[-400:]}" != digest:
                marks += "!"
            else:
                kept, first = self.skipped, member or self.members(group)[0]
                self.resume(_p, group, failure, first, ending, mark if ending else "", _now)
                self.skipped = kept
                marks += "+"
        return marks.encode()
