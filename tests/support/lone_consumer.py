"""One consumer in virtual time: the real drain, with all it holds and has in flight, on a model of a shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sequencer.calls.append import append
from sequencer.calls.claim import Claimed
from sequencer.consume.in_flight import InFlight
from sequencer.drain.effects import Flush, Handle, Locked, SettleAndClaim, Sleep, Wait
from sequencer.drain.held import Held
from sequencer.drain.protocol import drain
from sequencer.drain.steps.functions import BatchHandler
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ConsumerOptions, QueueOptions
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys
from sequencer.values.message import ConsumeSummary, Message

from .model.shard import ModelShard
from .shard_link import Link

KEYS = shard_keys("n", "q", 0)
STEPS = 20_000


class _LinkNow(Link):
    """Sends at its consumer's time."""

    def __init__(self, one: Drained) -> None:
        super().__init__(one.shard)
        self.one = one

    def run(self, calls: Any) -> list[Any]:
        self.shard.now_us = round(self.one.now_s * 1e6)
        results = super().run(calls)
        self.one.on_way_back(calls)
        return results


class Drained:
    """One consumer whose handlers take `handler_s`; the renewer looks beside each and behind it.

    Tests make another one of it by what they override: an answer that is late or lost, something that comes between.
    """

    batch: BatchHandler | None = None

    def __init__(self, handler_s: float, options: ConsumerOptions | None = None) -> None:
        self.shard, self.now_s, self.handler_s = ModelShard(), 1000.0, handler_s
        self.options = options or ConsumerOptions()
        self.link: Any = _LinkNow(self)
        self.hold(Held([KEYS], 60.0))
        self.batches: list[list[tuple[str, float]]] = []
        """Of each claim that took something: the group and the beginning of each handler run."""
        self.claimed: list[int] = []
        """How many messages each of them took."""
        self.asked: list[Any] = []
        """What the drain asked for, but for handlers."""

    def hold(self, held: Held) -> None:
        self.held = held
        self.in_flight = InFlight(held, "q", "me", self.link, clock=lambda: self.now_s)

    def append(self, group: str, first: int, count: int) -> None:
        numbers = range(first, first + count)
        items = [Item(group, f"{group}{number}", f"{number}.0", b"[1]") for number in numbers]
        self.shard.now_us = round(self.now_s * 1e6)
        self.shard.run(append(KEYS, items))

    def groups(self) -> list[list[str]]:
        """Of each batch, the groups of its handler runs."""
        return [[group for group, _ in batch] for batch in self.batches]

    def run(self, until: Callable[[], bool]) -> None:
        clocks = (lambda: self.now_s), (lambda: self.now_s), (lambda: 0.5)
        self.runner = StepRunner(self.held, QueueOptions(queue="q"), None, "me", *clocks, self.batch)
        self.generator = drain(self.runner, self.options)
        effect: Any = next(self.generator)
        for _ in range(STEPS):
            if until():
                return
            if not isinstance(effect, Handle):
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
        if isinstance(effect, Handle):
            return self.handle(effect.message)
        if isinstance(effect, SettleAndClaim):
            return self.settle_and_claim(effect)
        if isinstance(effect, Locked):
            return effect.act()
        if isinstance(effect, Flush):
            self.in_flight.flush(effect)
            self.hear()
        elif isinstance(effect, Wait | Sleep):
            self.now_s += effect.seconds
        return None

    def handle(self, message: Message) -> BaseException | None:
        self.batches[-1].append((message.group[0], self.now_s))
        self.now_s += self.handler_s
        self.in_flight.on_tick(self.now_s)
        self.hear()
        return None

    def on_way_back(self, calls: Any) -> None:
        """The calls were carried out, and their answers are not here yet."""

    def hear(self) -> None:
        """The answers to what was posted, soon after it."""
        self.in_flight.collect_all()

    def settle_and_claim(self, effect: SettleAndClaim) -> Claimed | None:
        """Settle, and claim."""
        claimed = self.in_flight.settle_and_claim(effect)
        if claimed and claimed.groups:
            self.batches.append([])
            self.claimed.append(sum(len(group.members) for group in claimed.groups))
        return claimed

    def lengths_s(self) -> list[float]:
        return [len(batch) * self.handler_s for batch in self.batches]
