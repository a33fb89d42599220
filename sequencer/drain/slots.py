"""The worker slots of one process: what they ask of the server, merged into one round trip at a time. Pure.

A slot is a `drain` generator with a Held; it holds one group at a time. All slots share the pending acks of each shard.
One thread alone asks the server. Under the lock that guards all of this it takes a `trip`, makes its calls without the
lock, and hands in what came of them, `answered` or `lost`.

Rules:
  - A slot has at most one question out. It is answered once all acks of its group were sent, too.
  - A leased group is given to one slot. It is not claimed again before its release was carried out, as one trip is out
    at a time, and acknowledgements stand in front of claims in it.
  - The acks of a lost trip are sent again, before those that came meanwhile. Its claims are forgotten, and
    those groups wait for the end of their leases.
  - A deadline is the slot's, counted from before its claim or renewal was sent.
  - Who asks for a group gets one, or hears that nothing is due. A waiting slot is not woken but for a group, until the
    time is over for which it wants to wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from ..calls.call import Call
from ..calls.claim import Claimed, Halted, claim
from ..calls.outage import Began, Ended
from ..calls.settle import renew, save_step
from ..settings.options import MAX_CLAIMED, ClaimLimits, Replicas
from ..settings.pace import ACK_AFTER_S, IDLE_S, RELEASE_S, RENEW_PART
from ..store.keys import ShardKeys
from .effects import Clock, Flush, Note, SettleAndClaim, Wait
from .held import Held, take_in
from .pending_acks import PendingAcks, Sending
from .suspects import Suspects

Question = SettleAndClaim | Flush | Note | Wait
Lease = tuple[str, str]  # of a group: its key, and the token
Answers = list[tuple["Slot", Any]]  # slots, and what each of their generators is sent; an Exception is thrown
MOST_GROUPS = 100  # that one claim takes: with more of them others would find none, and the answer is long
PATIENT_S = 30.0  # how long a slot waits that does not end by itself when nothing is due
NOTHING = Claimed([], was_ahead=True)
"""Answers a claim that was not sent, as its consumer ends: its drain checks whether it is over."""
SUSPECTS_AGAIN_S = 0.005
"""How long after a claim that took nothing, though something is due, the next one sets out."""


@dataclass(slots=True, eq=False)
class Slot:
    held: Held
    question: Question | None = None
    until: float = 0.0  # of a Wait: when it is over
    is_busy: bool = False
    lease: Lease | None = None  # of the group that it works on, until all its acks were sent
    reserved: int = 0  # how many messages it got with that
    counted: int = 0  # how many of its messages are in the count of all

    @property
    def shard(self) -> int | None:
        """Where it wants to claim."""
        return self.question.shard if isinstance(self.question, SettleAndClaim) else None


@dataclass(slots=True)
class Part:
    """What one shard is asked in a trip, in this order."""

    shard: int
    sending: Sending | None = None
    notes: list[tuple[Slot, Note]] = field(default_factory=list)
    renewed: list[Slot] = field(default_factory=list)
    stuck: list[Slot] = field(default_factory=list)
    """Slots whose leases are renewed for the last time, each alone."""
    claimants: list[Slot] = field(default_factory=list)
    calls: list[Call[Any]] = field(default_factory=list)


@dataclass(slots=True)
class Trip:
    parts: list[Part]
    settled: list[Slot]  # slots that asked only to have all acks sent
    sent_at: float
    hints: int  # how many had come by then

    @property
    def calls(self) -> list[Call[Any]]:
        return [call for part in self.parts for call in part.calls]

    @property
    def claims(self) -> bool:
        return any(part.claimants for part in self.parts)

    @property
    def waits(self) -> Replicas:
        """For which replicas, and how long."""
        return max((note.wait for part in self.parts for _, note in part.notes if note.wait), default=None)


class Slots:
    """All of a process. Nothing in here waits."""

    def __init__(
        self,
        shards: Sequence[ShardKeys],
        queue: str,
        owner: str,
        lease_s: float,
        *,
        max_attempts: int,
        is_patient: bool,
        clock: Clock,
        max_messages: int | None = None,
        batch: int = 1,
    ) -> None:
        """`is_patient`: slots go on when nothing is due. `max_messages`: of all together. `batch`: of a handler."""
        self._most_groups = min(MOST_GROUPS, MAX_CLAIMED // batch)
        self.acks = [PendingAcks(shard, keys) for shard, keys in enumerate(shards)]
        self.suspects = Suspects(max_attempts)
        self.halted: list[Halted] = []
        self.outages: list[Began | Ended] = []
        self.refusals: list[tuple[str, str, bool]] = []
        self.left: list[Slot] = []
        """Events that are not logged yet; slots whose lease was renewed for the last time."""
        self._shards, self._who, self._clock, self._is_patient = shards, (queue, owner, lease_s), clock, is_patient
        self._holders: dict[Lease, Slot] = {}
        self._asking: list[Slot] = []
        self._waiting: dict[Slot, None] = {}
        self._may_find = set(range(len(shards)))
        """Shards that have not said yet that nothing is due, since the last hint."""
        self._hints = 0
        self._next_claim_at = float("inf")  # when something may be due for slots that wait
        self._claims_from = 0.0
        self._late, self._unbegun, self._renewals = (OrderedDict[Slot, float]() for _ in range(3))
        """Slots that began a handler with acks pending, that have not begun, that have a lease: and when that
        is to be sent, released, renewed. The earliest comes first.
        """
        self._stuck: list[Slot] = []
        self.all: list[Slot] = []
        self._is_out = self._is_deaf = False
        self._turn = 0  # the shard that may claim suspects first
        self.busy = 0
        self.is_ending = False
        self._max_messages, self.done, self._reserved = max_messages, 0, 0

    @property
    def waits(self) -> bool:
        """Whether a slot waits for a hint, and would take what is due."""
        return bool(self._waiting) and not (self._is_deaf or self.is_ending)

    @property
    def is_spent(self) -> bool:
        """Whether as many messages ended as it is for."""
        return self._max_messages is not None and self.done >= self._max_messages

    def _may_claim(self) -> bool:
        """Not where the last group given was released unbegun, nor where all that is left is in progress."""
        return not (self._is_deaf or self.is_ending) and (
            self._max_messages is None or self._max_messages > self.done + self._reserved
        )

    def new(self, **options: Any) -> Slot:
        """One more slot; `options` of its Held."""
        shared: Any = {"shared_acks": self.acks, "refusals": self.refusals, "outages": self.outages}
        slot = Slot(Held(self._shards, self._who[2], **shared, **options))
        self.all.append(slot)
        return slot

    # -- what slots say -------------------------------------------------------------------------------------------

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether its generator has to wait for an answer."""
        held, self._is_deaf = slot.held, False
        if isinstance(question, Flush):
            held.settle()
            if not question.is_awaited:
                return False
        elif isinstance(question, SettleAndClaim):
            held.settle(everything=True)
            self._is_over(slot)
        elif isinstance(question, Note):
            held.settle()
        slot.question = question
        if isinstance(question, Wait):
            slot.until = self._clock() + (PATIENT_S if self._is_patient and question.seconds > 0 else question.seconds)
            self._waiting[slot] = None
            self._next_claim_at = min(self._next_claim_at, slot.until)
        else:
            self._asking.append(slot)
        return True

    def _is_over(self, slot: Slot) -> None:
        """It is done with its group."""
        for planned in (self._late, self._unbegun, self._renewals):
            planned.pop(slot, None)
        self.busy -= slot.is_busy
        slot.is_busy = False
        ended = slot.held.handled + slot.held.failed
        self.done += ended - slot.counted
        self._reserved -= slot.reserved
        slot.counted, slot.reserved = ended, 0

    def begins(self, slot: Slot) -> None:
        """A handler of this slot begins: what was finished before it must not wait for its end."""
        if slot.held.finished_at is not None:
            self._late.setdefault(slot, self._clock() + ACK_AFTER_S)

    def stuck(self, slot: Slot, since: float) -> None:
        """The handler that began then hangs, or ignores the end of its time: its lease is renewed once more."""
        slot.held.stuck_since = since
        self._stuck.append(slot)

    def hint(self) -> None:
        """Something is due somewhere."""
        self._hints += 1
        self._may_find.update(range(len(self._shards)))

    def take_events(self) -> tuple[list[tuple[str, str, bool]], list[Halted], list[Began | Ended], list[Slot]]:
        """Events that are not logged yet; they are the caller's then."""
        taken = self.refusals[:], self.halted[:], self.outages[:], self.left[:]
        for some in (self.refusals, self.halted, self.outages, self.left):
            some.clear()
        return taken

    def answer_waiting(self) -> Answers:
        """None to all that wait, as the process stops; not while a claim for them may be out."""
        if self._is_out:
            return []
        answers: Answers = [(slot, None) for slot in self._waiting]
        self._waiting.clear()
        return answers

    def fail(self, error: BaseException) -> Answers:
        """The thread that asks the server is over: so is each slot that waits for it."""
        return [(slot, error) for slot in self.all if slot.question is not None]

    # -- one trip -------------------------------------------------------------------------------------------------

    def due_at(self, now: float) -> float:
        """When there is something to do, if nobody asks before."""
        if any(self.acks) or self._stuck or any(slot.shard is None or self.is_ending for slot in self._asking):
            return now
        times = [next(iter(planned.values())) for planned in (self._late, self._unbegun, self._renewals) if planned]
        if self._may_claim() and (self._asking or (self._waiting and self._may_find)):
            times.append(max(now, self._claims_from))
        elif self.waits:
            times.append(self._next_claim_at)
        return min(times, default=float("inf"))

    def trip(self, now: float) -> Trip | None:
        """What to ask now. None: nothing, or one is out."""
        if self._is_out:
            return None
        self._settle_late(now)
        if now >= self._next_claim_at:
            self._next_claim_at = float("inf")
            self.hint()
        asking, self._asking, may_claim = self._asking, [], self._may_claim()
        stuck, self._stuck = self._stuck, []
        parts = [Part(shard) for shard in range(len(self._shards))]
        settled: list[Slot] = []
        for slot in asking:
            if isinstance(slot.question, Note):
                parts[slot.held.shard].notes.append((slot, slot.question))
            elif slot.shard is None or self.is_ending:
                settled.append(slot)
            elif now < self._claims_from or not may_claim:
                self._asking.append(slot)
            else:
                parts[slot.shard].claimants.append(slot)
        for slot in stuck:
            if slot.held.is_stuck and slot.lease:
                parts[slot.held.shard].stuck.append(slot)
        for slot in _due(self._renewals, now):
            if slot.held.groups and slot.held.groups[0].is_open and not slot.held.is_stuck:
                parts[slot.held.shard].renewed.append(slot)
        for part in parts:
            self._leave(part, self._most_groups)
        if now >= self._claims_from and may_claim:
            self._spread_waiting(parts)
        self._turn, room = (self._turn + 1) % len(parts), self.suspects.room()
        left = MAX_CLAIMED * len(parts)
        if self._max_messages is not None:
            left = max(0, self._max_messages - self.done - self._reserved)
        for part in parts[self._turn :] + parts[: self._turn]:
            self._leave(part, left)
            left -= self._fill(part, room, left)
            room = 0 if part.claimants else room
        trip = Trip([part for part in parts if part.calls], settled, now, self._hints)
        self._is_out = bool(trip.parts or settled)
        return trip if self._is_out else None

    def _leave(self, part: Part, most: int) -> None:
        """Let no more slots claim; the others ask again."""
        self._asking += [slot for slot in part.claimants[most:] if slot not in self._waiting]
        del part.claimants[most:]

    def _spread_waiting(self, parts: list[Part]) -> None:
        """Waiting slots claim wherever something may be due."""
        for slot, part in zip(self._waiting, cycle([parts[shard] for shard in sorted(self._may_find)]), strict=False):
            if len(part.claimants) < self._most_groups:
                part.claimants.append(slot)

    def _fill(self, part: Part, room: int, left: int) -> int:
        """Make its calls, for at most this many suspects and messages; returns how many messages it may take."""
        acks, claims, messages = self.acks[part.shard], bool(part.claimants), 0
        if acks:
            part.sending = acks.sending(0, claims_next=part.shard if claims else None)
            part.calls += part.sending.calls
            acks.posted()
        keys, lease_s = acks.keys, self._who[2]
        for _, note in part.notes:
            part.calls.append(save_step(keys, note.group.save_step(note.written, has_progressed=note.has_progressed)))
        if part.renewed:
            leases = [slot.lease for slot in part.renewed if slot.lease]
            part.calls.append(renew(keys, leases, lease_s))
        for slot in part.stuck:
            part.calls.append(renew(keys, [slot.lease] if slot.lease else [], lease_s, alone=True))
        if claims:
            wanted = [limits_of(slot) for slot in part.claimants]
            count, running = len(wanted), bool(self.suspects.running)
            each = min(sorted(limits.messages for limits in wanted)[count // 2], min(MAX_CLAIMED, left) // count)
            messages = count * each
            limits = ClaimLimits(count, messages, max(limits.bytes for limits in wanted))
            alone = [slot.question.alone for slot in part.claimants if isinstance(slot.question, SettleAndClaim)]
            part.calls.append(
                claim(
                    *(keys, *self._who, limits),
                    ahead=self.busy > 0,
                    alone=min(left, max(alone, default=0)),
                    with_failures=part.claimants[0].held.with_failures,
                    suspects=room,
                    has_suspect=running,
                )
            )
        return messages

    def answered(
        self, trip: Trip, results: Sequence[Any], now: float, *, is_repeat: bool = False, confirmed: int = 0
    ) -> Answers:
        """The results of its calls, in their order. `confirmed`: by how many replicas."""
        self._is_out = False
        answers: Answers = [(slot, None if slot.shard is None else NOTHING) for slot in trip.settled]
        given, claims = iter(results), list[tuple[Part, Claimed]]()
        for part in trip.parts:
            if part.sending:
                self.outages += take_in(part.sending, given, self._holder, is_repeat=is_repeat)
            for slot, note in part.notes:
                answers.append((slot, slot.held.saved(note, next(given), is_repeat=is_repeat, confirmed=confirmed)))
            if part.renewed:
                self._renewed(part.renewed, next(given), trip.sent_at)
            for slot in part.stuck:
                self._renewed([slot], next(given), trip.sent_at)
                slot.held.left_since = slot.held.stuck_since
                self.left.append(slot)
            if part.claimants:
                claims.append((part, next(given)))
        for slot in trip.settled:
            self._end(slot)
        for part, claimed in claims:  # last: the outcome of a slot's acks may be in the part of another shard
            for slot in part.claimants:
                self._end(slot)
            answers += self._claimed(part, claimed, trip, now)
        for slot, _ in answers:
            slot.question = None
        return answers

    def lost(self, trip: Trip, error: Exception) -> Answers:
        """It was not answered: those that asked get the error, and those that wait go on waiting."""
        self._is_out = False
        asked = [*trip.settled]
        for part in trip.parts:
            if part.sending:
                part.sending.source.put_back(part.sending)
            asked += [slot for slot, _ in part.notes]
            asked += [slot for slot in part.claimants if slot not in self._waiting]
            for slot in reversed(part.renewed):
                if slot.is_busy:
                    self._renewals[slot] = trip.sent_at
                    self._renewals.move_to_end(slot, last=False)
            self.left += part.stuck
        for slot in asked:
            slot.question = None
        return [(slot, error) for slot in asked]

    def _end(self, slot: Slot) -> None:
        """All acks of the group that this slot worked on were sent, if it asked for that."""
        if isinstance(slot.question, SettleAndClaim) and slot.lease:
            del self._holders[slot.lease]
            self.suspects.finished(*slot.lease)
            slot.lease = None

    # -- what became of it ----------------------------------------------------------------------------------------

    def _claimed(self, part: Part, claimed: Claimed, trip: Trip, now: float) -> Answers:
        self.halted += claimed.halted
        is_idle = not claimed.groups and claimed.next_due_s != 0.0
        if not (claimed.groups or is_idle):
            self._claims_from = now + SUSPECTS_AGAIN_S
        answers: Answers = []
        for slot, leased in zip(part.claimants, claimed.groups, strict=False):
            slot.held.take(part.shard, [leased], trip.sent_at, now, claimed.now_us)
            slot.reserved = len(leased.messages)
            self._reserved += slot.reserved
            self._waiting.pop(slot, None)
            slot.lease = slot.held.groups[0].lease
            self._holders[slot.lease] = slot
            slot.is_busy = True
            self.busy += 1
            if leased.expired_owner:
                was_charged = leased.messages[0].attempt > 1
                self.suspects.began(leased.key, leased.token, was_charged=was_charged)
            self._unbegun[slot] = now + RELEASE_S
            self._plan_renewal(slot)
            answers.append((slot, replace(claimed, groups=[leased])))
        if not is_idle:
            self._may_find.add(part.shard)
        else:
            if trip.hints == self._hints:
                self._may_find.discard(part.shard)
            due_s = IDLE_S if claimed.next_due_s is None else claimed.next_due_s
            self._next_claim_at = min(self._next_claim_at, now + due_s)
        for slot in part.claimants[len(claimed.groups) :]:
            if slot in self._waiting:
                if now >= slot.until:
                    del self._waiting[slot]
                    answers.append((slot, None))
            elif is_idle:
                answers.append((slot, claimed))
            else:
                self._asking.append(slot)  # half of what is due was left
        if self._waiting:
            self._next_claim_at = min(self._next_claim_at, *(slot.until for slot in self._waiting))
        return answers

    def _renewed(self, slots: list[Slot], stale: list[Lease], sent_at: float) -> None:
        for lease in stale:
            if held := self._holder(lease):
                held.lose(lease)
        for slot in slots:
            slot.held.deadline = sent_at + slot.held.lease_s
            if slot.is_busy:
                self._plan_renewal(slot)

    def _plan_renewal(self, slot: Slot) -> None:
        self._renewals.pop(slot, None)
        self._renewals[slot] = slot.held.deadline - slot.held.lease_s * (RENEW_PART - 1) / RENEW_PART

    def _holder(self, lease: Lease) -> Held | None:
        slot = self._holders.get(lease)
        return slot.held if slot else None

    def _settle_late(self, now: float) -> None:
        for slot in _due(self._late, now):
            if slot.held.finished_at is not None:
                slot.held.settle()
        for slot in _due(self._unbegun, now):
            if slot.held.current < 0:
                slot.held.settle(unbegun=True)
                self._is_deaf = True


def _due(planned: OrderedDict[Slot, float], now: float) -> Iterator[Slot]:
    while planned and next(iter(planned.values())) <= now:
        yield planned.popitem(last=False)[0]


def limits_of(slot: Slot) -> ClaimLimits:
    question = slot.question
    assert isinstance(question, SettleAndClaim | Wait)
    return question.limits
