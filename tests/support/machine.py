"""A stateful hypothesis machine: producers, two consumers and everything that can happen to them, in virtual time.

The consumers are the real drain generator and all that it holds and has in flight; the shard is the model. Handlers run
"long": one begins at one step and ends at a later one, and anything may come between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sequencer.calls.append import append
from sequencer.calls.operate import pause, redrive, update
from sequencer.drain.effects import Flush, SettleAndClaim, Wait
from sequencer.errors import Park, Retry, SetAside
from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.envelope import encode_envelope, encode_score
from sequencer.store.item import Item

from .handling_rules import GROUPS, Rules
from .model.shard import ModelShard
from .shard_link import KEYS
from .simulated_consumer import SimConsumer

QUEUE = QueueOptions(queue="q", max_attempts=3, backoff_s=0.1)
FAILURES: tuple[Exception, ...] = (ValueError("no"), Retry(after=0.2), Park("why"), SetAside("why"))
ON_FAILURE = ("park", "park", "dead_letter", "drop")
POLICIES = (
    Policy(),
    Policy(dedup_window=0, watermark_window=0),
    Policy(on_late="drop"),
    Policy(on_late="dead_letter"),
    Policy(reorder_window=2.0),
    Policy(sequence=True, gap_timeout=3.0, on_gap="skip"),
    Policy(sequence=True, gap_timeout=3.0),
)


class ConsumersMachine(Rules, RuleBasedStateMachine):
    """Rules are what can happen; checks are made when a handler starts, and at the end after a clean drain."""

    shard_class: type[ModelShard] = ModelShard

    def __init__(self) -> None:
        super().__init__()
        self.begin_with(Policy(), QUEUE)

    @initialize(policy=st.sampled_from(POLICIES), on_failure=st.sampled_from(ON_FAILURE))
    def choose_policy(self, policy: Policy, on_failure: Any) -> None:
        self.begin_with(policy, replace(QUEUE, on_failure=on_failure))

    def begin_with(self, policy: Policy, queue: QueueOptions) -> None:
        self.judge_by(policy, queue, self.shard_class(policy))
        self.names = 0
        self.consumers = [self.new_consumer(), self.new_consumer()]

    @property
    def now_s(self) -> float:
        return self.shard.now_us / 1e6

    def new_consumer(self) -> SimConsumer:
        self.names += 1
        return SimConsumer(self, f"c{self.names}")

    # -- what can happen --------------------------------------------------------------------------------------

    @rule(
        group=st.sampled_from(GROUPS),
        score=st.integers(0, 5),
        count=st.integers(1, 3),
        delay=st.sampled_from(["", "", "+1000000", "+6000000"]),
    )
    def append(self, group: str, score: int, count: int, delay: str) -> None:
        items = []
        for i in range(count):
            name, number = f"m{self.ids + i}", score + i if self.policy.sequence else score
            text = "" if delay and not self.policy.sequence else encode_score(number)
            items.append(Item(group, name, text, encode_envelope(name, None, 1000), delay))
        self.ids += count
        for item, mark in zip(items, self.shard.run(append(KEYS, items, on_conflict="others")), strict=True):
            if mark.outcome == "stored":
                self.put(group, item.id, mark.stamp)
            else:
                assert self.policy.sequence or self.policy.on_late != "handle", mark.outcome

    @rule(which=st.integers(0, 20), delay=st.sampled_from(["+0", "+2000000"]), how=st.sampled_from("crxy"))
    @precondition(lambda self: self.shard.orders)
    def change(self, which: int, delay: str, how: str) -> None:
        """Cancel, reschedule or replace a message that is pending."""
        group = sorted(self.shard.orders)[which % len(self.shard.orders)]
        members = self.shard.members(group)
        member = members[which % len(members)]
        if how in "xy":
            score = self.key_of[member][0] + (0 if how == "x" else 1)
            item = Item(group, member[16:], encode_score(score), encode_envelope("again", None, 1000), delay)
            (mark,) = self.shard.run(append(KEYS, [item], on_conflict="replace"))
            if mark.outcome != "stored":
                assert self.policy.sequence or self.policy.on_late != "handle", mark.outcome
                return
            self.excused.add(member)
            self.put(group, member[16:], mark.stamp)
            return
        if self.shard.run(update(KEYS, group, member[16:], "due" if how == "r" else "", delay)) == "done":
            running = [consumer.running for consumer in self.consumers if consumer.running is not None]
            begun = [f"{message.stamp:016d}{message.id}" for message in running if self.is_valid(message)]
            assert member not in begun, "a message in the hands of a consumer was cancelled"
            self.excused.add(member)
            if how == "r":
                self.put(group, member[16:], self.shard.clock)

    @rule(which=st.integers(0, 1))
    def change_what_runs(self, which: int) -> None:
        """Attempt to cancel a message while its handler runs, in a group that holds more."""
        message = self.consumers[which].running
        if message is None or len(self.shard.members(message.group[0])) < 2:
            return
        member, group = f"{message.stamp:016d}{message.id}", message.group[0]
        pending = [one for one in self.shard.members(group) if one[16:] == message.id]
        is_held = self.is_valid(message) and pending == [member]
        if self.shard.run(update(KEYS, group, message.id, "", "")) == "done":
            assert not is_held, "a message in the hands of a consumer was cancelled"
            self.excused.update(pending)

    @rule(which=st.integers(0, 1), group=st.sampled_from(GROUPS))
    def straggle(self, which: int, group: str) -> None:
        """A message comes when its group is empty, and another one with a lower score after it was handled."""
        for score in (5, 0):
            if group not in self.shard.orders:
                self.append(group, score, 1, "")
            for _ in range(3):
                self.begin(which)
                self.succeed(which)

    @rule(count=st.integers(1, 3))
    @precondition(lambda self: self.shard.letters)
    def redrive(self, count: int) -> None:
        letters = sorted(self.shard.letters)[:count]
        for letter, outcome in zip(letters, self.shard.run(redrive(KEYS, letters)), strict=True):
            if outcome == "redriven":
                group, _, name = letter[16:].partition("\n")
                member = letter[:16] + name
                self.there_since[member], self.stored[member] = self.shard.clock, (group, 0.0)
                self.key_of.setdefault(member, (self.shard.orders[group][member], int(letter[:16])))

    @rule(group=st.sampled_from([*GROUPS, ""]), is_paused=st.booleans())
    def pause(self, group: str, is_paused: bool) -> None:
        self.shard.run(pause(KEYS, group, is_paused))
        for one in [group] if group else [""]:
            self.paused_at.pop(one, None)
            if is_paused:
                self.paused_at[one] = max(self.shard.clock, self.shard.now_us)

    @rule(which=st.integers(0, 1), fate=st.sampled_from(["ok", "ok", "ok", "request lost", "reply lost"]))
    def step(self, which: int, fate: str) -> None:
        consumer = self.consumers[which]
        if isinstance(consumer.effect, SettleAndClaim | Flush | Wait):
            consumer.network(fate)
        elif consumer.effect is None:
            self.consumers[which] = self.new_consumer()
        elif consumer.running is None:
            consumer.resume(None)

    @rule(which=st.integers(0, 1))
    def succeed(self, which: int) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            self.on_success(consumer, consumer.running)
            consumer.end()

    @rule(which=st.integers(0, 1), failure=st.sampled_from(FAILURES))
    def fail(self, which: int, failure: Exception) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            consumer.end(failure)

    @rule(which=st.integers(0, 1), fate=st.sampled_from(["ok", "ok", "request lost", "reply lost"]))
    def keep(self, which: int, fate: str) -> None:
        self.consumers[which].keep(fate)

    @rule(ms=st.sampled_from([1, 4, 30, 1000, 4000, 11_000]))
    def advance(self, ms: int) -> None:
        self.shard.now_us += ms * 1000

    @rule(which=st.integers(0, 1))
    def begin(self, which: int) -> None:
        """Let a consumer go on until its handler runs, if there is work for it."""
        for _ in range(4):
            if self.consumers[which].running is None:
                self.step(which, "ok")

    @rule(which=st.integers(0, 1))
    def pause_past_lease(self, which: int) -> None:
        """One consumer stands still for longer than its lease, while the other goes on."""
        self.shard.now_us += 11_000_000
        self.begin(1 - which)

    @rule(which=st.integers(0, 1))
    def come_back(self, which: int) -> None:
        """One stands still past its lease, the other takes over, then the first one says what it did."""
        self.begin(which)
        self.pause_past_lease(which)
        self.succeed(which)
        self.step(which, "ok")
        self.succeed(1 - which)
        self.begin(1 - which)

    @rule(which=st.integers(0, 1))
    def crash(self, which: int) -> None:
        self.consumers[which] = self.new_consumer()

    @rule(which=st.integers(0, 1))
    @precondition(lambda self: self.shard.schedule)
    def stop(self, which: int) -> None:
        self.consumers[which].runner.is_stopping = True

    # -- at the end -------------------------------------------------------------------------------------------

    @invariant()
    def invariants_hold(self) -> None:
        assert not self.shard.problems(), self.shard.problems()
        self.note_letters()
        self.nobody_sleeps_too_long()

    def teardown(self) -> None:
        """Let everything heal, drain what is not parked, and look whether anything was lost."""
        for group in ("", *GROUPS):
            self.pause(group, False)
        self.consumers = [self.new_consumer()]
        for _ in range(2000):
            if all(at == float("inf") for at in self.shard.schedule.values()):
                break
            self.shard.now_us += 200_000
            self.step(0, "ok")
            self.succeed(0)
        else:
            raise AssertionError(f"a group is stuck: {self.shard.schedule} at {self.shard.now_us}")
        handled = {member for members in self.handled.values() for member in members}
        pending = {member for order in self.shard.orders.values() for member in order}
        dead = {letter[:16] + letter.partition("\n")[2] for letter in self.shard.letters}
        lost = set(self.stored) - handled - pending - dead - self.excused
        if self.policy.on_late == "drop":
            lost = {one for one in lost if not self.was_late(one)}
        assert not lost, f"lost: {sorted(lost)}"
