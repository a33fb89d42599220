"""What one consumer holds: leased groups, and how far each is handled. Pure.

Two threads use it: the one that runs handlers walks through the groups, and the renewer thread renews leases and sends
what a slow handler would hold up. All but `begin` and `finish` is called under the shell's lock: the renewer may hold
that for a round trip.

Rules:
  - A message handled but not acknowledged yet sits between `acked` and `done` of its group.
  - A group is open until it is released, failed, or its lease is found lost; only an open group is worked on.
  - After `deadline`, by the local clock since before the lease was asked for, a lease counts as lost until renewed.

A group is begun without the lock. Both threads write what they are about before they read what the other is about:

    the thread that handles: begin(i)              the renewer: settle(unbegun=True), under the lock
    ---------------------------------              ------------------------------------------------
    1  writes  current = i                         1  writes  gives_up = True
    2  reads   gives_up                            2  reads   current
         it is True:  asks again under the lock    3  releases the groups behind `current`, is_open = False
         it is False: reads is_open                4  writes  gives_up = False

Where it reads False before the renewer's 1, the renewer's 2 reads the new `current` and leaves the group alone. Where
it reads False after the 4, `is_open` says what the renewer decided. Where it reads True, it waits for the lock, and so
for 4. With a pair of lines turned round, a group could be begun and released at once (the controls in test_held.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..calls.claim import LeasedGroup
from ..calls.outage import Began, Ended, ProbeEnd
from ..calls.settle import Acked, Nack, Nacked, renew
from ..settings.pace import ACK_AFTER_S, RELEASE_S, RENEW_PART, RENEWER_AFTER_S, RENEWER_S
from ..store.keys import ShardKeys
from ..values.durations import RUN_BOUNDS_S
from .effects import Note
from .held_group import HeldGroup, History
from .outcome import Failed
from .pending_acks import PendingAcks, Sending
from .steps.actions import AGAIN, UNCONFIRMED


@dataclass(slots=True)
class Held:
    """The groups of one claim. `lost` counts the leases that ended before their acknowledgement."""

    shards: Sequence[ShardKeys]
    lease_s: float
    shard: int = 0
    groups: list[HeldGroup] = field(default_factory=list)
    current: int = -1
    deadline: float = 0.0
    running_since: float | None = None
    handlers_s: float = 0.0  # time in handlers and steps that have ended, of all claims
    runs: list[int] = field(default_factory=lambda: [0] * (len(RUN_BOUNDS_S) + 1))
    """How many handlers ended within each of those bounds, but not within the one before; the last number: later."""
    finished_at: float | None = None
    stuck_since: float | None = None
    """Beginning of a handler run that hangs: its lease is renewed once more, so that its end counts as an attempt."""
    left_since: float | None = None  # beginning of the run whose lease was renewed for the last time
    gives_up: bool = False  # whether groups that were not begun are being released right now
    is_more_due: bool = False
    """Whether groups were due at the last acknowledgement, but for those that it gave back."""
    lost: int = 0
    handled: int = 0
    failed: int = 0
    number: int = 0  # of the claim in progress
    with_failures: bool = False  # whether claims bring the failures of heads: passes over steps need them
    history: History = field(default_factory=lambda: History(""))
    is_timed: bool = False
    """Whether the times of handler runs are kept, for a history of the claim in progress."""
    refusals: list[tuple[str, str, bool]] = field(default_factory=list)
    """Group and token of each refusal that the shell has yet to tell, and whether its call was repeated."""
    is_held_back: bool = False
    """Whether an outage holds the shard back, as a nack of this claim was answered: its other groups are released."""
    outages: list[Began | Ended] = field(default_factory=list)  # outages that are not logged yet
    nacked: dict[tuple[str, str], Nacked] = field(default_factory=dict)
    """How outages were taken, by group and token."""
    shared_acks: list[PendingAcks] | None = None  # of a worker slot: those of its process
    shard_acks: list[PendingAcks] = field(init=False)
    pending_acks: PendingAcks = field(init=False)

    def __post_init__(self) -> None:
        new = [PendingAcks(shard, keys) for shard, keys in enumerate(self.shards)]
        self.shard_acks = self.shared_acks or new
        self.pending_acks = self.shard_acks[self.shard]

    def take(self, shard: int, groups: list[LeasedGroup], asked_at: float, answered_at: float, now_us: int = 0) -> None:
        """Hold these groups, those with few messages first: one that never ends lets the others go before it.
        Their leases are counted from before the claim was sent. `now_us`: the server's time when it was carried out.
        """
        history = self.history
        history.learn(now_us, asked_at, answered_at)
        self.is_timed = bool(history.kept)
        self.shard, self.pending_acks, self.current, self.number = shard, self.shard_acks[shard], -1, self.number + 1
        few_first = sorted(groups, key=lambda leased: len(leased.members))
        self.groups = [*map(HeldGroup, few_first)]
        if self.is_timed:
            for group in self.groups:
                group.history = history
        self.deadline = asked_at + self.lease_s
        self.running_since = self.finished_at = None
        self.is_more_due = self.is_held_back = False
        self.nacked.clear()

    def begin(self, index: int) -> bool | None:
        """Start on a group; None: ask under the lock whether it is open. The order of the lines is the handshake."""
        self.current = index
        return None if self.gives_up else self.groups[index].is_open

    def switch(self, now: float, *, runs: bool) -> None:
        """A handler or a step ended at `now`, if one ran; one begins, if one `runs` from now on."""
        began, self.running_since = self.running_since, now if runs else None
        if began is not None:
            self.handlers_s += now - began

    def count_run(self, seconds: float) -> None:
        """A handler, a batch, or a pass over steps took so long."""
        self.runs[bisect_left(RUN_BOUNDS_S, seconds)] += 1

    def finish(self, group: HeldGroup, began: float, ended: float) -> None:
        """The group's next message succeeded. Its ack waits from the beginning of the handler. Needs no lock."""
        if self.is_timed:
            group.times.append((began, ended))
        group.done += 1
        self.handled += 1
        if self.finished_at is None:
            self.finished_at = began

    def fail(self, group: HeldGroup, failed: Failed) -> None:
        """The handler of the group's next message failed: the group ends here for this consumer."""
        if not group.is_open:
            return
        self._settle(group, group.done, release=False)
        self.pending_acks.nacks.append(group.give_up(failed))
        if group.leased.is_probe and failed.ends_outage:
            self.pending_acks.probes.append(ProbeEnd("close", group.leased.token))
        group.is_open = False

    def _settle(self, group: HeldGroup, done: int, *, release: bool) -> None:
        if group.leased.is_probe and (done > group.acked or (release and not done)):
            self.pending_acks.probes.append(ProbeEnd("close" if done else "probe", group.leased.token))
        if done > group.acked or release:
            entry = group.entry(done, release=release)
            self.pending_acks.acks.append(entry)
            group.acknowledged(entry)
            group.is_open = group.is_open and not release

    def settle(self, *, everything: bool = False, unbegun: bool = False) -> None:
        """Put finished messages into the pending_acks. `everything` releases all groups, `unbegun` those not begun."""
        self.finished_at = None  # first: a message that is finished meanwhile must not wait unnoticed
        self.gives_up = unbegun  # before `current` is read, as drawn above
        for index, group in enumerate(self.groups):
            done = group.done  # read once: it may count up meanwhile
            if group.is_open:
                complete = done == len(group.leased.members)
                is_unbegun = index > self.current or (self.is_stuck and index < self.current)
                self._settle(group, done, release=everything or complete or (unbegun and is_unbegun))
        self.gives_up = False

    def settle_late(self, now: float) -> None:
        """While a handler runs: into the pending acks with what would wait for it, late acks and groups not begun."""
        since, finished = self.running_since, self.finished_at
        waits = finished is not None and now - finished >= RENEWER_AFTER_S
        if since is not None and now - since >= (RENEWER_S if waits else ACK_AFTER_S):
            self.settle(unbegun=now - since >= RELEASE_S)

    def outgoing(self, *, claims_next: int | None = None, now: float | None = None) -> Sending | None:
        """What to send now of the shard in progress, if anything; with `now` also the renewals that are due."""
        renews = now is not None and self._renews(now)
        if not (self.pending_acks or renews):
            return None
        sending = self.pending_acks.sending(self.number, claims_next=claims_next)
        if renews:
            sending.renewals = [group.lease for group in self.groups if group.is_open]
            if sending.renewals:
                sending.is_last = self.is_stuck
                keys = self.pending_acks.keys
                sending.calls.append(renew(keys, sending.renewals, self.lease_s, alone=sending.is_last))
        return sending if sending.calls else None

    def has_due(self, now: float) -> bool:
        return bool(self.pending_acks) or self._renews(now)

    @property
    def is_stuck(self) -> bool:
        """Whether the handler that runs now hangs, or ignored the end of its time."""
        return self.stuck_since is not None and self.stuck_since == self.running_since

    def _renews(self, now: float) -> bool:
        if self.is_stuck:
            return self.left_since != self.stuck_since
        return now >= self.deadline - self.lease_s * (RENEW_PART - 1) / RENEW_PART

    def answered(self, sending: Sending, results: Sequence[Any], sent_at: float, *, is_repeat: bool = False) -> None:
        """Take in results. `is_repeat`: they were sent more than once, so a refusal may be the answer to a success."""
        answers = iter(results)
        self.outages += take_in(sending, answers, lambda lease: self, is_repeat=is_repeat)
        if sending.renewals:
            for lease in next(answers):
                self.lose(lease)
            self.deadline = sent_at + self.lease_s
            self.left_since = self.stuck_since if sending.is_last else None

    def saved(self, note: Note, code: int, *, is_repeat: bool, confirmed: int) -> int:
        """What the pass over steps learns of a step that was saved, as the script answered."""
        if code == 0:
            self.lose(note.group.lease)
        if code != 1 or not note.wait:
            return code
        if is_repeat:  # the first attempt may have written it over another connection, and WAIT speaks of its own only
            return AGAIN
        return UNCONFIRMED if confirmed < note.wait[0] else code

    def taken(self, entry: Nack, done: Nacked) -> bool:
        """Whether the nack was, or is to be sent again; and what it says of an outage."""
        if done.is_behind:
            return True
        if done.held:
            self.is_held_back = any(group.lease == entry[:2] for group in self.groups)  # it may work on another shard's
            if done.held.is_new:
                self.outages.append(Began(done.held, entry.failure))
        if entry.outage:
            self.nacked[entry[:2]] = done
        return done.is_valid

    def lose(self, lease: tuple[str, str], *, is_repeat: bool = False) -> None:
        """This lease is lost: group and token. Of a call that was repeated, the first attempt may have ended it."""
        if is_repeat:
            self.refusals.append((*lease, True))
            return
        for group in self.groups:
            if group.lease == lease:
                if group.is_lost:
                    return
                group.is_open, group.is_lost = False, True
        self.lost += 1
        self.refusals.append((*lease, False))

    def abandon(self) -> None:
        """The leases ran out while the server was away: forget all of it; others handle those groups again."""
        for pending_acks in self.shard_acks:
            for lease in pending_acks.forget(self.groups if self.shared_acks else None):
                self.lose(lease)
        self.groups = []


def take_in(
    sending: Sending, results: Iterator[Any], holder: Callable[[tuple[str, str]], Held | None], *, is_repeat: bool
) -> list[Ended]:
    """Take its results from `results`; returns the outages that are over. `holder`: of a lease."""
    source, refused, behind = sending.source, list[tuple[str, str]](), list[Nack]()
    source.answered(sending)
    if sending.acks:
        acked: Acked = next(results)
        refused += [entry[:2] for entry in acked.refused if entry.members]
        for entry in sending.acks:
            if held := holder(entry[:2]):
                held.is_more_due = acked.is_more_due
    for nack in sending.nacks:
        held, done = holder(nack[:2]), next(results)
        if held and not held.taken(nack, done):
            refused.append(nack[:2])
        if done.is_behind:
            behind.append(nack)
    source.nacks[:0] = behind
    ended = [end for end in (next(results) for _ in sending.probes) if end.status == "closed"]
    for lease in refused:
        if held := holder(lease):
            held.lose(lease, is_repeat=sending.is_repeat or is_repeat)
    return ended
