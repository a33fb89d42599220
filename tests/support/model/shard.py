"""A model of one shard in plain Python: takes the same calls as the scripts, answers in the same bytes.

Written from the scripts' contracts, not from their code: where the two differ, one of them is wrong (a test on the real
server feeds both the same calls).
"""

from __future__ import annotations

import json
import math
from typing import Any

from sequencer.settings.options import SIZE_BESIDE
from sequencer.store.watermark import Sequenced

from ..arrivals import acknowledgements
from .append import ArrivingShard
from .operate import FixedShard
from .record import Cut, is_newer
from .state import PAUSED, height


class ModelShard(ArrivingShard, FixedShard):
    """A shard with the scripts that test_model_agrees feeds; here those that consumers use."""

    def claim(
        self,
        owner: str,
        lease_ms: str,
        groups: str,
        messages: str,
        size: str,
        ahead: str,
        alone: str,
        failures: str,
        only: str,
        suspects: str = "",
    ) -> Any:
        due = [] if self.is_paused else [group for group in self.due() if only in ("", group)]
        if self.is_paused:
            return [self.now_us, b"", len(self.schedule), len(self.schedule)]
        if not due:
            first = min(self.schedule.values(), default=None)
            held = sum(1 for at in self.schedule.values() if at >= PAUSED)
            word = b"" if first is None else b"inf" if math.isinf(first) else str(int(first)).encode()
            return [self.now_us, word, len(self.schedule), held]
        token = f"{max(self.clock + 1, self.now_us):016d}"
        room, left, eighth = int(messages), int(size), math.ceil(int(messages) / 8)
        entries: list[list[Any]] = []
        records: list[bytes] = []
        halted: list[list[str]] = []
        most, parts = int(groups), min(len(due), int(groups))
        if alone:
            most, parts = max(1, min(most, len(due) // 2)), len(due)
            room = max(room, int(alone)) if len(due) == 1 else room
        may_take, has_suspect = int(suspects.lstrip("-") or 0), suspects.startswith("-")
        each = room if alone and len(due) == 1 else math.ceil(int(messages) / int(groups))
        passed, some, left_behind = 0, due[: most + 1], 0
        for index, group in enumerate(some):
            holder = self.leases.get(group)
            if len(entries) == most or room <= 0 or left <= 0:
                break
            if holder and not suspects and (entries or ahead == "1"):
                break
            passed += 1
            if group in self.paused:
                self.schedule[group] = PAUSED
                continue
            is_charged = holder is not None and holder[16] == "1"
            if holder and suspects and (may_take == 0 or (is_charged and has_suspect)):
                self.schedule[group] = self.now_us
                left_behind += 1
                continue
            mark = known = self.mark(group)
            if self.is_sequence:
                mark = mark or "#"
            places: list[str] = []
            deferred = 0.0
            still = parts - index
            quota = min(room, math.ceil(room / max(1, still)) if still < 8 else eighth)
            quota = min(room, each) if suspects else quota
            for member in self.members(group)[: 1 if holder else quota]:
                record, score = self.bodies[group][member[16:]], self.orders[group][member]
                deferred = self.opens_at(member, score, record, known)
                if deferred:
                    break
                if self.is_sequence and record[20] not in "Rr" and score > Sequenced.parse(known).number:
                    known = f"#{int(score)}"
                if holder and holder[16] == "1":
                    record = f"{record[:16]}{int(record[16:20]) + 1:04d}{record[20:]}"
                    self.bodies[group][member[16:]] = record
                left -= len(record) + SIZE_BESIDE
                if left < 0 and records:
                    break
                places += [member, repr(score)]
                records.append(record.encode())
            if deferred and not places:
                until = "" if math.isinf(deferred) else f"{deferred:.0f}"
                head = self.members(group)[0]
                if self.is_gap:
                    halted.append([group, until, self.mark(group), repr(self.orders[group][head]), head[16:]])
                self.schedule[group] = deferred
                self.leases.pop(group, None)
                self.failures.pop(group, None)
                continue
            if not places:
                passed -= 1
                break
            room -= len(places) // 2
            entries.append([group, holder[17:] if holder else "", mark, self.policy["on_late"], places, "2"])
            self.clock = int(token)
            self.schedule[group] = self.now_us + int(lease_ms) * 1000
            self.leases[group] = token + "0" + owner
            if holder:
                self.leases[group] = token + "1" + owner
                if not suspects:
                    break
                may_take, has_suspect = 0 if is_charged else may_take - 1, True
        if len(entries) == 1 and ahead != "1" and not suspects:
            self.leases[entries[0][0]] = token + "1" + owner
        more = b"1" if not only and (len(some) > passed or len(self.due()) > left_behind) else b"0"
        told = [json.dumps(halted).encode()] if halted else []
        kept = [[n, self.failures[one[0]]] for n, one in enumerate(entries, 1) if one[0] in self.failures]
        if failures == "1" and kept:
            told = [*(told or [b""]), json.dumps(kept).encode()]
        return [self.now_us, token.encode(), json.dumps(entries).encode(), records, more, *told]

    def ack(self, words: str, _hint: str, _endings: str) -> list[int]:
        answer = [len(self.due())]
        marks: dict[str, str] = {}
        ids: list[str] = []
        for position, group, token, release, mark, members in acknowledgements(words):
            if not self.holds(group, token):
                answer.append(position)
                continue
            held, before = self.orders.get(group, {}), self.mark(group)
            is_first = all(member in held for member in members)
            self.remove(group, members)
            ids += [f"{group}\n{member[16:]}" for member in members]
            if members:
                self.failures.pop(group, None)
                if mark and (is_first or not before or height(mark) > height(before)):
                    marks[group] = mark
            if members and len(release) > 1 and self.members(group)[:1] != [release]:
                answer[0] += 1
            if release == "1" or not self.orders.get(group):
                self.schedule[group] = self.now_us
                self.leases.pop(group)
            self.drop_empty()
        self.remember(ids)
        self.pass_mark(marks)
        return answer

    def nack(
        self,
        group: str,
        token: str,
        member: str,
        attempts: str,
        delay_ms: str,
        ending: str,
        failure: str,
        mark: str,
        _is_late: str,
        verdict: str,
        _waits: str,
        before: str,
        ledger: str,
        _ended: str,
    ) -> int:
        """Not of outages: see tests/support/outage_shard.py."""
        if not self.holds(group, token):
            return 0
        if before in self.orders.get(group, {}):
            return -2
        if verdict == "missing":
            failure = self.missing(failure, self.failures.get(group, ""), member)
        self.leases.pop(group)
        record = self.bodies.get(group, {}).get(member[16:], "")
        self.schedule[group] = self.now_us
        if record[:16] == member[:16]:
            record = self.rewritten(record, attempts, ledger)
            self.bodies[group][member[16:]] = record
        if member not in self.orders.get(group, {}):
            pass  # cancelled or replaced meanwhile
        elif ending in ("dead", "drop"):
            if ending == "dead":
                self.bury(group, member, self.orders[group][member], record, failure)
            self.remove(group, [member])
            self.remember([f"{group}\n{member[16:]}"])
            self.pass_mark({group: mark} if mark else {})
            self.failures.pop(group, None)
        else:
            self.failures[group] = failure
            self.schedule[group] = math.inf if ending == "park" else self.now_us + int(delay_ms) * 1000
        self.drop_empty()
        return 1

    def missing(self, failure: str, before: str, member: str) -> str:
        """With how often in a row this message was released, and since when."""
        known = json.loads(before) if before.startswith('{"missing":') and member[:16] in before else {}
        count, since = known.get("missing", 0) + 1, known.get("missing_us", self.now_us)
        return f'{{"missing":{count},"missing_us":{since},{failure[1:]}'

    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        if not self.holds(group, token):
            return 0
        if before in self.orders.get(group, {}):
            return -2
        record = self.bodies.get(group, {}).get(member[16:], "")
        if record[:16] != member[:16]:
            return -1
        known = Cut.of(record).ledger
        if not known or is_newer(ledger, known):
            self.bodies[group][member[16:]] = self.rewritten(record, "0" if progressed == "1" else "", ledger)
        return 1

    def renew(self, words: str, lease_ms: str, alone: str) -> list[int]:
        stale = []
        for position, (group, token) in enumerate(json.loads(words), 1):
            if self.holds(group, token):
                self.schedule[group] = self.now_us + int(lease_ms) * 1000
                if alone == "1":
                    self.leases[group] = token + "1" + self.leases[group][17:]
            else:
                stale.append(position)
        return stale
