"""A simulator of what consumers record: legal histories of leases, losses, late arrivals, repeats and redrives."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sequencer.queue.audit import AuditRecord

BASE = 1_700_000_000_000_000


def run(id: str, score: float, stamp: int, token: int, began: int, ended: int, **more: Any) -> AuditRecord:
    """A run of group g; times in us since BASE."""
    at_ms = (BASE + more.pop("at", ended)) // 1000
    fields: dict[str, Any] = {"group": "g", "redriven": False, "refused": False, **more}
    stamp, token, began, ended = (BASE + time for time in (stamp, token, began, ended))
    return AuditRecord(id=id, score=score, stamp=stamp, token=token, began=began, ended=ended, at_ms=at_ms, **fields)


@dataclass
class Pending:
    score: float
    stamp: int
    redriven: bool = False


@dataclass
class Holder:
    """A consumer's lease on the group: what it claimed, and the runs that it has not acknowledged yet."""

    token: int
    answered: int
    rate: float
    left: list[Pending]
    runs: list[tuple[Pending, int, int]] = field(default_factory=list)


class Simulator:
    """One shard as the scripts keep it: leases, losses, late arrivals, repeats, redrives. Time goes on by itself."""

    def __init__(self) -> None:
        self.now = self.clock = BASE
        self.pending: dict[int, list[Pending]] = {group: [] for group in range(3)}
        self.dead: dict[int, list[Pending]] = {group: [] for group in range(3)}
        self.held: dict[int, Holder] = {}
        self.lost: list[tuple[int, Holder]] = []
        self.records: list[AuditRecord] = []
        self.runs: dict[tuple[int, int], bool] = {}
        """(stamp, token) of each run recorded -> whether it was refused."""

    def tick(self) -> int:
        self.now += 50
        self.clock = max(self.clock + 1, self.now)
        return self.clock

    def append(self, group: int, n: int) -> None:
        self.pending[group].append(Pending(n % 7, self.tick()))

    def claim(self, group: int, n: int) -> None:
        if self.pending[group] and group not in self.held:
            found = sorted(self.pending[group], key=lambda message: (message.score, message.stamp))[: 1 + n % 4]
            rate = (-0.0004, 0.0, 0.0004)[n % 3]  # of the consumer's clock, against the server's
            self.held[group] = Holder(self.tick(), self.now + 20, rate, found)
            self.now += 20

    def handle(self, group: int, n: int) -> None:
        holder = self.held.get(group)
        if holder and holder.left:
            began = self.now
            self.now += 10**n  # up to 1,000 s
            holder.runs.append((holder.left.pop(0), began, self.now))

    def ack(self, group: int, _n: int) -> None:
        holder = self.held.get(group)
        if holder:
            self._record(group, holder, refused=False)
            done = {message.stamp for message, _, _ in holder.runs}
            self.pending[group] = [one for one in self.pending[group] if one.stamp not in done]
            holder.runs = []
            if not holder.left:
                del self.held[group]

    def lose(self, group: int, _n: int) -> None:
        if group in self.held:
            self.lost.append((group, self.held.pop(group)))

    def ack_late(self, _group: int, n: int) -> None:
        if self.lost:
            group, holder = self.lost.pop(n % len(self.lost))
            self._record(group, holder, refused=True)

    def repeat(self, _group: int, n: int) -> None:
        """The network sends the last acknowledgement again."""
        again = self.records[len(self.records) - n % 3 :]
        tokens = {record.token for record in again}
        if len(tokens) == 1:
            at_ms = self.now // 1000
            self.records += [one._replace(at_ms=at_ms, refused=one.refused or n > 3) for one in again]

    def bury(self, group: int, n: int) -> None:
        holder = self.held.get(group)
        if holder and holder.left:
            head = holder.left[0]
            self.ack(group, n)
            self.held.pop(group, None)
            self.pending[group] = [one for one in self.pending[group] if one.stamp != head.stamp]
            self.dead[group].append(head)

    def redrive(self, group: int, _n: int) -> None:
        for message in self.dead[group]:
            self.pending[group].append(Pending(message.score, message.stamp, redriven=True))
        self.dead[group] = []

    def reschedule(self, group: int, n: int) -> None:
        if self.pending[group] and group not in self.held:
            self.pending[group].pop(n % len(self.pending[group]))
            self.append(group, n)

    def _record(self, group: int, holder: Holder, *, refused: bool) -> None:
        for message, *times in holder.runs:
            began, ended = (holder.token + round((at - holder.answered) * (1 + holder.rate)) for at in times)
            what = (f"g{group}", f"m{message.stamp}", message.score, message.stamp, holder.token)
            self.records.append(AuditRecord(*what, began, ended, message.redriven, refused, self.now // 1000))
            self.runs[message.stamp, holder.token] = refused


ACTIONS = [
    *("append", "append", "claim", "claim", "handle", "handle", "ack", "ack", "lose", "ack_late", "repeat", "bury"),
    *("redrive", "reschedule"),
]
Steps = list[tuple[str, int, int]]


def _random_steps(seed: int) -> Steps:
    chance = random.Random(seed)
    return [(chance.choice(ACTIONS), chance.randrange(2), chance.randrange(10)) for _ in range(200)]


STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2), st.integers(0, 9)), max_size=30) | st.integers(
    0, 2**32
).map(_random_steps)


def simulate(steps: Steps) -> Simulator:
    simulator = Simulator()
    for action, group, n in steps:
        getattr(simulator, action)(group, n)
    return simulator
