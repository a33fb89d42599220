"""One consumer in virtual time: the real drain and the real holdings on a model of a lane, with nobody at random."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from sequencer.calls.append import append
from sequencer.calls.claim import Claimed, claim
from sequencer.drain.effects import Control, Exchange, Flush, Pause, Wait
from sequencer.drain.held import Holdings
from sequencer.drain.protocol import drain
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ConsumerOptions, QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import lane_keys
from sequencer.values.message import ConsumeSummary, Message

from .model.lane import ModelLane

KEYS = lane_keys("n", "q", 0)
STEPS = 20_000


class Drained:
    """One consumer whose handlers take `handler_s`; the keeper looks beside each and behind it.

    Tests make another one of it by what they override: an answer that is late or lost, something that comes between.
    """

    def __init__(
        self, handler_s: float, options: ConsumerOptions | None = None, *, policy: Policy | None = None
    ) -> None:
        self.lane, self.now_s, self.handler_s = ModelLane(policy), 1000.0, handler_s
        self.options = options or ConsumerOptions()
        self.holdings, self.control = Holdings([KEYS], 60.0), Control()
        self.batches: list[list[tuple[str, float]]] = []
        """Of each claim that took something: the group and the beginning of each handler run."""
        self.claimed: list[int] = []
        """How many messages each of them took."""
        self.asked: list[Any] = []
        """What the drain asked for, but for messages."""

    def append(self, group: str, first: int, count: int) -> None:
        numbers = range(first, first + count)
        items = [Item(group, f"{group}{number}", f"{number}.0", b"[1]") for number in numbers]
        self.lane.now_us = round(self.now_s * 1e6)
        self.lane.run(append(KEYS, items))

    def groups(self) -> list[list[str]]:
        """Of each batch, the groups of its handler runs."""
        return [[group for group, _ in batch] for batch in self.batches]

    def run(self, until: Callable[[], bool]) -> None:
        self.generator = drain(
            self.holdings,
            QueueOptions(queue="q"),
            self.options,
            self.control,
            owner="me",
            clock=lambda: self.now_s,
            wall=lambda: self.now_s,
            random=lambda: 0.5,
            lock=nullcontext(),
        )
        effect: Any = next(self.generator)
        for _ in range(STEPS):
            if until():
                return
            if type(effect) is not Message:
                self.asked.append(effect)
            answer = self.answer(effect)
            is_lost = isinstance(answer, ServerUnavailable)
            effect = self.generator.throw(answer) if is_lost else self.generator.send(answer)
        raise AssertionError("it goes on and on")

    def to_the_end(self) -> ConsumeSummary:
        try:
            self.run(lambda: False)
        except StopIteration as end:
            summary: ConsumeSummary = end.value
            return summary
        raise AssertionError("it ended without a summary")

    def answer(self, effect: Any) -> Any:
        """What the shell answers; a ServerUnavailable is thrown."""
        if type(effect) is Message:
            return self.handle(effect)
        if isinstance(effect, Exchange):
            self.holdings.settle(everything=True)
            self.send(claims_next=effect.lane)
            return None if effect.lane is None else self.take(effect)
        if isinstance(effect, Flush):
            self.send()
        elif isinstance(effect, Wait | Pause):
            self.now_s += effect.seconds
        return None

    def handle(self, message: Message) -> BaseException | None:
        self.batches[-1].append((message.group[0], self.now_s))
        self.now_s += self.handler_s
        self.holdings.tick(self.now_s)
        self.send()
        return None

    def send(self, claims_next: int | None = None) -> None:
        self.lane.now_us = round(self.now_s * 1e6)
        if sending := self.holdings.outgoing(claims_next=claims_next):
            self.holdings.sent(sending, [self.lane.run(call) for call in sending.calls], self.now_s)

    def take(self, effect: Exchange) -> Claimed:
        """Claim, and hold what that takes."""
        asked_s, claimed = self.now_s, self.claim(effect)
        self.holdings.take(0, claimed.groups, asked_s, self.now_s)
        if claimed.groups:
            self.batches.append([])
            self.claimed.append(sum(len(group.members) for group in claimed.groups))
        return claimed

    def claim(self, effect: Exchange) -> Claimed:
        claimed: Claimed = self.lane.run(claim(KEYS, "q", "me", 60.0, effect.limits, alone=effect.alone))
        return claimed

    def lengths_s(self) -> list[float]:
        return [len(batch) * self.handler_s for batch in self.batches]
