"""A consumer in virtual time: the real drain, with all it holds and has in flight, on a model of a shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from sequencer.calls.claim import Claimed
from sequencer.consume.in_flight import InFlight
from sequencer.drain.effects import Ahead, Flush, Handle, Locked, Run, SettleAndClaim, Tell, Wait
from sequencer.drain.held import Held
from sequencer.drain.outcome import Failed
from sequencer.drain.protocol import drain
from sequencer.drain.steps.actions import Raised, Returned
from sequencer.drain.steps.functions import BatchHandler
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ConsumerOptions
from sequencer.values.batch import Batch
from sequencer.values.message import Message

from .model.shard import ModelShard
from .shard_link import KEYS, Link

if TYPE_CHECKING:
    from .machine import ConsumersMachine

OPTIONS = ConsumerOptions(lease_s=10)


class FatefulLink(Link):
    """What is sent, or its reply, may be lost."""

    def __init__(self, shard: ModelShard) -> None:
        super().__init__(shard)
        self.fate = "ok"

    def run(self, calls: Any, wait: None = None) -> list[Any]:
        if self.fate == "request lost":
            raise ServerUnavailable("request lost")
        results = super().run(calls)
        if self.fate == "reply lost":
            raise ServerUnavailable("reply lost")
        return results

    def post(self, calls: Any) -> None:
        try:
            self.posted.append(self.run(calls))
        except ServerUnavailable:
            self.posted.append(None)

    def collect(self, calls: Any) -> list[Any]:
        if self.posted[0] is None:
            self.close()
            raise ServerUnavailable("the connection was lost meanwhile")
        return super().collect(calls)


class SimConsumer:
    """One consumer: its generator, what it is asked to do now, and the handler that runs, if any."""

    batch: BatchHandler | None = None
    """Of a handler of batches, which handles one message after the other, and says of each that it is done."""

    def __init__(self, machine: ConsumersMachine, name: str) -> None:
        self.machine, self.name = machine, name
        self.held = Held([KEYS], OPTIONS.lease_s)
        self.link = cast(Any, FatefulLink(machine.shard))
        self.in_flight = InFlight(self.held, "q", name, self.link, clock=lambda: machine.now_s)
        clocks = (lambda: machine.now_s), (lambda: machine.now_s), (lambda: 0.5)
        self.runner = StepRunner(self.held, machine.queue, None, name, *clocks, self.batch)
        self.generator = drain(self.runner, OPTIONS)
        self.running: Message | None = None
        self.effect: Any = next(self.generator)

    def resume(self, answer: Any, error: Exception | None = None) -> None:
        try:
            self.effect = self.generator.throw(error) if error else self.generator.send(answer)
            while isinstance(self.effect, Ahead | Failed | Locked | Tell):
                self.effect = self.generator.send(self.at_once(self.effect))
        except StopIteration:
            self.effect = None
        self.running = None
        if isinstance(self.effect, Handle | Run):
            self.begin(self.effect.message)

    def begin(self, message: Message) -> None:
        self.running = message
        self.machine.on_start(self, message)

    def end(self, error: BaseException | None = None) -> None:
        """The handler returns, or raises this; one of batches goes on within its batch."""
        if not isinstance(self.effect, Run):
            self.resume(error)
        elif error is not None:
            self.resume(Raised(error))
        else:
            batch = cast(Batch, self.effect.call)
            batch.done(cast(Message, self.running))
            if batch.done_count == len(batch):
                self.resume(Returned(None))
                return
            self.running = batch[batch.done_count]
            if self.machine.is_valid(self.running):  # it does not know when its lease ends
                self.machine.on_start(self, self.running)

    def at_once(self, effect: Ahead | Failed | Locked | Tell) -> Any:
        """What needs no turn of its own; nobody is told of a failure here."""
        if isinstance(effect, Locked):
            return effect.act()
        return self.exchange(self.in_flight.ahead, effect, "ok") if isinstance(effect, Ahead) else None

    def exchange(self, do: Callable[[Any], Any], effect: Any, fate: str) -> Any:
        self.link.fate = fate
        return do(effect)

    def network(self, fate: str) -> None:
        """Do the exchange, flush or wait that is asked for; `fate` may lose the request or the reply."""
        answer: Any = None
        effect = self.effect
        try:
            if isinstance(effect, SettleAndClaim):
                answer = self.exchange(self.in_flight.settle_and_claim, effect, fate)
            elif isinstance(effect, Flush):
                self.exchange(self.in_flight.flush, effect, fate)
            elif isinstance(effect, Wait) and effect.shard is not None and effect.seconds > 0:
                answer = self.wait(effect, fate)
        except ServerUnavailable as error:
            return self.resume(None, error)
        return self.resume(answer)

    def wait(self, effect: Wait, fate: str) -> Claimed:
        """A hint comes at once; another connection brings what is claimed then."""
        assert effect.shard is not None
        other, before_s = FatefulLink(self.machine.shard), self.machine.now_s
        other.fate = fate
        (claimed,) = other.run([self.in_flight.claim(effect.shard, effect.limits, ahead=True)])
        self.held.take(effect.shard, claimed.groups, before_s, before_s)
        found: Claimed = claimed
        return found

    def keep(self, fate: str) -> None:
        """One look of the renewer thread."""
        try:
            self.exchange(self.in_flight.on_tick, self.machine.now_s, fate)
        except ServerUnavailable:
            return
