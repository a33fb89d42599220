"""The worker slots of one process: what they ask of the server, merged into round trips. Pure.

A slot is a `drain` generator with a Held. It holds the groups of one claim: one group, or as many as it wants where the
process has one slot. All slots share the pending acks of each shard.

Of each shard one thread alone asks the server. Under the lock that guards all of this it takes a `trip`, makes its
calls without the lock, and hands in what came of them, `answered` or `lost`.

Rules:
  - A shard has at most one trip out. One that gets no answer holds up nothing but its own shard.
  - A slot has at most one question out. Who asks for a group is given one of any shard, or hears that nothing is due in
    any; slots that go on then are not woken but for a group.
  - A claim is for no slot: its groups go to those that are free when it is answered, and what nobody takes is released.
    Claims want one group for each free slot; for SLOW_S an unanswered one counts as sure to bring what it wants.
  - Shards that may have something due are claimed from in turn, after SLICE_S at the latest; one with a hint first.
  - A leased group is not claimed again before its release was carried out, as acknowledgements stand in front of the
    claim in a trip.
  - The acks of a lost trip are sent again, before those that came meanwhile. Its claims are forgotten, and
    those groups wait for the end of their leases.
  - A deadline is the slot's, counted from before its claim or renewal was sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any

from ..calls.call import Call
from ..calls.claim import Claimed, Halted, LeasedGroup, claim
from ..calls.outage import Began, Ended
from ..calls.settle import renew, save_step
from ..errors import ServerUnavailable
from ..settings.options import MAX_CLAIMED, ClaimLimits
from ..settings.pace import ACK_AFTER_S, ENDING_S, IDLE_S, RELEASE_S, RENEW_PART
from ..store.keys import ShardKeys
from .effects import Clock, Flush, Note, SettleAndClaim, Wait
from .held import Held, take_in
from .pending_acks import PendingAcks, Sending
from .suspects import Suspects

Question = SettleAndClaim | Flush | Note | Wait
Lease = tuple[str, str]  # of a group: its key, and the token
Answers = list[tuple["Slot", Any]]  # slots, and what each of their generators is sent; an Exception is thrown
MOST_GROUPS = 100  # that one claim takes: with more of them others would find none, and the answer is long
NOTHING = Claimed([], was_ahead=True)
"""Answers a claim that brought neither a group nor that nothing is due: its drain checks whether it is over."""
SUSPECTS_AGAIN_S = 0.005
"""How long after a claim that took nothing, though something is due, the next one sets out."""
SLICE_S = 0.05
"""For so long a shard is claimed from again before others, as its acks and the claim are one trip then."""
SLOW_S = 0.01
"""A trip that takes longer is not waited for by slots that are free: they claim from other shards."""


@dataclass(slots=True, eq=False)
class Slot:
    held: Held
    question: Question | None = None
    until: float = 0.0  # where it is free: how long it asks, or waits
    leases: list[Lease] = field(default_factory=list)  # of the groups that it works on
    is_late: bool = False  # whether it began a handler with acks pending
    reserved: int = 0  # how many messages it got with them
    counted: int = 0  # how many of its messages are in the count of all


@dataclass(slots=True, eq=False)
class Shard:
    number: int
    acks: PendingAcks
    out: Trip | None = None
    is_away: bool = False  # whether its last trip was lost
    asking: list[Slot] = field(default_factory=list)  # for anything but a group
    stuck: list[Slot] = field(default_factory=list)
    late: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    unbegun: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    renewals: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    """Slots that began a handler with acks pending, that have groups not begun, that have a lease: and when that
    is to be sent, released, renewed. The earliest comes first.
    """
    ended: list[Lease] = field(default_factory=list)
    """Of slots that are done with them. Their last acks are pending, or in the trip that is out."""
    is_idle: bool = False  # whether it said that nothing is due, and nobody wants to hear that again
    is_empty: bool = False  # whether it said that nothing is left
    is_asked: bool = False  # whether somebody wanted that since its last claim set out
    hinted_at: float = inf  # when the first hint came since then that was kept
    claims_from: float = 0.0
    claimed_at: float = 0.0

    @property
    def planned(self) -> tuple[OrderedDict[Slot, float], ...]:
        return self.late, self.unbegun, self.renewals

    def ask(self) -> None:
        self.is_idle, self.is_asked, self.claims_from = False, True, 0.0

    def turn(self, now: float) -> tuple[float, bool, bool, float]:
        """Earlier comes first: the first hint, whose last claim is long ago, then where one costs no further trip."""
        is_next = now - self.claimed_at >= SLICE_S
        return self.hinted_at, not is_next, not (is_next or self.acks or self.ended), self.claimed_at


@dataclass(slots=True)
class Trip:
    """What one shard is asked, in this order."""

    sent_at: float
    settled: list[Slot] = field(default_factory=list)  # slots that asked only to have all acks sent
    sending: Sending | None = None
    notes: list[tuple[Slot, Note]] = field(default_factory=list)
    renewed: list[Slot] = field(default_factory=list)
    stuck: list[Slot] = field(default_factory=list)
    """Slots whose leases are renewed for the last time, each alone."""
    claims: int = 0  # for how many slots it claims
    messages: int = 0  # how many its claim may bring
    has_room: bool = False  # whether that may bring suspects
    calls: list[Call[Any]] = field(default_factory=list)
    ended: list[Lease] = field(default_factory=list)


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
        are_apart: bool = False,
        is_single: bool = False,
    ) -> None:
        """`is_patient`: slots go on when nothing is due. `max_messages`: of all together. `batch`: of a handler.
        `are_apart`: hints of each shard come while all slots work, too. `is_single`: there is one slot.
        """
        self._most_groups = min(MOST_GROUPS, MAX_CLAIMED // batch)
        self.acks = [PendingAcks(shard, keys) for shard, keys in enumerate(shards)]
        self.suspects = Suspects(max_attempts)
        self.halted: list[Halted] = []
        self.outages: list[Began | Ended] = []
        self.refusals: list[tuple[str, str, bool]] = []
        self.left: list[Slot] = []
        """Events that are not logged yet; slots whose lease was renewed for the last time."""
        self._keys, self._who, self._clock = shards, (queue, owner, lease_s), clock
        self._is_patient, self._are_apart, self._is_single = is_patient, are_apart, is_single
        self.shards = [Shard(number, acks) for number, acks in enumerate(self.acks)]
        self._holders: dict[Lease, Slot] = {}
        self._free: dict[Slot, None] = {}
        """Slots that ask for a group, or wait for one."""
        self._until = inf  # when the first of them wants to hear something
        self.all: list[Slot] = []
        self._is_deaf = False
        self.busy = 0
        self.is_ending = False
        self._max_messages, self.done, self._reserved = max_messages, 0, 0

    def listens(self, shard: Shard) -> bool:
        """Whether to wait for hints of it. One apart is listened to while all slots work, too: else a consumer that is
        never idle for long would not hear of it.
        """
        return shard.is_idle and not self.is_ending and (self._are_apart or bool(self._free))

    @property
    def is_spent(self) -> bool:
        """Whether as many messages ended as it is for."""
        return self._max_messages is not None and self.done >= self._max_messages

    def _left(self, now: float) -> int:
        """How many messages may still be claimed. None where the last group given was released unbegun."""
        if self._is_deaf or self.is_ending:
            return 0
        if self._max_messages is None:
            return MAX_CLAIMED * len(self.shards)
        return max(0, self._max_messages - self.done - self._reserved - sum(one.messages for one in self._sure(now)))

    def _sure(self, now: float) -> list[Trip]:
        """What is claimed with these will come soon."""
        trips = (shard.out for shard in self.shards if not shard.is_away)
        return [trip for trip in trips if trip and now < trip.sent_at + SLOW_S]

    def new(self, **options: Any) -> Slot:
        """One more slot; `options` of its Held."""
        shared: Any = {"shared_acks": self.acks, "refusals": self.refusals, "outages": self.outages}
        slot = Slot(Held(self._keys, self._who[2], **shared, **options))
        self.all.append(slot)
        return slot

    def _shard(self, slot: Slot) -> Shard:
        return self.shards[slot.held.shard]

    # -- what slots say -------------------------------------------------------------------------------------------

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether its generator has to wait for an answer."""
        self._is_deaf, is_claim, seconds = False, isinstance(question, SettleAndClaim), ENDING_S
        if isinstance(question, Wait):
            seconds = question.seconds
        else:
            slot.held.settle(everything=is_claim)
            if isinstance(question, Flush) and not question.is_awaited:
                return False
            if is_claim:
                self._is_over(slot)
            if not isinstance(question, SettleAndClaim) or question.shard is None:
                slot.question = question
                self._shard(slot).asking.append(slot)
                return True
            if not (self._are_apart and self._is_patient):  # hints may have gone elsewhere
                for shard in self.shards:
                    shard.ask()
        slot.question, self._free[slot] = question, None
        slot.until = inf if self._is_patient else self._clock() + seconds
        self._until = min(self._until, slot.until)
        return True

    def _is_over(self, slot: Slot) -> None:
        """It is done with its groups."""
        shard = self._shard(slot)
        for planned in shard.planned:
            planned.pop(slot, None)
        self.busy -= bool(slot.leases)
        shard.ended += slot.leases
        slot.leases, slot.is_late = [], False
        ended = slot.held.handled + slot.held.failed
        self.done += ended - slot.counted
        self._reserved -= slot.reserved
        slot.counted, slot.reserved = ended, 0

    def begins(self, slot: Slot) -> None:
        """A handler of this slot begins: what was finished before it must not wait for its end."""
        if slot.held.finished_at is not None and not slot.is_late:
            slot.is_late, self._shard(slot).late[slot] = True, self._clock() + ACK_AFTER_S

    def stuck(self, slot: Slot, since: float) -> None:
        """The handler that began then hangs, or ignores the end of its time: its lease is renewed once more."""
        slot.held.stuck_since = since
        self._shard(slot).stuck.append(slot)

    def hinted(self, shard: Shard, now: float) -> bool:
        """A hint of this shard came. Whether a free slot claims then; else another consumer may have a use for it."""
        shard.ask()
        shard.hinted_at = min(shard.hinted_at, now)
        if not (is_kept := bool(self.shares(now).get(shard))):
            shard.hinted_at = inf
        return is_kept

    def take_events(self) -> tuple[list[tuple[str, str, bool]], list[Halted], list[Began | Ended], list[Slot]]:
        """Events that are not logged yet; they are the caller's then."""
        taken = self.refusals[:], self.halted[:], self.outages[:], self.left[:]
        for some in (self.refusals, self.halted, self.outages, self.left):
            some.clear()
        return taken

    def ready(self, now: float) -> Answers:
        """Answers that need no trip: nothing is due, the time of a slot is over, or all is."""
        answers, due_at = Answers(), min(shard.claims_from for shard in self.shards)
        is_idle = not self._is_patient and now < due_at and all(shard.is_idle for shard in self.shards)
        if is_idle or self.is_ending or now >= self._until:
            nothing = Claimed([], due_at - now, all(shard.is_empty for shard in self.shards))
            for slot in self._free:
                if is_idle and isinstance(slot.question, SettleAndClaim):
                    answers.append((slot, nothing))
                elif self.is_ending or now >= slot.until:
                    answers.append((slot, None if isinstance(slot.question, Wait) else NOTHING))
            for slot, _ in answers:
                del self._free[slot]
                slot.question = None
            self._until = min((slot.until for slot in self._free), default=inf)
        return answers

    def fail(self, error: BaseException) -> Answers:
        """A thread that asks the server is over: so is each slot that waits for it."""
        return [(slot, error) for slot in self.all if slot.question is not None]

    # -- one trip -------------------------------------------------------------------------------------------------

    def due_at(self, shard: Shard, now: float, shares: Mapping[Shard, int]) -> float:
        """When there is something to ask it, or `ready`, if nobody asks before. `shares` of now."""
        if shard.out:
            return inf
        is_over = bool(self._free) and self.is_ending
        if shard.asking or shard.stuck or shard.acks or shard.ended or shares.get(shard) or is_over:
            return now
        due_at = min((next(iter(planned.values())) for planned in shard.planned if planned), default=inf)
        if self._free:
            claims_at = now + SLOW_S if shard in shares else shard.claims_from
            due_at = min(due_at, self._until, claims_at if claims_at > now else inf)
        return due_at

    def trip(self, shard: Shard, now: float) -> Trip | None:
        """What to ask now. None: nothing, or one is out."""
        if shard.out:
            return None
        self._settle_late(shard, now)
        trip = Trip(now)
        for slot in shard.asking:
            if isinstance(slot.question, Note):
                trip.notes.append((slot, slot.question))
            else:
                trip.settled.append(slot)
        trip.stuck = [slot for slot in shard.stuck if slot.held.is_stuck and slot.leases]
        trip.renewed = [slot for slot in _due(shard.renewals, now) if not slot.held.is_stuck and _open(slot)]
        trip.ended, shard.ended, shard.asking, shard.stuck = shard.ended, [], [], []
        left = self._left(now)
        claimants = [*islice(self._free, min(self.shares(now).get(shard, 0), left))]
        acks, keys, lease_s = shard.acks, shard.acks.keys, self._who[2]
        if acks:
            trip.sending = acks.sending(0, claims_next=shard.number if claimants else None)
            trip.calls += trip.sending.calls
            acks.posted()
        for _, note in trip.notes:
            trip.calls.append(save_step(keys, note.group.save_step(note.written, has_progressed=note.has_progressed)))
        if trip.renewed:
            trip.calls.append(renew(keys, [lease for slot in trip.renewed for lease in _open(slot)], lease_s))
        for slot in trip.stuck:
            trip.calls.append(renew(keys, _open(slot), lease_s, alone=True))
        if claimants:
            trip.calls.append(self._claim(shard, trip, claimants, left))
        if trip.calls or trip.settled or trip.ended:
            shard.out = trip
        return shard.out

    def shares(self, now: float) -> dict[Shard, int]:
        """From which shards to claim now, and for how many free slots; 0: if what is sure to come does not."""
        if not (self._free and self._left(now)):
            return {}
        able = [shard for shard in self.shards if not shard.out and now >= shard.claims_from]
        shares = {shard: 1 for shard in able if shard.is_away}  # besides: it may never come
        if shares:
            able = [shard for shard in able if not shard.is_away]
        able.sort(key=lambda shard: shard.turn(now))
        free, out = len(self._free), sum(trip.claims for trip in self._sure(now))
        for number, shard in enumerate(able[:free]):
            shares[shard] = max(0, min(self._most_groups, (free - out - number - 1) // len(able) + 1))
        return shares

    def _claim(self, shard: Shard, trip: Trip, claimants: list[Slot], left: int) -> Call[Claimed]:
        """For these slots, at most `left` messages, and suspects if no claim that is out may bring some."""
        trip.has_room = not any(one.has_room for one in self._sure(trip.sent_at))
        shard.claimed_at, shard.hinted_at, shard.is_asked = trip.sent_at, inf, False
        wanted = [limits_of(slot) for slot in claimants]
        trip.claims = count = len(wanted)
        each = min(sorted(limits.messages for limits in wanted)[count // 2], min(MAX_CLAIMED, left) // count)
        trip.messages, groups = count * each, min(wanted[0].groups, each) if self._is_single else count
        alone = [slot.question.alone for slot in claimants if isinstance(slot.question, SettleAndClaim)]
        return claim(
            *(shard.acks.keys, *self._who, ClaimLimits(groups, trip.messages, max(one.bytes for one in wanted))),
            ahead=self.busy > 0,
            alone=min(left, max(alone, default=0)),
            with_failures=claimants[0].held.with_failures,
            suspects=None if self._is_single else self.suspects.room() if trip.has_room else 0,
            has_suspect=bool(self.suspects.running),
        )

    def answered(
        self, shard: Shard, results: Sequence[Any], now: float, *, is_repeat: bool = False, confirmed: int = 0
    ) -> Answers:
        """The results of the calls of the trip that is out, in their order. `confirmed`: by how many replicas."""
        trip, shard.out, shard.is_away = shard.out, None, False
        assert trip
        answers: Answers = [(slot, None) for slot in trip.settled]
        given = iter(results)
        if trip.sending:
            self.outages += take_in(trip.sending, given, self._holder, is_repeat=is_repeat)
        for slot, note in trip.notes:
            answers.append((slot, slot.held.saved(note, next(given), is_repeat=is_repeat, confirmed=confirmed)))
        if trip.renewed:
            self._renewed(shard, trip.renewed, next(given), trip.sent_at)
        for slot in trip.stuck:
            self._renewed(shard, [slot], next(given), trip.sent_at)
            slot.held.left_since = slot.held.stuck_since
            self.left.append(slot)
        for lease in trip.ended:
            del self._holders[lease]
            self.suspects.finished(*lease)
        if trip.claims:
            answers += self._claimed(shard, next(given), trip, now)
        for slot, _ in answers:
            slot.question = None
        return answers + self.ready(now)

    def lost(self, shard: Shard, error: Exception) -> Answers:
        """The trip that is out was not answered. Those that ask for a group go on asking: other shards may have one;
        but not at an error that stays.
        """
        trip, shard.out, shard.is_away = shard.out, None, True
        assert trip
        if trip.sending:
            shard.acks.put_back(trip.sending)
        shard.ended[:0] = trip.ended
        for slot in reversed(trip.renewed):
            if self._works_on(shard, slot):
                shard.renewals[slot] = trip.sent_at
                shard.renewals.move_to_end(slot, last=False)
        self.left += trip.stuck
        asked = [*trip.settled, *(slot for slot, _ in trip.notes)]
        if not isinstance(error, ServerUnavailable):
            asked += self._free
            self._free.clear()
        for slot in asked:
            slot.question = None
        return [(slot, error) for slot in asked]

    # -- what became of it ----------------------------------------------------------------------------------------

    def _claimed(self, shard: Shard, claimed: Claimed, trip: Trip, now: float) -> Answers:
        self.halted += claimed.halted
        groups, answers = claimed.groups, Answers()
        for some in [groups] if self._is_single and groups else [[leased] for leased in groups]:
            slot = next(iter(self._free), None)
            if slot is None or not self._fits(some):
                shard.acks.release(some)
                continue
            del self._free[slot]
            self._give(slot, shard, some, (trip.sent_at, now, claimed.now_us))
            answers.append((slot, replace(claimed, groups=some)))
        if not groups and claimed.next_due_s == 0.0:
            shard.claims_from = now + SUSPECTS_AGAIN_S
        elif not (groups or shard.is_asked):
            shard.is_idle, shard.is_empty = True, claimed.is_empty
            shard.claims_from = now + (IDLE_S if claimed.next_due_s is None else min(IDLE_S, claimed.next_due_s))
        return answers

    def _fits(self, some: list[LeasedGroup]) -> bool:
        """Whether these may be begun, though others came meanwhile."""
        messages, most = sum(len(leased.messages) for leased in some), self._max_messages
        if most is not None and self.done + self._reserved + messages > most:
            return False
        return self._is_single or not some[0].expired_owner or self.suspects.room() > 0

    def _give(self, slot: Slot, shard: Shard, some: list[LeasedGroup], times: tuple[float, float, int]) -> None:
        slot.held.take(shard.number, some, *times)
        slot.reserved = sum(len(leased.messages) for leased in some)
        self._reserved += slot.reserved
        slot.leases = [group.lease for group in slot.held.groups]
        self._holders.update(dict.fromkeys(slot.leases, slot))
        self.busy += 1
        for leased in () if self._is_single else some:
            if leased.expired_owner:
                was_charged = leased.messages[0].attempt > 1
                self.suspects.began(leased.key, leased.token, was_charged=was_charged)
        shard.unbegun[slot] = times[1] + RELEASE_S
        self._plan_renewal(shard, slot)

    def _renewed(self, shard: Shard, slots: list[Slot], stale: list[Lease], sent_at: float) -> None:
        for lease in stale:
            if held := self._holder(lease):
                held.lose(lease)
        for slot in slots:
            if self._works_on(shard, slot):
                slot.held.deadline = sent_at + slot.held.lease_s
                self._plan_renewal(shard, slot)

    def _works_on(self, shard: Shard, slot: Slot) -> bool:
        """Still: meanwhile it may have got a group of another shard, and of this one only in a later trip."""
        return bool(slot.leases) and self._shard(slot) is shard

    def _plan_renewal(self, shard: Shard, slot: Slot) -> None:
        shard.renewals.pop(slot, None)
        shard.renewals[slot] = slot.held.deadline - slot.held.lease_s * (RENEW_PART - 1) / RENEW_PART

    def _holder(self, lease: Lease) -> Held | None:
        slot = self._holders.get(lease)
        return slot.held if slot else None

    def _settle_late(self, shard: Shard, now: float) -> None:
        for slot in _due(shard.late, now):
            since = slot.held.running_since
            if since is not None and now < since + ACK_AFTER_S:  # a later handler, which may be quick as well
                shard.late[slot] = since + ACK_AFTER_S
            else:
                slot.is_late = False
                slot.held.settle()
        for slot in _due(shard.unbegun, now):
            if slot.held.current < len(slot.held.groups) - 1:
                self._is_deaf = self._is_deaf or slot.held.current < 0
                slot.held.settle(unbegun=True)


def _due(planned: OrderedDict[Slot, float], now: float) -> Iterator[Slot]:
    while planned and next(iter(planned.values())) <= now:
        yield planned.popitem(last=False)[0]


def _open(slot: Slot) -> list[Lease]:
    return [group.lease for group in slot.held.groups if group.is_open]


def limits_of(slot: Slot) -> ClaimLimits:
    question = slot.question
    assert isinstance(question, SettleAndClaim | Wait)
    return question.limits
