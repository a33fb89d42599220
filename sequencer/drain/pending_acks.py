"""What is still to be sent of the groups of one shard: acknowledgements, failures, groups released. Pure.

The rule: what was sent and not answered is sent again, before what came meanwhile. Acks and nacks may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..calls.call import Call
from ..calls.claim import LeasedGroup
from ..calls.outage import ProbeEnd, outage
from ..calls.settle import Ack, Nack, ack, nack
from ..store.keys import ShardKeys
from .held_group import HeldGroup


@dataclass(slots=True)
class Sending:
    """Calls to make now, and what they carry, so that their results can be taken in."""

    source: PendingAcks
    calls: list[Call[Any]]
    acks: list[Ack]
    nacks: list[Nack]
    renewals: Sequence[tuple[str, str]]
    is_repeat: bool
    number: int  # of the claim whose groups were in progress
    probes: list[ProbeEnd] = field(default_factory=list)
    is_last: bool = False  # whether the renewals in it are the last ones of their leases


@dataclass(slots=True)
class PendingAcks:
    shard: int
    keys: ShardKeys
    acks: list[Ack] = field(default_factory=list)
    nacks: list[Nack] = field(default_factory=list)
    probes: list[ProbeEnd] = field(default_factory=list)
    is_repeat: bool = False
    """Whether some of it was sent before, so that a refusal may be the answer to a success."""

    def __bool__(self) -> bool:
        return bool(self.acks or self.nacks or self.probes)

    def release(self, groups: Iterable[LeasedGroup]) -> None:
        """Groups that were claimed and never worked on are released."""
        self.acks += [Ack(group.key, group.token, [], True) for group in groups]

    def sending(self, number: int, *, claims_next: int | None) -> Sending:
        """All of it, perhaps nothing. `claims_next`: the shard claimed from in the same trip needs no hint."""
        calls: list[Call[Any]] = []
        if self.acks:
            calls.append(ack(self.keys, self.acks, hint=claims_next != self.shard))
        before = {entry[:2]: entry.members[-1] for entry in self.acks if entry.members}
        # A nack ends the lease: carried out where the ack in front of it was refused, what was handled would run again.
        calls += [nack(self.keys, one._replace(before=before.get(one[:2], ""))) for one in self.nacks]
        calls += [outage(self.keys, *end) for end in self.probes]
        sending = Sending(self, calls, self.acks, self.nacks, (), self.is_repeat, number, probes=self.probes)
        self.is_repeat = self.is_repeat or bool(calls)
        return sending

    def posted(self) -> None:
        """It is on its way: what comes meanwhile goes into another. `put_back` when that is not answered."""
        self.acks, self.nacks, self.probes, self.is_repeat = [], [], [], False

    def put_back(self, sending: Sending) -> None:
        """It was not answered: it is sent again, before what came meanwhile."""
        self.acks, self.nacks, self.is_repeat = sending.acks + self.acks, sending.nacks + self.nacks, True
        self.probes = sending.probes + self.probes

    def answered(self, sending: Sending) -> None:
        """The server has answered all of it."""
        if self.acks is sending.acks:
            self.posted()

    def forget(self, groups: Iterable[HeldGroup] | None = None) -> set[tuple[str, str]]:
        """Drop what is pending of these groups, or of all; returns the leases of what was pending."""
        known = None if groups is None else {group.lease for group in groups}
        acks, nacks = self.acks, self.nacks
        if known is None:
            self.posted()
        else:
            self.acks = [entry for entry in acks if entry[:2] not in known]
            self.nacks = [entry for entry in nacks if entry[:2] not in known]
        leases = {entry[:2] for entry in acks} | {entry[:2] for entry in nacks}
        return leases if known is None else leases & known
