"""The worker slots of one process: what they ask of the server, merged into one round trip at a time. Pure.

A slot is a `drain` generator with a Held; it holds one group at a time. All slots share the pending acks of each shard.
One thread alone asks the server. Under the lock that guards all of this it takes a `trip`, makes its calls without the
lock, and hands in what came of them, `answered` or `lost`.

Rules:
  - A slot has at most one question out. It is answered once all that was to be told of its group is, too.
  - A leased group is given to one slot. It is not claimed again before its release was carried out, as one trip is out
    at a time, and acknowledgements stand in front of claims in it.
  - Of a trip that is lost, what was to be told is told again, before what came meanwhile. Its claims are forgotten, and
    those groups wait for the end of their leases.
  - A deadline is the slot's, counted from before its claim or renewal was sent.
  - Who asks for a group gets one, or hears that nothing is due. A waiting slot is not woken but for a group, until the
    time is over for which it wants to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..calls.call import Call
from ..calls.claim import Claimed, Halted, claim
from ..calls.outage import Began, Ended
from ..calls.settle import renew, save_step
from ..settings.options import ClaimLimits, Replicas
from ..settings.pace import ACK_AFTER_S, IDLE_S, RELEASE_S, RENEW_PART
from ..store.keys import ShardKeys
from .effects import Clock, Flush, Note, SettleAndClaim, Wait
from .held import Held, take_in
from .pending_acks import PendingAcks, Sending
from .suspects import Suspects

Question = SettleAndClaim | Flush | Note | Wait
Lease = tuple[str, str]
"""Of a group: its key, and the token."""
Answers = list[tuple["Slot", Any]]
"""Slots, and what each of their generators is sent; an Exception is thrown."""
MOST_GROUPS = 100
"""That one claim takes: with more of them others would find none, and the answer is long."""
MOST_MESSAGES = 1000
"""That one claim takes."""
PATIENT_S = 30.0
"""How long a slot waits that does not end by itself when nothing is due."""
SUSPECTS_AGAIN_S = 0.005
"""How long after a claim that took nothing, though something is due, the next one sets out."""


@dataclass(slots=True, eq=False)
class Slot:
    """One slot: what it holds, and what it asks."""

    held: Held
    question: Question | None = None
    until: float = 0.0
    """Of a Wait: when it is over."""
    number: int = 0
    """Of the group that it got last."""
    is_busy: bool = False
    """Whether it works on a group."""
    lease: Lease | None = None
    """Of the group that it works on, until all is told of it."""

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
    claimants: list[Slot] = field(default_factory=list)
    calls: list[Call[Any]] = field(default_factory=list)


@dataclass(slots=True)
class Trip:
    """Calls to make in one round trip."""

    parts: list[Part]
    settled: list[Slot]
    """Slots that asked for nothing but to have all told."""
    sent_at: float

    @property
    def calls(self) -> list[Call[Any]]:
        return [call for part in self.parts for call in part.calls]

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
    ) -> None:
        """`is_patient`: its slots do not end when nothing is due."""
        self.acks = [PendingAcks(shard, keys) for shard, keys in enumerate(shards)]
        self.suspects = Suspects(max_attempts)
        self.halted: list[Halted] = []
        self.outages: list[Began | Ended] = []
        self.refusals: list[tuple[str, str, bool]] = []
        """What is yet to be told."""
        self._shards, self._who, self._clock, self._is_patient = shards, (queue, owner, lease_s), clock, is_patient
        self._holders: dict[Lease, Slot] = {}
        self._asking: list[Slot] = []
        self._waiting: dict[Slot, None] = {}
        self._may_find = set(range(len(shards)))
        """Shards that have not said yet that nothing is due, since the last hint."""
        self._next_claim_at = float("inf")
        """When something may be due for slots that wait."""
        self._claims_from = 0.0
        """No claim sets out before."""
        self._late = deque[tuple[float, Slot, int]]()
        """Slots that began a handler with something to be told, and when that is to be sent."""
        self._unbegun = deque[tuple[float, Slot, int]]()
        self._renewals = deque[tuple[float, Slot, int]]()
        self._all: list[Slot] = []
        self._is_out = False
        self.busy = 0
        """How many slots work on a group."""

    @property
    def waits(self) -> bool:
        """Whether a slot waits for a hint."""
        return bool(self._waiting)

    def new(self, **options: Any) -> Slot:
        """One more slot; `options` of its Held."""
        shared: Any = {"shared_acks": self.acks, "refusals": self.refusals, "outages": self.outages}
        slot = Slot(Held(self._shards, self._who[2], **shared, **options))
        self._all.append(slot)
        return slot

    # -- what slots say -------------------------------------------------------------------------------------------

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether its generator has to wait for an answer."""
        held = slot.held
        if isinstance(question, Flush):
            held.settle()
            if not question.is_awaited:
                return False
        elif isinstance(question, SettleAndClaim):
            held.settle(everything=True)
            slot.number += 1  # what was planned for its group is over
            self.busy -= slot.is_busy
            slot.is_busy = False
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

    def begins(self, slot: Slot) -> None:
        """A handler of this slot begins: what was finished before it must not wait for its end."""
        if slot.held.finished_at is not None:
            self._late.append((self._clock() + ACK_AFTER_S, slot, slot.number))

    def hint(self) -> None:
        """Something is due somewhere."""
        self._may_find.update(range(len(self._shards)))

    def answer_waiting(self) -> Answers:
        """None to all that wait, as the process stops."""
        answers: Answers = [(slot, None) for slot in self._waiting]
        self._waiting.clear()
        return answers

    def fail(self, error: BaseException) -> Answers:
        """The thread that asks the server is over: so is each slot that waits for it."""
        return [(slot, error) for slot in self._all if slot.question is not None]

    # -- one trip -------------------------------------------------------------------------------------------------

    def due_at(self, now: float) -> float:
        """When there is something to do, if nobody asks before."""
        if any(self.acks) or any(slot.shard is None for slot in self._asking):
            return now
        if self._asking or (self._waiting and self._may_find):
            return max(now, self._claims_from)
        heads = [queue[0][0] for queue in (self._late, self._unbegun, self._renewals) if queue]
        return min(self._next_claim_at if self._waiting else float("inf"), *heads, float("inf"))

    def trip(self, now: float) -> Trip | None:
        """What to ask now. None: nothing, or one is out."""
        if self._is_out:
            return None
        self._settle_late(now)
        if now >= self._next_claim_at:
            self._next_claim_at = float("inf")
            self.hint()
        asking, self._asking = self._asking, []
        parts = [Part(shard) for shard in range(len(self._shards))]
        settled: list[Slot] = []
        for slot in asking:
            if isinstance(slot.question, Note):
                parts[slot.held.shard].notes.append((slot, slot.question))
            elif slot.shard is None:
                settled.append(slot)
            elif now < self._claims_from:
                self._asking.append(slot)
            else:
                parts[slot.shard].claimants.append(slot)
        for slot in self._due(self._renewals, now):
            if slot.held.groups and slot.held.groups[0].is_open:
                parts[slot.held.shard].renewed.append(slot)
        for part in parts:
            self._asking += part.claimants[MOST_GROUPS:]
            del part.claimants[MOST_GROUPS:]
        if now >= self._claims_from:
            self._spread_waiting(parts)
        room = self.suspects.room()
        for part in parts:
            room = self._fill(part, room)
        trip = Trip([part for part in parts if part.calls], settled, now)
        self._is_out = bool(trip.parts or settled)
        return trip if self._is_out else None

    def _spread_waiting(self, parts: list[Part]) -> None:
        """Waiting slots claim wherever something may be due."""
        for slot, part in zip(self._waiting, _round(parts[shard] for shard in sorted(self._may_find)), strict=False):
            if len(part.claimants) < MOST_GROUPS:
                part.claimants.append(slot)

    def _fill(self, part: Part, room: int) -> int:
        """Make its calls; returns how many suspects others may still claim."""
        acks, claims = self.acks[part.shard], bool(part.claimants)
        if acks:
            part.sending = acks.sending(0, claims_next=part.shard if claims else None)
            part.calls += part.sending.calls
            acks.posted()
        keys, (queue, owner, lease_s) = acks.keys, self._who
        for _, note in part.notes:
            part.calls.append(save_step(keys, note.group.save_step(note.written, has_progressed=note.has_progressed)))
        if part.renewed:
            leases = [slot.lease for slot in part.renewed if slot.lease]
            part.calls.append(renew(keys, leases, lease_s))
        if claims:
            wanted = [limits_of(slot) for slot in part.claimants]
            count, running = len(wanted), bool(self.suspects.running)
            each = min(sorted(limits.messages for limits in wanted)[count // 2], MOST_MESSAGES // count)
            limits = ClaimLimits(count, count * each, max(limits.bytes for limits in wanted))
            alone = max(
                (slot.question.alone for slot in part.claimants if isinstance(slot.question, SettleAndClaim)), default=0
            )
            part.calls.append(
                claim(
                    keys,
                    queue,
                    owner,
                    lease_s,
                    limits,
                    ahead=self.busy > 0,
                    alone=alone,
                    with_failures=part.claimants[0].held.with_failures,
                    suspects=room,
                    has_suspect=running,
                )
            )
            room = 0
        return room

    def answered(
        self, trip: Trip, results: Sequence[Any], now: float, *, is_repeat: bool = False, confirmed: int = 0
    ) -> Answers:
        """The results of its calls, in their order. `is_repeat`: they were sent more than once; `confirmed`: by how
        many replicas.
        """
        self._is_out = False
        answers: Answers = [(slot, None) for slot in trip.settled]
        given = iter(results)
        for part in trip.parts:
            if part.sending:
                taken = take_in(part.sending, given, self._holder, is_repeat=is_repeat)
                self.outages += taken
            for slot, note in part.notes:
                answers.append((slot, slot.held.saved(note, next(given), is_repeat=is_repeat, confirmed=confirmed)))
            if part.renewed:
                self._renewed(part.renewed, next(given), trip.sent_at)
            if part.claimants:
                for slot in part.claimants:
                    self._end(slot)
                answers += self._claimed(part, next(given), trip.sent_at, now)
        for slot in trip.settled:
            self._end(slot)
        for slot, _ in answers:
            slot.question = None
        return answers

    def lost(self, trip: Trip, error: Exception) -> Answers:
        """It was not answered: each that asked hears of it, and those that wait go on waiting."""
        self._is_out = False
        asked = [*trip.settled]
        for part in trip.parts:
            if part.sending:
                part.sending.source.put_back(part.sending)
            asked += [slot for slot, _ in part.notes]
            asked += [slot for slot in part.claimants if slot not in self._waiting]
            for slot in part.renewed:
                self._renewals.appendleft((trip.sent_at, slot, slot.number))
        for slot in asked:
            slot.question = None
        return [(slot, error) for slot in asked]

    def _end(self, slot: Slot) -> None:
        """All is told of the group that this slot worked on, if it asked for that."""
        if isinstance(slot.question, SettleAndClaim) and slot.lease:
            del self._holders[slot.lease]
            self.suspects.finished(*slot.lease)
            slot.lease = None

    # -- what became of it ----------------------------------------------------------------------------------------

    def _claimed(self, part: Part, claimed: Claimed, sent_at: float, now: float) -> Answers:
        self.halted += claimed.halted
        is_idle = not claimed.groups and claimed.next_due_s != 0.0
        if not (claimed.groups or is_idle):
            self._claims_from = now + SUSPECTS_AGAIN_S
        answers: Answers = []
        for slot, leased in zip(part.claimants, claimed.groups, strict=False):
            slot.held.take(part.shard, [leased], sent_at, now, claimed.now_us)
            slot.number += 1
            self._waiting.pop(slot, None)
            slot.lease = slot.held.groups[0].lease
            self._holders[slot.lease] = slot
            slot.is_busy = True
            self.busy += 1
            if leased.expired_owner:
                was_charged = leased.messages[0].attempt > 1
                self.suspects.began(leased.key, leased.token, was_charged=was_charged)
            self._unbegun.append((now + RELEASE_S, slot, slot.number))
            self._renewals.append((self._renew_at(slot), slot, slot.number))
            answers.append((slot, replace(claimed, groups=[leased])))
        if not is_idle:
            self._may_find.add(part.shard)
        else:
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
            self._renewals.append((self._renew_at(slot), slot, slot.number))

    def _renew_at(self, slot: Slot) -> float:
        return slot.held.deadline - slot.held.lease_s * (RENEW_PART - 1) / RENEW_PART

    def _holder(self, lease: Lease) -> Held | None:
        slot = self._holders.get(lease)
        return slot.held if slot else None

    def _settle_late(self, now: float) -> None:
        for slot in self._due(self._late, now):
            if slot.held.finished_at is not None:
                slot.held.settle()
        for slot in self._due(self._unbegun, now):
            if slot.held.current < 0:
                slot.held.settle(unbegun=True)

    def _due(self, queue: deque[tuple[float, Slot, int]], now: float) -> Iterator[Slot]:
        """Those whose time has come, and that still hold the same group."""
        while queue and queue[0][0] <= now:
            _, slot, number = queue.popleft()
            if slot.number == number:
                yield slot


def limits_of(slot: Slot) -> ClaimLimits:
    question = slot.question
    assert isinstance(question, SettleAndClaim | Wait)
    return question.limits


def _round(parts: Iterable[Part]) -> Iterator[Part]:
    """Each in turn, without an end."""
    some = [*parts]
    while some:
        yield from some
