"""What must hold whenever a handler starts, whatever the policy: the judge of the stateful machine."""

from __future__ import annotations

from typing import Any

from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.values.message import Message

from .model.shard import ModelShard
from .model.state import PAUSED

GROUPS = ("a", "b", "c")


class Rules:
    """What the machine notes of messages, and the checks that use it. A member is stamp and id."""

    def judge_by(self, policy: Policy, queue: QueueOptions, shard: ModelShard) -> None:
        self.consumers: list[Any] = []
        self.policy, self.queue = policy, queue
        self.shard = shard
        self.ids = 0
        self.stored: dict[str, tuple[str, float]] = {}
        """Member -> its group, and from when on it may be handled, us."""
        self.there_since: dict[str, int] = {}
        """Member -> the tick of the shard's clock at which it was put into its place."""
        self.key_of: dict[str, tuple[float, int]] = {}
        self.excused: set[str] = set()
        """Members that may be gone without having been handled."""
        self.handled: dict[str, list[str]] = {group: [] for group in GROUPS}
        self.done_under: dict[str, int] = {}
        """Member -> the token under which it was handled last."""
        self.passed: dict[str, set[int]] = {group: set() for group in GROUPS}
        """Numbers of a sequence that were handled or given up."""
        self.paused_at: dict[str, int] = {}

    @property
    def workers(self) -> list[Any]:
        """Who runs handlers."""
        return [slot for one in self.consumers for slot in getattr(one, "all", [one])]

    def put(self, group: str, message_id: str, stamp: int) -> None:
        """Note a message that was stored just now."""
        member = f"{stamp:016d}{message_id}"
        record, score = self.shard.bodies[group][message_id], self.shard.orders[group][member]
        due_us = float(record[21:37]) if record[20] in "DT" else 0.0
        ripe_us = stamp + self.policy.reorder_window * 1e6 if self.policy.reorder_window else 0.0
        self.stored[member] = group, max(due_us, ripe_us)
        self.there_since[member], self.key_of[member] = self.shard.clock, (score, stamp)

    def is_valid(self, message: Message) -> bool:
        """Whether the message's lease is valid by the server's own clock."""
        group = message.group[0]
        is_held = ModelShard.holds(self.shard, group, f"{message.token:016d}")  # the truth, also for a broken shard
        return is_held and self.shard.now_us < self.shard.schedule[group] < PAUSED  # a paused one ran out before

    def nobody_sleeps_too_long(self) -> None:
        """A group that only waits for its head is looked at no later than the head may be handled."""
        shard = ModelShard
        for group, visible in self.shard.schedule.items():
            if group in self.shard.leases or group in self.shard.failures or group in self.shard.paused:
                continue
            head = self.shard.members(group)[0]
            record, score = self.shard.bodies[group][head[16:]], self.shard.orders[group][head]
            opens_at = shard.opens_at(self.shard, head, score, record, self.shard.mark(group))
            assert visible <= max(opens_at, self.shard.now_us), (
                f"{group} sleeps until {visible}, its head to {opens_at}"
            )

    def on_start(self, consumer: Any, message: Message) -> None:
        group, member = message.group[0], f"{message.stamp:016d}{message.id}"
        if member in self.excused and group not in self.shard.orders:
            return  # replaced after it had been claimed, and the last of its group: nobody has to wait for its end
        assert self.is_valid(message), f"{message.id} was begun without a valid lease"
        for other in self.workers:
            if other is not consumer and other.running is not None and other.running.group == message.group:
                assert not self.is_valid(other.running), f"two handlers of group {group} at once"
        assert (message.score, message.stamp) == self.key_of[member], f"{message.id} is not in its own place"
        done = self.handled[group]
        for other_member in self.shard.members(group):
            is_before = self.key_of[other_member] < self.key_of[member]
            if is_before and self.there_since[other_member] < message.token and other_member not in done:
                raise AssertionError(f"{member} was begun before {other_member}, which was there when it was claimed")
        assert self.shard.now_us >= self.stored[member][1], f"{message.id} was begun before its time"
        for held_back in (group, ""):
            assert message.token <= self.paused_at.get(held_back, message.token), (
                f"{message.id}: {held_back!r} is paused"
            )
        if not self.policy.sequence:
            higher = [one for one in done if self.key_of[one][0] > message.score]
            assert higher or not message.late, f"{message.id} is not late"
            given_up = self.excused | {letter[:16] + letter.partition("\n")[2] for letter in self.shard.letters}
            gone = [one for one in higher if one not in self.shard.orders[group] and one not in given_up]
            known = [one for one in gone if self.done_under[one] < message.token and self.policy.watermark_window]
            assert message.late or not known, f"{message.id} is late, and nobody says so: {known} was handled"
        if self.policy.sequence and not message.late:
            self.note_letters()
            missing = set(range(1, int(message.score))) - self.passed[group]
            is_over = (
                self.policy.on_gap == "skip" and self.shard.now_us >= message.stamp + self.policy.gap_timeout * 1e6
            )
            assert not missing or is_over, f"number {message.score:.0f} was begun while {sorted(missing)} are missing"
            if is_over:
                self.passed[group] |= missing
        if self.policy.on_late in ("drop", "dead_letter"):
            assert not message.late or message.redriven, f"{message.id} is late and was handled all the same"
        if self.queue.on_failure == "drop":  # after its last attempt it is gone, and its number counts as passed
            self.excused.add(member)
            self.passed[group].add(int(message.score))

    def on_success(self, consumer: Any, message: Message) -> None:
        member = f"{message.stamp:016d}{message.id}"
        self.handled[message.group[0]].append(member)
        self.done_under[member] = message.token
        self.passed[message.group[0]].add(int(message.score))

    def note_letters(self) -> None:
        """Numbers that became dead letters count as passed."""
        for letter in self.shard.letters if self.policy.sequence else ():
            group, _, name = letter[16:].partition("\n")
            self.passed[group].add(int(self.key_of[letter[:16] + name][0]))

    def was_late(self, member: str) -> bool:
        group = self.stored[member][0]
        return any(self.key_of[one][0] > self.key_of[member][0] for one in self.handled[group])
