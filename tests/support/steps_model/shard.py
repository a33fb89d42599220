"""The shard of a walk: the model of the scripts, which a test on the real server compares with them, and what walks see
of it as plain data. Time is a number that the walk sets, in ms.

A script never reads a ledger, but for whether there is one and its effects digit: a record holds a number for one here.
What a person answers is worked out by the client, and written behind a compare of the failure that was seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..model.operate import digest_of
from ..model.record import Cut
from ..model.shard import ModelShard
from .actions import Failure, Nack, Note
from .ledger import Ledger

BEGAN_US = 1_700_000_000_000_000
LEASE_MS = 1000


@dataclass(frozen=True)
class Record:
    """One message in the server."""

    id: str
    group: str
    kind: str
    score: int
    uid: int = 0
    """Which message it is; for the judge alone. It stays over reschedule, set aside and redrive."""
    fate: str = ""
    """late, expired, undecodable: why the next pass gives it up."""
    stamp: int = 0
    due: int = 0
    unanswered: int = 0
    ledger: Ledger | None = None
    serial: int = 0

    @property
    def member(self) -> str:
        return f"{self.stamp:016d}{self.id}"

    @property
    def envelope(self) -> str:
        return json.dumps([self.uid, self.kind, self.fate])


@dataclass(frozen=True)
class Told:
    """The failure of a group or of a dead letter, as it is kept."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.text)
        return fields

    @property
    def failure(self) -> Failure:
        reason, questions, missing = self.fields["failure"]
        return Failure(reason, tuple(questions), tuple(missing))

    @property
    def member(self) -> str:
        return str(self.fields["member"])

    def count(self, verdict: str) -> int:
        """How often in a row: "outages" or "missing"."""
        return int(self.fields.get(verdict, 0))


class Claim(NamedTuple):
    """What a consumer gets."""

    token: int
    records: tuple[Record, ...]
    told: Told | None


def token_text(token: int) -> str:
    return f"{token:016d}"


class Shard(ModelShard):
    """A control is a subclass with one rule changed."""

    def __init__(self) -> None:
        super().__init__()
        self._ledgers: list[Ledger] = []

    @property
    def now(self) -> int:
        return (self.now_us - BEGAN_US) // 1000

    @now.setter
    def now(self, ms: int) -> None:
        self.now_us = BEGAN_US + ms * 1000

    # -- what lies there ------------------------------------------------------------------------------------------

    def records(self, group: str) -> list[Record]:
        """In their order."""
        order = self.orders.get(group, {})
        return [self._record(group, self.bodies[group][one[16:]], one[16:], order[one]) for one in self.members(group)]

    def everything(self) -> list[Record]:
        return [record for group in self.orders for record in self.records(group)]

    def stuck(self) -> Iterator[tuple[Record, Told]]:
        """What waits for a person: heads of parked groups and dead letters, with their failures."""
        for group, at in self.schedule.items():
            told = Told(self.failures[group]) if math.isinf(at) else None
            yield from ((one, told) for one in self.records(group) if told and one.member == told.member)
        for letter, (score, record) in self.letters.items():
            group, _, id = letter[16:].partition("\n")
            yield self._record(group, record, id, score), Told(self.told[letter])

    def _record(self, group: str, text: str, id: str, score: float) -> Record:
        cut = Cut.of(text)
        uid, kind, fate = json.loads(cut.envelope)
        due = (int(cut.due) - BEGAN_US) // 1000 if cut.due else 0
        serial = int(cut.ledger[1:5], 16) if cut.ledger else 0
        own = int(cut.stamp), due, int(cut.attempts), self._ledger(cut.ledger[11:]), serial
        return Record(id, group, kind, int(score), uid, fate, *own)

    def _ledger(self, text: str) -> Ledger | None:
        """The script makes one that has its stamp alone."""
        return None if not text else self._ledgers[int(text)] if text.isdigit() else Ledger(json.loads(text)["k"])

    def text(self, ledger: Ledger | None, serial: int) -> str:
        """As it is written."""
        if ledger is None:
            return ""
        self._ledgers.append(ledger)
        number = str(len(self._ledgers) - 1)
        return f"{ledger.has_effects:d}{serial % 65536:04x}{len(number):06x}{number}"

    def fated(self, record: Record, fate: str) -> None:
        """Whatever a consumer will find wrong with a message; "" for nothing."""
        body = self.bodies[record.group]
        body[record.id] = replace(Cut.of(body[record.id]), envelope=replace(record, fate=fate).envelope).text()

    # -- producers ------------------------------------------------------------------------------------------------

    def append_record(self, record: Record, *, is_replacement: bool = False) -> bool:
        """Whether it is stored."""
        word = [record.group, record.id, f"{record.score}.0"]
        due = [1, f"{BEGAN_US + record.due * 1000}"] if record.due else []
        how = "replace" if is_replacement else "none"
        return self.append(how, "0", json.dumps([word, due, []]), record.envelope)[:1] == b"+"

    def cancel(self, record: Record) -> bool:
        return self.update(record.group, record.id, "", "") == b"done"

    def reschedule(self, record: Record, delay: int) -> bool:
        return self.update(record.group, record.id, "due", f"+{delay * 1000}") == b"done"

    def forget(self) -> None:
        """Ids of messages that are gone are not known any more; that of a dead letter is."""
        kept = {letter[16:] for letter in self.letters}
        for known in (self.seen.new, self.seen.old):
            for entry in known.keys() - kept:
                del known[entry]

    # -- consumers ------------------------------------------------------------------------------------------------

    def claim_group(self, group: str, most: int) -> Claim | None:
        """None where its head is not due."""
        reply = self.claim("me", str(LEASE_MS), "1", str(most), "1000000", "", "", "1", group)
        entries = json.loads(reply[2]) if len(reply) > 4 else []
        if not entries:
            return None
        records = tuple(self.records(group)[: len(entries[0][4]) // 2])
        told = Told(self.failures[group]) if group in self.failures else None
        return Claim(int(reply[1]), records, told if told and told.member == records[0].member else None)

    def is_there(self, record: Record) -> bool:
        return record.member in self.orders.get(record.group, {})

    def noted(self, token: int, record: Record, serial: int, before: str, note: Note) -> int:
        """As `save_step`; `before`: the member whose acknowledgement was sent in front of it."""
        ledger, progressed = self.text(note.ledger, serial), "1" if note.has_progressed else "0"
        return self.save_step(record.group, token_text(token), record.member, before, ledger, progressed)

    def acked(self, token: int, record: Record) -> bool:
        """Whether it was there, and is acknowledged."""
        was_there = self.is_there(record)
        words = [[record.group], [token_text(token)], ["0"], [""], [0], [1], [record.member]]
        return was_there and len(self.ack(json.dumps(words), "", "")) == 1

    def nacked(self, token: int, record: Record, serial: int, before: str, nack: Nack) -> int:
        """As `nack`; -1: the message was gone."""
        was_there, known = self.is_there(record), self.failures.get(record.group)
        seen = Told(known) if known and Told(known).member == record.member else None
        failure = nack.failure
        fields: dict[str, Any] = {"failure": [failure.reason, failure.questions, failure.missing]}
        fields |= {"member": record.member, "at": self.clock, "token": token}
        if nack.is_outage:
            fields["outages"] = (seen.count("outages") if seen else 0) + 1
        attempts = "" if nack.is_missing else "0" if nack.has_progressed or nack.ending in ("park", "dead") else ""
        verdict, ledger = ("missing", "") if nack.is_missing else ("", self.text(nack.ledger, serial))
        words = (record.group, token_text(token), record.member, attempts, str(nack.delay or 0), nack.ending)
        code = self.nack(*words, json.dumps(fields), "", "", verdict, "", before, ledger, "")
        return -1 if code == 1 and not was_there else code

    def release(self, group: str, token: int) -> None:
        self.ack(json.dumps([[group], [token_text(token)], ["1"], [""], [0], [0], []]), "", "")

    # -- persons --------------------------------------------------------------------------------------------------

    def resumed(self, record: Record, seen: Told, ledger: Ledger | None) -> bool:
        """Let a parked group go on, with what a person answered; False if it is not the failure that was seen."""
        is_done = self._decided(record, seen, self.text(ledger, record.serial + 1), "")
        if is_done:
            self.fated(record, "")
        return is_done

    def set_aside(self, record: Record, seen: Told) -> None:
        """The head of a parked group, with its ledger and its question."""
        self._decided(record, seen, "", "dead")

    def _decided(self, record: Record, seen: Told, ledger: str, ending: str) -> bool:
        words = [[record.group, digest_of(seen.text), record.member, "", ledger, ""]]
        is_parked = math.isinf(self.schedule.get(record.group, 0))
        return is_parked and self.resume(json.dumps(words), ending, "0")[0] == [b"resumed"]

    def redriven(self, record: Record, seen: Told, ledger: Ledger | None) -> bool:
        """Put a dead letter back into its place; False if it is not the failure that was seen."""
        words = [self.letter(record), digest_of(seen.text)]
        is_done = self.redrive("", json.dumps(words), self.text(ledger, record.serial + 1)) == b"+"
        if is_done:
            self.fated(record, "")
        return is_done

    def letter(self, record: Record) -> str:
        return f"{record.stamp:016d}{record.group}\n{record.id}"

    def age_out(self, record: Record, told: Told) -> bool:
        """`dead_window` and `dead_cap` leave a letter with an unresolved step."""
        if self.has_unresolved(told):
            return False
        for table in (self.letters, self.died, self.told):
            del table[self.letter(record)]
        return True

    def has_unresolved(self, told: Told) -> bool:
        return bool(told.failure.questions)
