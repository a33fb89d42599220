"""A stateful hypothesis machine: producers, two consumers and everything that can happen to them, in virtual time.

The consumers are the real drain generator and the real holdings; the lane is the model. Handlers run "long": one
begins at one step and ends at a later one, and anything may come between.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sequencer.calls import Item, append, claim
from sequencer.codec import encode_envelope, encode_score
from sequencer.drain import Control, Exchange, Flush, Wait, drain
from sequencer.errors import Park, Retry, ServerUnavailable
from sequencer.holdings import Holdings
from sequencer.keys import lane_keys
from sequencer.message import Message
from sequencer.options import ConsumerOptions, QueueOptions

from .model import ModelLane

KEYS = lane_keys("n", "q", 0)
QUEUE = QueueOptions(queue="q", max_attempts=3, backoff_s=0.1)
OPTIONS = ConsumerOptions(lease_s=10)
GROUPS = ("a", "b", "c")
FAILURES: tuple[Exception, ...] = (ValueError("no"), Retry(after=0.2), Park("why"))


class SimConsumer:
    """One consumer: its generator, what it is asked to do now, and the handler that runs, if any."""

    def __init__(self, machine: ConsumersMachine, name: str) -> None:
        self.machine, self.name = machine, name
        self.holdings, self.control = Holdings([KEYS], OPTIONS.lease_s), Control()
        self.generator = drain(
            self.holdings,
            QUEUE,
            OPTIONS,
            self.control,
            owner=name,
            clock=lambda: machine.now_s,
            wall=lambda: machine.now_s,
            random=lambda: 0.5,
            lock=nullcontext(),
        )
        self.running: Message | None = None
        self.effect: Any = next(self.generator)

    def resume(self, answer: Any, error: Exception | None = None) -> None:
        try:
            self.effect = self.generator.throw(error) if error else self.generator.send(answer)
        except StopIteration:
            self.effect = None
        self.running = None
        if isinstance(self.effect, Message):
            self.running = self.effect
            self.machine.on_start(self, self.effect)

    def network(self, fate: str) -> None:
        """Do the exchange or flush that is asked for; `fate` may lose the request or the reply."""
        lane, effect = self.machine.lane, self.effect
        before = self.machine.now_s
        if isinstance(effect, Exchange):
            self.holdings.settle(everything=True)
        sending = self.holdings.outgoing(
            claims_next=effect.lane if isinstance(effect, Exchange) else None,
            now=None if isinstance(effect, Exchange) else before,
        )
        calls = list(sending.calls) if sending else []
        if isinstance(effect, Exchange) and effect.lane is not None:
            calls.append(claim(KEYS, "q", self.name, OPTIONS.lease_s, effect.limits))
        if fate == "request lost":
            return self.resume(None, ServerUnavailable("request lost"))
        results = [lane.run(call) for call in calls]
        if fate == "reply lost":
            return self.resume(None, ServerUnavailable("reply lost"))
        if sending:
            self.holdings.sent(sending, results, before)
        if isinstance(effect, Flush) or effect.lane is None:
            return self.resume(None)
        self.holdings.take(effect.lane, results[-1].groups, before)
        return self.resume(results[-1])

    def keep(self, fate: str) -> None:
        """One look of the keeper thread."""
        before = self.machine.now_s
        sending = self.holdings.tick(before)
        if sending and fate != "request lost":
            results = [self.machine.lane.run(call) for call in sending.calls]
            if fate != "reply lost":
                self.holdings.sent(sending, results, before)


class ConsumersMachine(RuleBasedStateMachine):
    """Rules are what can happen; checks are made when a handler starts, and at the end after a clean drain."""

    lane_class: type[ModelLane] = ModelLane

    def __init__(self) -> None:
        super().__init__()
        self.lane = self.lane_class()
        self.appended: dict[str, Message | None] = {}
        self.key_of: dict[str, tuple[float, int]] = {}
        self.handled: dict[str, list[str]] = {group: [] for group in GROUPS}
        self.held: dict[str, tuple[float, int]] = {}
        self.names = 0
        self.consumers = [self.new_consumer(), self.new_consumer()]

    @property
    def now_s(self) -> float:
        return self.lane.now_us / 1e6

    def new_consumer(self) -> SimConsumer:
        self.names += 1
        return SimConsumer(self, f"c{self.names}")

    # -- what can happen --------------------------------------------------------------------------------------

    @rule(group=st.sampled_from(GROUPS), score=st.integers(0, 5), count=st.integers(1, 3))
    def append(self, group: str, score: int, count: int) -> None:
        items = []
        for i in range(count):
            message_id = f"m{len(self.appended) + i}"
            items.append(Item(group, message_id, encode_score(score), encode_envelope(message_id, None, 1000)))
        for item, mark in zip(items, self.lane.run(append(KEYS, items)), strict=True):
            assert mark.outcome == "stored"
            self.appended[item.id] = None
            self.key_of[item.id] = (float(score), mark.stamp)

    @rule(which=st.integers(0, 1), fate=st.sampled_from(["ok", "ok", "ok", "request lost", "reply lost"]))
    def step(self, which: int, fate: str) -> None:
        consumer = self.consumers[which]
        if isinstance(consumer.effect, Exchange | Flush):
            consumer.network(fate)
        elif consumer.effect is None:
            self.consumers[which] = self.new_consumer()
        elif consumer.running is None:
            is_lost = fate != "ok" and isinstance(consumer.effect, Wait)
            consumer.resume(None, ServerUnavailable(fate) if is_lost else None)

    @rule(which=st.integers(0, 1))
    def succeed(self, which: int) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            self.on_success(consumer, consumer.running)
            consumer.resume(None)

    @rule(which=st.integers(0, 1), failure=st.sampled_from(FAILURES))
    def fail(self, which: int, failure: Exception) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            self.held.pop(consumer.running.group[0], None)
            consumer.resume(failure)

    @rule(which=st.integers(0, 1), fate=st.sampled_from(["ok", "ok", "request lost", "reply lost"]))
    def keep(self, which: int, fate: str) -> None:
        self.consumers[which].keep(fate)

    @rule(ms=st.sampled_from([1, 4, 30, 1000, 4000, 11_000]))
    def advance(self, ms: int) -> None:
        self.lane.now_us += ms * 1000

    @rule(which=st.integers(0, 1))
    def begin(self, which: int) -> None:
        """Let a consumer go on until its handler runs, if there is work for it."""
        for _ in range(4):
            if self.consumers[which].running is None:
                self.step(which, "ok")

    @rule(which=st.integers(0, 1))
    def pause_past_lease(self, which: int) -> None:
        """One consumer stands still for longer than its lease, while the other goes on."""
        self.lane.now_us += 11_000_000
        self.begin(1 - which)

    @rule(which=st.integers(0, 1))
    def crash(self, which: int) -> None:
        self.consumers[which] = self.new_consumer()

    @rule(which=st.integers(0, 1))
    @precondition(lambda self: self.lane.schedule)
    def stop(self, which: int) -> None:
        self.consumers[which].control.is_stopping = True

    # -- what must hold ---------------------------------------------------------------------------------------

    def is_valid(self, consumer: SimConsumer, message: Message) -> bool:
        """Whether the consumer still holds the lease by the server's own clock."""
        group = message.group[0]
        is_held = ModelLane.holds(self.lane, group, f"{message.token:016d}")  # the truth, also for a broken lane
        return is_held and self.lane.schedule[group] > self.lane.now_us

    def on_start(self, consumer: SimConsumer, message: Message) -> None:
        group = message.group[0]
        assert self.is_valid(consumer, message), f"{message.id} was begun without a valid lease"
        for other in self.consumers:
            if other is not consumer and other.running is not None and other.running.group == message.group:
                assert not self.is_valid(other, other.running), f"two handlers of group {group} at once"
        mine = self.key_of[message.id]
        done = self.handled[group]
        for member in self.lane.members(group):
            other_id, stamp = member[16:], int(member[:16])
            if self.key_of[other_id] < mine and stamp < message.token and other_id not in done:
                raise AssertionError(f"{message.id} was begun before {other_id}, which was there when it was claimed")

    def on_success(self, consumer: SimConsumer, message: Message) -> None:
        self.handled[message.group[0]].append(message.id)

    @invariant()
    def invariants_hold(self) -> None:
        assert not self.lane.problems(), self.lane.problems()

    def teardown(self) -> None:
        """Let everything heal, drain what is not parked, and look whether anything was lost."""
        self.consumers = [self.new_consumer()]
        for _ in range(2000):
            if all(at == float("inf") for at in self.lane.schedule.values()):
                break
            self.lane.now_us += 200_000
            self.step(0, "ok")
            self.succeed(0)
        else:
            raise AssertionError(f"a group is stuck: {self.lane.schedule} at {self.lane.now_us}")
        handled = {message_id for ids in self.handled.values() for message_id in ids}
        pending = {member[16:] for order in self.lane.orders.values() for member in order}
        lost = set(self.appended) - handled - pending
        assert not lost, f"lost: {sorted(lost)}"
