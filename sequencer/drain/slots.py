"""The worker slots of one process: what they ask of the server, merged into round trips. Pure.

A slot is a `drain` generator with a Held. It holds the groups of one claim: one group, or as many as it wants where the
process has one slot. All slots share the pending acks of each shard.

Shards that are asked over one connection are a channel: all of them on one server, each of them in a cluster. Of each
channel one thread alone asks the server. Under the lock that guards all of this it takes a `trip`, makes its calls
without the lock, and hands in what came of them, `answered` or `lost`.

Rules:
  - A channel has at most one trip out. One that gets no answer holds up nothing but its own shards.
  - A slot has at most one question out. Who asks for a group is given one of any shard, or hears that nothing is due in
    any. A waiting slot is not woken but for a group, until the time is over for which it wants to wait.
  - A claim is for no slot: its groups go to those that are free when it is answered, and what nobody takes is released.
    Claims want one group for each free slot; for SLOW_S an unanswered one counts as sure to bring what it wants.
  - Shards that may have something due are claimed from in turn, after SLICE_S at the latest.
  - A leased group is not claimed again before its release was carried out, as acknowledgements stand in front of claims
    in the trips of its channel.
  - The acks of a lost trip are sent again, before those that came meanwhile. Its claims are forgotten, and
    those groups wait for the end of their leases.
  - A deadline is the slot's, counted from before its claim or renewal was sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from ..calls.call import Call
from ..calls.claim import Claimed, Halted, LeasedGroup, claim
from ..calls.outage import Began, Ended
from ..calls.settle import renew, save_step
from ..errors import ServerUnavailable
from ..settings.options import MAX_CLAIMED, ClaimLimits, Replicas
from ..settings.pace import ACK_AFTER_S, ENDING_S, IDLE_S, RELEASE_S, RENEW_PART, TICK_S
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
"""Answers a claim that brought neither a group nor that nothing is due: its drain checks whether it is over."""
SUSPECTS_AGAIN_S = 0.005
"""How long after a claim that took nothing, though something is due, the next one sets out."""
SLICE_S = 0.05
"""For so long a shard is claimed from again before others, as its acks and the claim are one trip then."""
SLOW_S = 0.01
"""A trip that takes longer is not waited for by slots that are free: they claim from the shards of other channels."""


@dataclass(slots=True, eq=False)
class Slot:
    held: Held
    question: Question | None = None
    until: float = 0.0  # where it is free: how long it asks, or waits
    is_busy: bool = False
    leases: list[Lease] = field(default_factory=list)  # of the groups that it works on
    reserved: int = 0  # how many messages it got with them
    counted: int = 0  # how many of its messages are in the count of all


@dataclass(slots=True, eq=False)
class Shard:
    number: int
    acks: PendingAcks
    ended: list[Lease] = field(default_factory=list)
    """Of slots that are done with them. Their last acks are pending, or in the trip that is out."""
    is_idle: bool = False  # whether it said that nothing is due, and no hint came since
    is_asked: bool = True  # whether a slot wants to hear that again
    is_empty: bool = False  # whether it said that nothing is left
    hints: int = 0  # how many have come, or such wishes
    due_at: float = 0.0  # when something may be due in an idle one
    claimed_at: float = 0.0
    claims_from: float = 0.0

    def hint(self) -> None:
        self.is_idle = False
        self.ask()

    def ask(self) -> None:
        self.is_asked, self.hints = True, self.hints + 1

    def turn(self, now: float) -> tuple[bool, bool, float]:
        """Earlier comes first: whose last claim is long ago, then where one costs no further trip."""
        is_next = now - self.claimed_at >= SLICE_S
        return not is_next, not (is_next or self.acks or self.ended), self.claimed_at

    def may_claim(self, now: float) -> bool:
        return self.is_asked and now >= self.claims_from


@dataclass(slots=True)
class Part:
    """What one shard is asked in a trip, in this order."""

    shard: Shard
    hints: int  # how many had come by then
    sending: Sending | None = None
    notes: list[tuple[Slot, Note]] = field(default_factory=list)
    renewed: list[Slot] = field(default_factory=list)
    stuck: list[Slot] = field(default_factory=list)
    """Slots whose leases are renewed for the last time, each alone."""
    claims: int = 0  # number of slots it claims for
    calls: list[Call[Any]] = field(default_factory=list)
    ended: list[Lease] = field(default_factory=list)


@dataclass(slots=True)
class Trip:
    parts: list[Part]
    settled: list[Slot]  # slots that asked only to have all acks sent
    sent_at: float
    messages: int  # how many its claims may bring
    has_room: bool  # whether they may bring suspects

    @property
    def calls(self) -> list[Call[Any]]:
        return [call for part in self.parts for call in part.calls]

    @property
    def claims(self) -> int:
        return sum(part.claims for part in self.parts)

    @property
    def waits(self) -> Replicas:
        """For which replicas, and how long."""
        return max((note.wait for part in self.parts for _, note in part.notes if note.wait), default=None)


@dataclass(slots=True, eq=False)
class Channel:
    """Shards that are asked over one connection."""

    shards: list[Shard]
    out: Trip | None = None
    is_away: bool = False  # whether its last trip was lost, and there are others
    asking: list[Slot] = field(default_factory=list)  # for anything but a group
    stuck: list[Slot] = field(default_factory=list)
    late: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    unbegun: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    renewals: OrderedDict[Slot, float] = field(default_factory=OrderedDict)
    """Slots that began a handler with acks pending, that have not begun, that have a lease: and when that
    is to be sent, released, renewed. The earliest comes first.
    """

    @property
    def planned(self) -> tuple[OrderedDict[Slot, float], ...]:
        return self.late, self.unbegun, self.renewals

    def is_sure(self, now: float) -> bool:
        """Whether what is claimed from it will come soon."""
        return not self.is_away and self.out is not None and now < self.out.sent_at + SLOW_S


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
        `are_apart`: each shard is a channel, and hints come while all slots work, too. `is_single`: there is one slot.
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
        self._is_patient, self.is_single = is_patient, is_single
        self._shards = [Shard(number, acks) for number, acks in enumerate(self.acks)]
        self.channels = [Channel([one]) for one in self._shards] if are_apart else [Channel(self._shards)]
        self._channel_of = [channel for channel in self.channels for _ in channel.shards]
        self._holders: dict[Lease, Slot] = {}
        self._asking: dict[Slot, None] = {}
        self._waiting: dict[Slot, None] = {}
        """Slots that are free: what they ask is a claim, or to wait for one."""
        self._until = float("inf")  # when the first of them wants to hear something
        self._ticked_at = 0.0
        self.all: list[Slot] = []
        self._is_deaf = False
        self.busy = 0
        self.is_ending = False
        self._max_messages, self.done, self._reserved = max_messages, 0, 0

    def listens(self, channel: Channel) -> bool:
        """Whether to wait for hints of it: while a slot waits or, of a shard of its own, as long as it is idle. Else a
        consumer that is never idle for long would not hear of it.
        """
        if len(self.channels) > 1:
            return channel.shards[0].is_idle and not self.is_ending
        return bool(self._waiting) and not (self._is_deaf or self.is_ending)

    @property
    def is_spent(self) -> bool:
        """Whether as many messages ended as it is for."""
        return self._max_messages is not None and self.done >= self._max_messages

    def _left(self, now: float) -> int:
        """How many messages may still be claimed. None where the last group given was released unbegun."""
        if self._is_deaf or self.is_ending:
            return 0
        if self._max_messages is None:
            return MAX_CLAIMED * len(self._shards)
        out = sum(one.out.messages for one in self.channels if one.out and one.is_sure(now))
        return max(0, self._max_messages - self.done - self._reserved - out)

    def new(self, **options: Any) -> Slot:
        """One more slot; `options` of its Held."""
        shared: Any = {"shared_acks": self.acks, "refusals": self.refusals, "outages": self.outages}
        slot = Slot(Held(self._keys, self._who[2], **shared, **options))
        self.all.append(slot)
        return slot

    # -- what slots say -------------------------------------------------------------------------------------------

    def ask(self, slot: Slot, question: Question) -> bool:
        """Whether its generator has to wait for an answer."""
        held, self._is_deaf = slot.held, False
        if isinstance(question, Wait):
            self._waiting[slot], seconds = None, question.seconds
        else:
            held.settle(everything=isinstance(question, SettleAndClaim))
            if isinstance(question, Flush) and not question.is_awaited:
                return False
            if isinstance(question, SettleAndClaim):
                self._is_over(slot)
            if not isinstance(question, SettleAndClaim) or question.shard is None:
                slot.question = question
                self._channel_of[held.shard].asking.append(slot)
                return True
            self._asking[slot], seconds = None, ENDING_S
            if len(self.channels) == 1 or not self._is_patient:  # hints may have gone elsewhere
                for shard in self._shards:
                    shard.ask()
        slot.question = question
        slot.until = self._clock() + (PATIENT_S if self._is_patient and seconds > 0 else seconds)
        self._until = min(self._until, slot.until)
        return True

    def _is_over(self, slot: Slot) -> None:
        """It is done with its groups."""
        channel = self._channel_of[slot.held.shard]
        for planned in channel.planned:
            planned.pop(slot, None)
        self._shards[slot.held.shard].ended += slot.leases
        slot.leases = []
        self.busy -= slot.is_busy
        slot.is_busy = False
        ended = slot.held.handled + slot.held.failed
        self.done += ended - slot.counted
        self._reserved -= slot.reserved
        slot.counted, slot.reserved = ended, 0

    def begins(self, slot: Slot) -> bool:
        """A handler of this slot begins: what was finished before it must not wait for its end. Whether that is new."""
        late = self._channel_of[slot.held.shard].late
        if slot in late or slot.held.finished_at is None:
            return False
        late[slot] = self._clock() + ACK_AFTER_S
        return True

    def stuck(self, slot: Slot, since: float) -> None:
        """The handler that began then hangs, or ignores the end of its time: its lease is renewed once more."""
        slot.held.stuck_since = since
        self._channel_of[slot.held.shard].stuck.append(slot)

    def hint(self, shard: int | None = None) -> None:
        """Something is due in this shard, or somewhere."""
        for one in self._shards if shard is None else (self._shards[shard],):
            one.hint()

    def hinted(self, channel: Channel, place: int | None) -> bool:
        """A hint came for this shard of the channel; None: one may be lost. Whether a free slot claims then."""
        is_wanted = self.listens(channel)
        found = channel.shards if place is None else [channel.shards[place]]
        for shard in found:
            shard.hint()
        if len(self.channels) == 1:
            return is_wanted
        shares = self.shares(self._clock())
        return any(shares.get(shard) for shard in found)

    def take_events(self) -> tuple[list[tuple[str, str, bool]], list[Halted], list[Began | Ended], list[Slot]]:
        """Events that are not logged yet; they are the caller's then."""
        taken = self.refusals[:], self.halted[:], self.outages[:], self.left[:]
        for some in (self.refusals, self.halted, self.outages, self.left):
            some.clear()
        return taken

    def ready(self, now: float) -> Answers:
        """Answers that need no trip: nothing is due, the time of a slot is over, or all is."""
        for shard in self._shards:
            if shard.is_idle and now >= shard.due_at:
                shard.hint()
        answers: Answers = []
        if self._is_all_idle():
            due_s = min(shard.due_at for shard in self._shards) - now
            nothing = Claimed([], due_s, all(shard.is_empty for shard in self._shards))
            answers += [(slot, nothing) for slot in self._asking]
            self._asking.clear()
        if self.is_ending or now >= self._until:
            for free, answer in ((self._asking, NOTHING), (self._waiting, None)):
                over = [slot for slot in free if self.is_ending or now >= slot.until]
                answers += [(slot, answer) for slot in over]
                for slot in over:
                    del free[slot]
            self._until = min([slot.until for slot in chain(self._asking, self._waiting)], default=float("inf"))
        for slot, _ in answers:
            slot.question = None
        return answers

    def _is_all_idle(self) -> bool:
        """Whether those that ask are to hear that nothing is due."""
        return bool(self._asking) and not any(shard.is_asked for shard in self._shards)

    def fail(self, error: BaseException) -> Answers:
        """A thread that asks the server is over: so is each slot that waits for it."""
        return [(slot, error) for slot in self.all if slot.question is not None]

    # -- one trip -------------------------------------------------------------------------------------------------

    def due_at(self, channel: Channel, now: float, shares: Mapping[Shard, int]) -> float:
        """When there is something to do on it, or `ready`, if nobody asks before. `shares` of now."""
        if channel.out:
            return float("inf")
        is_free = bool(self._asking or self._waiting)
        if channel.asking or channel.stuck or any(shard.acks or shard.ended for shard in channel.shards):
            return now
        if is_free and (self.is_ending or self._is_all_idle() or any(shares.get(shard) for shard in channel.shards)):
            return now
        times = [next(iter(planned.values())) for planned in channel.planned if planned]
        if self._ticks(channel):
            times.append(self._ticked_at + TICK_S)
        if is_free:
            times.append(self._until)
            for shard in channel.shards:
                if shard in shares:
                    times.append(now + SLOW_S)
                elif shard.is_idle or shard.claims_from > now:
                    times.append(shard.due_at if shard.is_idle else shard.claims_from)
        return min(times, default=float("inf"))

    def _ticks(self, channel: Channel) -> bool:
        """Whether it is looked now and then at the only slot, as at the handlers of one consumer."""
        return self.is_single and bool(self.busy) and self._channel_of[self.all[0].held.shard] is channel

    def trip(self, channel: Channel, now: float) -> Trip | None:
        """What to ask now. None: nothing, or one is out."""
        if channel.out:
            return None
        self._settle_late(channel, now)
        parts = {shard.number: Part(shard, shard.hints) for shard in channel.shards}
        asking, channel.asking = channel.asking, []
        settled: list[Slot] = []
        for slot in asking:
            if isinstance(slot.question, Note):
                parts[slot.held.shard].notes.append((slot, slot.question))
            else:
                settled.append(slot)
        stuck, channel.stuck = channel.stuck, []
        for slot in stuck:
            if slot.held.is_stuck and slot.leases:
                parts[slot.held.shard].stuck.append(slot)
        for slot in _due(channel.renewals, now):
            if not slot.held.is_stuck and any(group.is_open for group in slot.held.groups):
                parts[slot.held.shard].renewed.append(slot)
        shares = self.shares(now)
        for part in parts.values():
            part.claims = shares.get(part.shard, 0)
        is_taken = any(one.out and one.out.has_room and one.is_sure(now) for one in self.channels)
        room, left, messages = 0 if is_taken else self.suspects.room(), self._left(now), 0
        free = chain(self._asking, self._waiting)
        for part in sorted(parts.values(), key=lambda one: one.shard.turn(now)):
            claimants = [*islice(free, min(part.claims, left - messages))]
            messages += self._fill(part, claimants, room, left - messages, now)
            room = 0 if claimants else room
        asked = [part for part in parts.values() if part.calls or part.ended]
        trip = Trip(asked, settled, now, messages, has_room=bool(messages) and not is_taken)
        channel.out = trip if asked or settled else None
        return channel.out

    def shares(self, now: float) -> dict[Shard, int]:
        """From which shards to claim now, and for how many free slots; 0: if what is sure to come does not."""
        shares: dict[Shard, int] = {}
        if not ((self._asking or self._waiting) and self._left(now)):
            return shares
        able = list[Shard]()
        for channel in self.channels:
            found = () if channel.out else [shard for shard in channel.shards if shard.may_claim(now)]
            if channel.is_away:  # besides: it may never come
                shares.update(dict.fromkeys(found, 1))
            else:
                able += found
        free = len(self._asking)
        if not all(shard.is_idle for shard in able):
            free += len(self._waiting)
        able.sort(key=lambda shard: shard.turn(now))
        left = free - sum(one.out.claims for one in self.channels if one.out and one.is_sure(now))
        for number, shard in enumerate(able[:free]):
            shares[shard] = max(0, min(self._most_groups, (left - number - 1) // len(able) + 1))
        return shares

    def _fill(self, part: Part, claimants: list[Slot], room: int, left: int, now: float) -> int:
        """Make its calls, for at most this many suspects and messages; returns how many messages it may take."""
        shard, messages = part.shard, 0
        part.claims = len(claimants)
        if shard.acks:
            part.sending = shard.acks.sending(0, claims_next=shard.number if claimants else None)
            part.calls += part.sending.calls
            shard.acks.posted()
        part.ended, shard.ended = shard.ended, []
        keys, lease_s = shard.acks.keys, self._who[2]
        for _, note in part.notes:
            part.calls.append(save_step(keys, note.group.save_step(note.written, has_progressed=note.has_progressed)))
        if part.renewed:
            part.calls.append(renew(keys, [lease for slot in part.renewed for lease in _open(slot)], lease_s))
        for slot in part.stuck:
            part.calls.append(renew(keys, _open(slot), lease_s, alone=True))
        if claimants:
            shard.claimed_at = now
            wanted = [limits_of(slot) for slot in claimants]
            count, running = len(wanted), bool(self.suspects.running)
            each = min(sorted(limits.messages for limits in wanted)[count // 2], min(MAX_CLAIMED, left) // count)
            messages, groups = count * each, min(wanted[0].groups, each) if self.is_single else count
            limits = ClaimLimits(groups, messages, max(limits.bytes for limits in wanted))
            alone = [slot.question.alone for slot in claimants if isinstance(slot.question, SettleAndClaim)]
            part.calls.append(
                claim(
                    *(keys, *self._who, limits),
                    ahead=self.busy > 0,
                    alone=min(left, max(alone, default=0)),
                    with_failures=claimants[0].held.with_failures,
                    suspects=None if self.is_single else room,
                    has_suspect=running,
                )
            )
        return messages

    def answered(
        self,
        channel: Channel,
        results: Sequence[Any],
        now: float,
        *,
        is_repeat: bool = False,
        confirmed: int = 0,
    ) -> Answers:
        """The results of the calls of the trip that is out, in their order. `confirmed`: by how many replicas."""
        trip, channel.out, channel.is_away = channel.out, None, False
        assert trip
        answers: Answers = [(slot, None) for slot in trip.settled]
        given, claims = iter(results), list[tuple[Part, Claimed]]()
        for part in trip.parts:
            if part.sending:
                self.outages += take_in(part.sending, given, self._holder, is_repeat=is_repeat)
            for slot, note in part.notes:
                answers.append((slot, slot.held.saved(note, next(given), is_repeat=is_repeat, confirmed=confirmed)))
            if part.renewed:
                self._renewed(channel, part.renewed, next(given), trip.sent_at)
            for slot in part.stuck:
                self._renewed(channel, [slot], next(given), trip.sent_at)
                slot.held.left_since = slot.held.stuck_since
                self.left.append(slot)
            for lease in part.ended:
                del self._holders[lease]
                self.suspects.finished(*lease)
            if part.claims:
                claims.append((part, next(given)))
        for part, claimed in claims:
            answers += self._claimed(part, claimed, trip, now)
        for slot, _ in answers:
            slot.question = None
        return answers + self.ready(now)

    def lost(self, channel: Channel, error: Exception) -> Answers:
        """The trip that is out was not answered. Those that ask for a group go on asking: other shards may have one;
        but not at an error that stays.
        """
        trip, channel.out, channel.is_away = channel.out, None, len(self.channels) > 1
        assert trip
        asked = [*trip.settled]
        for part in trip.parts:
            if part.sending:
                part.sending.source.put_back(part.sending)
            part.shard.ended[:0] = part.ended
            asked += [slot for slot, _ in part.notes]
            for slot in reversed(part.renewed):
                if self._works_on(channel, slot):
                    channel.renewals[slot] = trip.sent_at
                    channel.renewals.move_to_end(slot, last=False)
            self.left += part.stuck
        if not isinstance(error, ServerUnavailable):
            asked += [*self._asking, *self._waiting]
            self._asking.clear()
            self._waiting.clear()
        for slot in asked:
            slot.question = None
        return [(slot, error) for slot in asked]

    # -- what became of it ----------------------------------------------------------------------------------------

    def _claimed(self, part: Part, claimed: Claimed, trip: Trip, now: float) -> Answers:
        self.halted += claimed.halted
        shard, groups = part.shard, claimed.groups
        answers: Answers = []
        for some in [groups] if self.is_single and groups else [[leased] for leased in groups]:
            slot = next(chain(self._asking, self._waiting), None)
            if slot is None or not self._fits(some):
                shard.acks.release(some)
                continue
            self._asking.pop(slot, None)
            self._waiting.pop(slot, None)
            self._give(slot, part.shard, some, (trip.sent_at, now, claimed.now_us))
            answers.append((slot, replace(claimed, groups=some)))
        if groups:
            return answers
        if claimed.next_due_s == 0.0:
            shard.claims_from = now + SUSPECTS_AGAIN_S
        elif shard.hints == part.hints:
            shard.is_idle, shard.is_asked, shard.is_empty = True, False, claimed.is_empty
            shard.due_at = now + (IDLE_S if claimed.next_due_s is None else min(IDLE_S, claimed.next_due_s))
        return answers

    def _fits(self, some: list[LeasedGroup]) -> bool:
        """Whether these may be begun, though others came meanwhile."""
        messages, most = sum(len(leased.messages) for leased in some), self._max_messages
        if most is not None and self.done + self._reserved + messages > most:
            return False
        return self.is_single or not some[0].expired_owner or self.suspects.room() > 0

    def _give(self, slot: Slot, shard: Shard, some: list[LeasedGroup], times: tuple[float, float, int]) -> None:
        slot.held.take(shard.number, some, *times)
        slot.reserved = sum(len(leased.messages) for leased in some)
        self._reserved += slot.reserved
        slot.leases = [group.lease for group in slot.held.groups]
        self._holders.update(dict.fromkeys(slot.leases, slot))
        slot.is_busy = True
        self.busy += 1
        for leased in () if self.is_single else some:
            if leased.expired_owner:
                was_charged = leased.messages[0].attempt > 1
                self.suspects.began(leased.key, leased.token, was_charged=was_charged)
        channel = self._channel_of[shard.number]
        channel.unbegun[slot] = times[1] + RELEASE_S
        self._plan_renewal(channel, slot)

    def _renewed(self, channel: Channel, slots: list[Slot], stale: list[Lease], sent_at: float) -> None:
        for lease in stale:
            if held := self._holder(lease):
                held.lose(lease)
        for slot in slots:
            if self._works_on(channel, slot):
                slot.held.deadline = sent_at + slot.held.lease_s
                self._plan_renewal(channel, slot)

    def _works_on(self, channel: Channel, slot: Slot) -> bool:
        """Still: meanwhile it may have got a group of another channel, and of this one only in a later trip."""
        return slot.is_busy and self._channel_of[slot.held.shard] is channel

    def _plan_renewal(self, channel: Channel, slot: Slot) -> None:
        channel.renewals.pop(slot, None)
        channel.renewals[slot] = slot.held.deadline - slot.held.lease_s * (RENEW_PART - 1) / RENEW_PART

    def _holder(self, lease: Lease) -> Held | None:
        slot = self._holders.get(lease)
        return slot.held if slot else None

    def _settle_late(self, channel: Channel, now: float) -> None:
        for slot in _due(channel.late, now):
            if slot.held.finished_at is not None:
                slot.held.settle()
        for slot in _due(channel.unbegun, now):
            if slot.held.current < 0:
                slot.held.settle(unbegun=True)
                self._is_deaf = True
        if self._ticks(channel):
            self._ticked_at = now
            self.all[0].held.settle_late(now)


def _due(planned: OrderedDict[Slot, float], now: float) -> Iterator[Slot]:
    while planned and next(iter(planned.values())) <= now:
        yield planned.popitem(last=False)[0]


def _open(slot: Slot) -> list[Lease]:
    return [group.lease for group in slot.held.groups if group.is_open]


def limits_of(slot: Slot) -> ClaimLimits:
    question = slot.question
    assert isinstance(question, SettleAndClaim | Wait)
    return question.limits
