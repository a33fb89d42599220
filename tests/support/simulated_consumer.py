"""A consumer in virtual time: the real drain generator and the real holdings, on a model of a lane."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from sequencer.calls.claim import claim
from sequencer.drain.effects import Ahead, Control, Exchange, Flush, Wait
from sequencer.drain.held import Holdings
from sequencer.drain.outcome import Failed
from sequencer.drain.protocol import drain
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ConsumerOptions
from sequencer.store.keys import lane_keys
from sequencer.values.message import Message

if TYPE_CHECKING:
    from .machine import ConsumersMachine

KEYS = lane_keys("n", "q", 0)
OPTIONS = ConsumerOptions(lease_s=10)


class SimConsumer:
    """One consumer: its generator, what it is asked to do now, and the handler that runs, if any."""

    def __init__(self, machine: ConsumersMachine, name: str) -> None:
        self.machine, self.name = machine, name
        self.holdings, self.control = Holdings([KEYS], OPTIONS.lease_s), Control()
        self.generator = drain(
            self.holdings,
            machine.queue,
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
            while isinstance(self.effect, Ahead | Failed):  # nobody is told here
                self.effect = self.generator.send(None)
        except StopIteration:
            self.effect = None
        self.running = None
        if isinstance(self.effect, Message):
            self.running = self.effect
            self.machine.on_start(self, self.effect)

    def network(self, fate: str) -> None:
        """Do the exchange, flush or wait that is asked for; `fate` may lose the request or the reply."""
        lane, effect = self.machine.lane, self.effect
        before = self.machine.now_s
        if isinstance(effect, Exchange):
            self.holdings.settle(everything=True)
        sending = None
        if not isinstance(effect, Wait):
            sending = self.holdings.outgoing(
                claims_next=effect.lane if isinstance(effect, Exchange) else None,
                now=None if isinstance(effect, Exchange) else before,
            )
        calls = list(sending.calls) if sending else []
        if not isinstance(effect, Flush) and effect.lane is not None:
            alone = effect.alone if isinstance(effect, Exchange) else 0
            calls.append(claim(KEYS, "q", self.name, OPTIONS.lease_s, effect.limits, alone=alone))
        if fate == "request lost":
            return self.resume(None, ServerUnavailable("request lost"))
        results = [lane.run(call) for call in calls]
        if fate == "reply lost":
            return self.resume(None, ServerUnavailable("reply lost"))
        if sending:
            self.holdings.sent(sending, results, before)
        if isinstance(effect, Flush) or effect.lane is None:
            return self.resume(None)
        self.holdings.take(effect.lane, results[-1].groups, before, before)
        return self.resume(results[-1])

    def keep(self, fate: str) -> None:
        """One look of the keeper thread."""
        before = self.machine.now_s
        self.holdings.tick(before)
        sending = self.holdings.outgoing(now=before)
        if sending and fate != "request lost":
            results = [self.machine.lane.run(call) for call in sending.calls]
            if fate != "reply lost":
                self.holdings.sent(sending, results, before)
