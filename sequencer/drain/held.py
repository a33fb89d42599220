"""What one consumer holds: leased groups, how far each is handled, and what the server has yet to be told. Pure.

Two parties use it: the thread that runs handlers walks through the groups, and the keeper thread renews leases and
sends what a slow handler would hold up. All but `begin` and `finish` is called under the caller's lock: the keeper may
hold that for a round trip.

Rules:
  - A message handled but not acknowledged yet sits between `acked` and `done` of its group.
  - A group is open until it is given back, failed, or its lease is found lost; only an open group is worked on.
  - What was sent but not confirmed stays in the outbox and is sent again: acks and nacks may be repeated.
  - After `deadline`, by the local clock since before the lease was asked for, a lease counts as lost until renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..calls.call import Call
from ..calls.claim import LeasedGroup
from ..calls.settle import Ack, Acked, Nack, Run, ack, nack, renew
from ..settings.options import AUDIT_LENGTH
from ..settings.pace import ACK_AFTER_S, GIVE_BACK_S, KEEPER_AFTER_S, KEEPER_S, RENEW_PART
from ..store.keys import LaneKeys
from ..store.watermark import advance

Ending = Literal["park", "dead", "drop"]


class Held:
    """A leased group and how far it is."""

    __slots__ = ("acked", "done", "is_lost", "is_open", "leased", "mark", "times")

    def __init__(self, leased: LeasedGroup) -> None:
        self.leased = leased
        self.done = 0
        self.acked = 0
        self.is_open = True
        self.is_lost = False
        self.mark = leased.mark
        self.times: list[tuple[float, float]] = []
        """When each handler run began and ended; only for an audit."""

    def entry(self, done: int, *, release: bool) -> Ack:
        """The entry that acknowledges the messages up to `done`, and perhaps gives the group back."""
        first, leased = self.acked, self.leased
        if first == done:
            return Ack(leased.key, leased.token, [], release)
        messages, is_sequence = leased.messages[first:done], self.mark.startswith("#")
        redriven = [message.redriven for message in messages] if is_sequence else ()
        mark = advance(self.mark, leased.scores[first if is_sequence else done - 1 : done], redriven)
        late = sum(message.late for message in messages) if messages[0].late else 0
        runs = [self._run(position) for position in range(first, done)] if self.times else ()
        return Ack(leased.key, leased.token, leased.members[first:done], release, mark, late, runs)

    def acknowledged(self, entry: Ack) -> None:
        """This entry will reach the server, or has."""
        self.acked += len(entry.members)
        self.mark = entry.mark

    def _run(self, position: int) -> Run:
        """Times count from the token, a tick of the lane's clock, and from the claim's answer: never too late, so that
        runs of two leases overlap only if their handlers did.
        """
        leased, (began, ended) = self.leased, self.times[position]
        start, message = int(leased.token), leased.messages[position]
        began_us, ended_us = (str(start + round((at - leased.claimed_at) * 1e6)) for at in (began, ended))
        score, stamp = leased.scores[position], str(message.stamp)
        return Run(message.id, score, stamp, began_us, ended_us, "1" if message.redriven else "0")

    def give_up(self, attempts: int, delay_s: float | None, failure: bytes, ending: Ending, is_late: bool) -> Nack:
        """The entry for a failure of the next message; in a sequence, a message given up counts as passed.

        Of one that is parked the script leaves the mark.
        """
        leased, is_passed = self.leased, delay_s is None and self.mark.startswith("#")
        is_redriven = [leased.messages[self.done].redriven]
        mark = advance(self.mark, [leased.scores[self.done]], is_redriven) if is_passed else ""
        member = leased.members[self.done]
        return Nack(leased.key, leased.token, member, attempts, delay_s, failure, ending, mark, is_late)


@dataclass(slots=True)
class Sending:
    """Calls to make now, and what they carry, so that their results can be taken in."""

    calls: list[Call[Any]]
    acks: list[Ack]
    nacks: list[Nack]
    renewals: list[tuple[str, str]]
    is_repeat: bool
    number: int
    """Of the claim whose groups were in hand."""

    @property
    def needs_order(self) -> bool:
        """Whether the calls must not overtake one another, as they could when the server lost some of the scripts.

        A nack ends the lease that an ack of the same group before it needs; anything else may run in any order.
        """
        return bool(self.acks and self.nacks)


@dataclass(slots=True)
class Holdings:
    """The groups of one claim. `lost` counts the leases that ended before their acknowledgement."""

    lanes: Sequence[LaneKeys]
    lease_s: float
    lane: int = 0
    groups: list[Held] = field(default_factory=list)
    current: int = -1
    deadline: float = 0.0
    running_since: float | None = None
    finished_at: float | None = None
    gives_up: bool = False
    """Whether groups that were not begun are being given back right now."""
    is_more_due: bool = False
    """Whether groups were due at the last acknowledgement, but for those that it gave back."""
    lost: int = 0
    handled: int = 0
    """Messages whose handlers succeeded, of all claims."""
    number: int = 0
    """Of the claim in hand."""
    audits: bool = False
    audit_length: int = AUDIT_LENGTH
    untold: list[tuple[str, str, bool]] = field(default_factory=list)
    """Group and token of each refusal that the shell has yet to tell, and whether its call was repeated."""
    _acks: list[Ack] = field(default_factory=list)
    _nacks: list[Nack] = field(default_factory=list)
    _tried: bool = False

    def take(self, lane: int, groups: list[LeasedGroup], asked_at: float, answered_at: float) -> None:
        """Hold these groups, those with few messages first: one that never ends lets the others go before it.
        Their leases are counted from before the claim was sent.
        """
        for group in groups:
            group.claimed_at = answered_at
        self.lane, self.current, self.number = lane, -1, self.number + 1
        self.groups = [Held(group) for group in sorted(groups, key=lambda group: len(group.members))]
        self.deadline = asked_at + self.lease_s
        self.running_since = self.finished_at = None
        self.is_more_due = False

    def begin(self, index: int) -> bool | None:
        """Start on a group, unless it was given back or lost meanwhile; None: whether it is open shows under the lock.

        Of `current` and `gives_up`, here one is written before the other is read, and by who gives groups back the
        other way round: at least one of the two sees what the other did.
        """
        self.current = index
        return None if self.gives_up else self.groups[index].is_open

    def finish(self, held: Held, began: float, ended: float) -> None:
        """The handler of the group's next message, begun then, succeeded. Needs no lock: one thread counts up.

        The wait for an ack is counted from the beginning, so that the ack of a slow handler goes out at once.
        """
        if self.audits:
            held.times.append((began, ended))
        held.done += 1
        self.handled += 1
        if self.finished_at is None:
            self.finished_at = began

    def fail(
        self, held: Held, attempts: int, delay_s: float | None, failure: bytes, ending: Ending, late: bool
    ) -> None:
        """The handler of the group's next message failed: the group ends here for this consumer."""
        if not held.is_open:
            return
        self._settle(held, held.done, release=False)
        self._nacks.append(held.give_up(attempts, delay_s, failure, ending, late))
        held.is_open = False

    def _settle(self, held: Held, done: int, *, release: bool) -> None:
        if done > held.acked or release:
            entry = held.entry(done, release=release)
            self._acks.append(entry)
            held.acknowledged(entry)
            held.is_open = held.is_open and not release

    def settle(self, *, everything: bool = False, unbegun: bool = False) -> None:
        """Put finished messages into the outbox. `everything` gives back all groups, `unbegun` those not begun."""
        self.finished_at = None  # first: a message that is finished meanwhile must not wait unnoticed
        self.gives_up = unbegun  # before `current` is read, see `begin`
        for index, held in enumerate(self.groups):
            done = held.done  # read once: it may count up meanwhile
            if held.is_open:
                complete = done == len(held.leased.members)
                self._settle(held, done, release=everything or complete or (unbegun and index > self.current))
            elif self.audits and held.is_lost:
                self._settle(held, done, release=False)  # refused, and so recorded
        self.gives_up = False

    def outgoing(self, *, claims_next: int | None = None, now: float | None = None) -> Sending | None:
        """What to send now: the outbox, and with `now` the renewals that are due. None when nothing is.

        `claims_next` is the lane that the caller claims from in the same round trip: it then needs no hint.
        """
        keys, renewals = self.lanes[self.lane], []
        calls: list[Call[Any]] = []
        if self._acks:
            calls.append(ack(keys, self._acks, hint=claims_next != self.lane, audit_length=self.audit_length))
        calls += [nack(keys, entry) for entry in self._nacks]
        if now is not None and self._renews(now):
            renewals = [(held.leased.key, held.leased.token) for held in self.groups if held.is_open]
            if renewals:
                calls.append(renew(keys, renewals, self.lease_s))
        if not calls:
            return None
        sending = Sending(calls, self._acks, self._nacks, renewals, self._tried, self.number)
        self._tried = True
        return sending

    def has_due(self, now: float) -> bool:
        """Whether there may be something to send now."""
        return bool(self._acks or self._nacks) or self._renews(now)

    def _renews(self, now: float) -> bool:
        return now >= self.deadline - self.lease_s * (RENEW_PART - 1) / RENEW_PART

    def depart(self, sending: Sending) -> None:
        """It is on its way: what comes meanwhile goes into another. `sent` or `came_back` says what became of it."""
        self._acks, self._nacks, self._tried = [], [], False

    def came_back(self, sending: Sending) -> None:
        """It was not answered: it is to be sent again, before what came meanwhile."""
        self._acks, self._nacks, self._tried = sending.acks + self._acks, sending.nacks + self._nacks, True

    def give_back(self, groups: Sequence[LeasedGroup]) -> None:
        """Groups that were claimed and never taken are given back."""
        self._acks += [Ack(group.key, group.token, [], True) for group in groups]

    def sent(self, sending: Sending, results: Sequence[Any], sent_at: float, *, is_repeat: bool = False) -> None:
        """Take in the results of `sending.calls`, in their order: every call was answered.

        `is_repeat`: the network layer sent them more than once, so a refusal may be the answer to a success.
        """
        if self._acks is sending.acks:
            self._acks, self._nacks, self._tried = [], [], False
        answers = iter(results)
        refused: list[tuple[str, str]] = []
        if sending.acks:
            acked: Acked = next(answers)
            self.is_more_due = acked.is_more_due
            refused += [(entry.group, entry.token) for entry in acked.refused if entry.members]
        refused += [(entry.group, entry.token) for entry in sending.nacks if not next(answers)]
        if refused and (sending.is_repeat or is_repeat):
            self.untold += [(group, token, True) for group, token in refused]
        else:
            for group, token in refused:
                self._lose(group, token)
        if sending.renewals:
            for group, token in next(answers):
                self._lose(group, token)
            self.deadline = sent_at + self.lease_s

    def _lose(self, group: str, token: str) -> None:
        for held in self.groups:
            if held.leased.key == group and held.leased.token == token:
                if held.is_lost:
                    return
                held.is_open, held.is_lost = False, True
        self.lost += 1
        self.untold.append((group, token, False))

    def take_untold(self) -> list[tuple[str, str, bool]]:
        """The refusals that nobody has told yet."""
        refusals, self.untold = self.untold, []
        return refusals

    def abandon(self) -> None:
        """The leases ran out while the server was away: forget all of it; others handle those groups again."""
        leases = {(a.group, a.token) for a in self._acks} | {(n.group, n.token) for n in self._nacks}
        for group, token in leases:
            self._lose(group, token)
        self.groups, self._acks, self._nacks, self._tried = [], [], [], False

    def tick(self, now: float) -> None:
        """While a handler runs: into the outbox with what would wait for it, late acks and groups not begun."""
        since, finished = self.running_since, self.finished_at
        waits = finished is not None and now - finished >= KEEPER_AFTER_S
        if since is not None and now - since >= (KEEPER_S if waits else ACK_AFTER_S):
            self.settle(unbegun=now - since >= GIVE_BACK_S)


Clock = Callable[[], float]
