"""One shard as the scripts leave it: records with ledgers, leases, dead letters. Time is a number that the walk sets.

A script reads the ledger never, but for whether there is one and its effects digit. What a person answers is worked
out by the client, and written behind a compare of the failure that was seen.
"""

from __future__ import annotations

from dataclasses import replace

from .actions import Nack, Note
from .ledger import Ledger
from .record import Claim, Group, Record, Told

PARKED = float("inf")
LEASE = 1000


class Shard:
    """The scripts. A control is a subclass with one rule changed."""

    def __init__(self) -> None:
        self.now = 1
        self.clock = 0
        self.groups: dict[str, Group] = {}
        self.letters: dict[str, tuple[Record, Told]] = {}
        self.known: set[str] = set()

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    # -- producers ----------------------------------------------------------------------------------------------

    def append(self, record: Record, *, is_replacement: bool = False) -> str:
        """added, known, replaced, or refused: a message with effects is not replaced."""
        group = self.groups.setdefault(record.group, Group())
        before = group.records.get(record.id)
        if before is None and (record.id in self.known or record.id in self.letters):
            return "known"
        if before is not None and not is_replacement:
            return "known"
        if before is not None and self.is_protected(before):
            return "refused"
        group.records[record.id] = self.new(replace(record, stamp=self.tick()))
        if not group.token and group.visible != PARKED:
            group.visible = min(group.visible, record.due)
        self.told_of(group, before)
        return "replaced" if before else "added"

    def new(self, record: Record) -> Record:
        """A record has its own ledger, and a new one has none: nothing of another message is read."""
        return record

    def cancel(self, group_name: str, message_id: str) -> str:
        """cancelled, gone, or refused."""
        group = self.groups.get(group_name, Group())
        record = group.records.get(message_id)
        if record is None:
            return "gone"
        if self.is_protected(record):
            return "refused"
        self.remove(group, record)
        self.told_of(group, record)
        return "cancelled"

    def is_protected(self, record: Record) -> bool:
        """Effects that were noted are not thrown away by cancel and replace."""
        return record.has_effects

    def reschedule(self, group_name: str, message_id: str, due: int) -> bool:
        group = self.groups.get(group_name, Group())
        record = group.records.get(message_id)
        if record is None:
            return False
        moved = replace(record, stamp=self.tick(), due=due, ledger=self.rescheduled(record))
        group.records[message_id] = moved
        self.told_of(group, record)
        return True

    def rescheduled(self, record: Record) -> Ledger | None:
        """The stamp of its keys stays, unless its due time lies ahead: a first step may have begun without a note."""
        if record.ledger is None and record.due > self.now:
            return None
        return record.ledger or Ledger(record.stamp)

    # -- consumers ----------------------------------------------------------------------------------------------

    def due(self) -> list[str]:
        return [name for name, group in self.groups.items() if self.is_due(group)]

    def is_due(self, group: Group) -> bool:
        head = next(iter(group.ordered()), None)
        return head is not None and max(group.visible, head.due) <= self.now

    def claim(self, name: str, most: int) -> Claim:
        group = self.groups[name]
        records = [record for record in group.ordered() if record.due <= self.now][:most]
        if group.token:  # its holder said nothing
            head = replace(records[0], unanswered=records[0].unanswered + 1)
            records[0] = group.records[head.id] = head
        group.token, group.visible = self.tick(), self.now + LEASE
        told = group.told if group.told and group.told.member == records[0].member else None
        return Claim(group.token, tuple(records), told)

    def note(self, name: str, token: int, record: Record, before: tuple[int, str] | None, note: Note) -> int:
        """1, or 0: the token is not valid; -1: the message is gone; -2: the one before it is still there."""
        code = self._checked(name, token, record, before)
        if code != 1:
            return code
        group = self.groups[name]
        held = group.records[record.id]
        if self.is_repeat(held, record.serial):
            return 1
        unanswered = self.counted(held, has_progressed=note.has_progressed)
        group.records[record.id] = replace(held, ledger=note.ledger, serial=record.serial, unanswered=unanswered)
        return 1

    def counted(self, held: Record, *, has_progressed: bool) -> int:
        """Leases without an answer since a step became done: ten long steps on a shaky machine end."""
        return 0 if has_progressed else held.unanswered

    def is_repeat(self, held: Record, serial: int) -> bool:
        """A late repeat of a note must not undo a later one."""
        return held.serial >= serial

    def ack(self, name: str, token: int, record: Record) -> int:
        code = self._checked(name, token, record, None)
        if code == 1:
            self.remove(self.groups[name], record)
            self.known.add(record.id)
        return code

    def nack(self, name: str, token: int, record: Record, before: tuple[int, str] | None, nack: Nack) -> int:
        code = self._checked(name, token, record, before)
        if code not in (1, -1):
            return code
        group = self.groups[name]
        if code == 1:
            self._failed(group, record, nack)
        else:
            group.visible = self.now
        group.token = 0
        return code

    def _failed(self, group: Group, record: Record, nack: Nack) -> None:
        held, before = group.records[record.id], group.told
        same = before if before and before.member == record.member else None
        told = Told(
            nack.failure,
            self.tick(),
            record.member,
            (same.outages if same else 0) + 1 if nack.is_outage else 0,
            (same.missing if same else 0) + 1 if nack.is_missing else 0,
        )
        unanswered = self.counted(held, has_progressed=nack.has_progressed)
        if not nack.is_missing:
            is_over = nack.ending in ("park", "dead")
            held = replace(held, ledger=nack.ledger, unanswered=0 if is_over else unanswered)
        group.records[record.id], group.told = held, told
        group.visible = PARKED if nack.ending == "park" else self.now + (nack.delay or 0)
        if nack.ending in ("dead", "drop"):
            self.remove(group, record)
            group.told = None
            if nack.ending == "dead":
                self.letters[record.id] = held, told

    def release(self, name: str, token: int) -> None:
        group = self.groups[name]
        if group.token == token:
            group.token, group.visible = 0, self.now

    def _checked(self, name: str, token: int, record: Record, before: tuple[int, str] | None) -> int:
        group = self.groups[name]
        if not self.is_valid(group, token):
            return 0
        if before is not None and self.is_before(group, before):
            return -2
        held = group.records.get(record.id)
        return 1 if held is not None and held.stamp == record.stamp else -1

    def is_valid(self, group: Group, token: int) -> bool:
        """Only the holder of the lease may write."""
        return group.token == token

    def is_before(self, group: Group, member: tuple[int, str]) -> bool:
        """Whether the message whose ack was sent with this call is still there."""
        return any(record.member == member for record in group.records.values())

    def remove(self, group: Group, record: Record) -> None:
        """The lease goes with the last message."""
        group.records.pop(record.id, None)
        group.token = group.token if group.records else 0

    def told_of(self, group: Group, record: Record | None) -> None:
        """A failure goes with the message that it tells of; its group is free then."""
        if record is not None and group.told is not None and group.told.member == record.member:
            group.told = None
            group.visible = group.visible if group.token else self.now

    # -- persons ------------------------------------------------------------------------------------------------

    def resume(self, name: str, seen: Told, ledger: Ledger | None) -> bool:
        """Let a parked group go on, with what a person answered; False if it is not the failure that was seen."""
        group = self.groups.get(name)
        if group is None or group.visible != PARKED or group.told != seen:
            return False
        record = next(one for one in group.records.values() if one.member == seen.member)
        group.records[record.id] = replace(record, ledger=ledger or record.ledger, unanswered=0, fate="")
        group.visible, group.told = self.now, None
        return True

    def skip(self, name: str, seen: Told) -> bool:
        """Set the head of a parked group aside, with its ledger and its question."""
        group = self.groups[name]
        if group.visible != PARKED or group.told != seen:
            return False
        record = next(one for one in group.records.values() if one.member == seen.member)
        self.letters[record.id] = record, seen
        self.remove(group, record)
        self.told_of(group, record)
        return True

    def redrive(self, message_id: str, seen: Told, ledger: Ledger | None) -> bool:
        """Put a dead letter back into its place; False if it is not the failure that was seen."""
        if message_id not in self.letters or not self.is_seen(message_id, seen):
            return False
        record, _ = self.letters.pop(message_id)
        group = self.groups.setdefault(record.group, Group())
        group.records[message_id] = replace(record, ledger=ledger or record.ledger, unanswered=0, fate="")
        return True

    def is_seen(self, message_id: str, seen: Told) -> bool:
        """Two persons at one letter: the second one's answer was to another failure."""
        return self.letters[message_id][1] == seen

    def age_out(self, message_id: str) -> bool:
        """`dead_window` and `dead_cap` leave a letter with an unresolved step."""
        if self.has_unresolved(self.letters[message_id][1]):
            return False
        del self.letters[message_id]
        return True

    def has_unresolved(self, told: Told) -> bool:
        return bool(told.failure.questions)
