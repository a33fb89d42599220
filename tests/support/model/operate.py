"""The scripts of the model that people use rather than consumers. The shard itself is in shard.py."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from .record import Cut
from .state import PAUSED, ShardState, due_score, unit_of


def digest_of(failure: str) -> str:
    return f"{len(failure.encode())} {failure[-400:]}"


class FixedShard(ShardState):
    """Is fixed by hand."""

    def update(self, group: str, message_id: str, score: str, due: str) -> bytes:
        stamp = max(self.clock + 1, self.now_us)
        record, lease = self.bodies.get(group, {}).get(message_id), self.leases.get(group)
        if record is None:
            return b"missing"
        cut = Cut.of(record)
        in_progress = lease and max(int(cut.stamp), int(cut.due or 0)) <= int(lease[:16])
        if in_progress and not self.is_over(group):
            return b"leased"
        if not score and self.is_protected(record):
            return b"effects"
        taken = self.take(group, message_id)
        assert taken is not None
        if not score:
            self.forget_again(f"{group}\n{message_id}")
        if score:
            self.clock = stamp
            at = f"{self.now_us + int(due) if due[0] == '+' else int(due):016d}"
            unit = score if score in ("s", "ms", "us") else ""
            unit = unit_of(taken[1]) if score == "due" and cut.flag == "T" else unit
            if not cut.ledger and int(cut.due or 0) <= self.now_us:
                text = json.dumps({"k": int(cut.stamp), "s": []}, separators=(",", ":"))
                cut = replace(cut, ledger=f"00001{len(text):06x}{text}")
            number = float(due_score(at, unit)) if unit else taken[1] if score == "due" else float(score)
            self.orders[group][f"{stamp:016d}{message_id}"] = number
            moved = replace(cut, stamp=f"{stamp:016d}", attempts="0000", flag="T" if unit else "D", due=at)
            self.bodies[group][message_id] = moved.text()
        if in_progress:
            self.leases.pop(group, None)
        self.wake(group, self.now_us)
        self.drop_empty()
        return b"done"

    def is_over(self, group: str) -> bool:
        """Whether the group's lease ran out."""
        visible = self.schedule.get(group, math.inf)
        return group in self.leases and (visible <= self.now_us or visible == PAUSED)

    def pause(self, group: str, is_paused: str) -> int:
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

    def redrive(self, _from: str, words: str, ledger: str) -> bytes:
        marks, self.clock, pairs = "", self.clock or self.now_us, json.loads(words)
        for letter, digest in zip(pairs[::2], pairs[1::2], strict=True):
            stamp, (group, _, message_id) = letter[:16], letter[16:].partition("\n")
            if letter not in self.letters:
                marks += "-"
            elif digest and digest != digest_of(self.told.get(letter, "")):
                marks += "!"
            elif message_id in self.bodies.get(group, {}):
                marks += "="
            elif self.was_handled(f"{group}\n{message_id}", self.died[letter]):
                marks += "~"
            else:
                score, record = self.letters.pop(letter)
                if self.is_sequence and self.mark(group):
                    self.numbers[group] = self.mark(group)
                cut = Cut.of(record)
                cut = replace(cut, stamp=stamp, attempts="0000", flag="R", due="", ledger=ledger or cut.ledger)
                self.bodies.setdefault(group, {})[message_id] = cut.text()
                self.orders.setdefault(group, {})[stamp + message_id] = score
                self.note_again(f"{group}\n{message_id}")
                self.wake(group, self.now_us)
                marks += "+"
        return marks.encode()

    def resume(self, words: str, ending: str, is_bulk: str) -> Any:
        statuses, score, record = [], b"", b""
        for group, digest, member, mark, ledger, told in json.loads(words):
            given = group, digest, member, mark, ledger, told, ending
            status, score, record = self._resume(*given, is_bulk=is_bulk == "1")
            statuses.append(status)
        return [statuses, b"" if is_bulk == "1" else score, b"" if is_bulk == "1" else record]

    def _resume(
        self, group: str, digest: str, member: str, mark: str, ledger: str, told: str, ending: str, *, is_bulk: bool
    ) -> Any:
        visible, failure = self.schedule.get(group), self.failures.get(group, "")
        if is_bulk:
            if not failure or not math.isinf(visible or 0):
                return [b"gone", b"", b""]
            member = member or self.members(group)[0]
        if visible is None:
            return [b"missing", b"", b""]
        is_over = ending and self.is_over(group)
        if group in self.leases and visible < PAUSED and not is_over:
            return [b"leased", b"", b""]
        if (failure and digest_of(failure)) != digest:
            return [b"changed", b"", b""]
        if ending and not member:
            return [b"unfailed", b"", b""]
        if not ending and not ledger and visible <= self.now_us:
            return [b"due", b"", b""]
        if told:
            if not is_over:
                return [b"unfailed", b"", b""]
            if self.members(group)[:1] != [member]:
                return [b"changed", b"", b""]
            failure = told
        elif not failure and not math.isinf(visible):
            return [b"unfailed", b"", b""]
        score, record = "", ""
        if ending == "drop" and self.is_protected(self.bodies.get(group, {}).get(member[16:], "")):
            return [b"effects", b"", b""]
        if member:
            score = repr(self.orders.get(group, {}).get(member, ""))
            record = self.bodies.get(group, {}).get(member[16:], "")
            record = record if record[:16] == member[:16] else ""
            if ending:
                if ending == "dead":
                    self.bury(group, member, self.orders[group][member], record, failure)
                elif not is_bulk:
                    self.skipped = {f"{member[:16]}{group}\n{member[16:]}"}
                self.remove(group, [member])
                self.remember([f"{group}\n{member[16:]}"])
                self.pass_mark({group: mark} if mark else {})
            elif record:
                self.bodies[group][member[16:]] = self.rewritten(record, "0", ledger)
        self.failures.pop(group, None)
        self.leases.pop(group, None)
        if visible != PAUSED:
            self.schedule[group] = self.now_us
        self.drop_empty()
        return [b"resumed", (score if ending else "").encode(), (record if ending else "").encode()]
