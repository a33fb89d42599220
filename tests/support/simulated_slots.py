"""A process with three worker slots in virtual time, on a model of a shard; one of them is in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sequencer.drain.effects import Ahead, Flush, Handle, Locked, Note, SettleAndClaim, Tell, Wait
from sequencer.drain.outcome import Failed
from sequencer.drain.protocol import drain
from sequencer.drain.slots import Slots, Trip
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import SequencerError, ServerUnavailable
from sequencer.values.message import Message

from .shard_link import KEYS
from .simulated_consumer import OPTIONS

if TYPE_CHECKING:
    from .machine import ConsumersMachine

COUNT = 3


class SimSlot:
    """One slot: its generator, what that asks for, and the handler that runs."""

    def __init__(self, process: SimSlots) -> None:
        self.process, machine = process, process.machine
        self.slot = process.slots.new()
        self.running: Message | None = None
        clocks = (lambda: machine.now_s), (lambda: machine.now_s), (lambda: 0.5)
        self.runner = StepRunner(self.slot.held, machine.queue, None, process.name, *clocks)
        self.generator = drain(self.runner, OPTIONS)
        self.effect: Any = None
        self.resume(None)

    def resume(self, answer: Any) -> None:
        machine, slots = self.process.machine, self.process.slots
        self.running = None
        while True:
            try:
                is_error = isinstance(answer, SequencerError)
                self.effect = self.generator.throw(answer) if is_error else self.generator.send(answer)
            except StopIteration:
                self.effect = None
                return
            answer, effect = None, self.effect
            if isinstance(effect, Locked):
                answer = effect.act()
            elif isinstance(effect, SettleAndClaim | Flush | Note | Wait):
                if slots.ask(self.slot, effect):
                    return
            elif isinstance(effect, Handle):
                self.running = effect.message
                slots.begins(self.slot)
                machine.on_start(self, effect.message)
                return
            elif not isinstance(effect, Ahead | Failed | Tell):
                return


class SimSlots:
    """What the machine takes for a consumer: the slot in turn, and the trips of all."""

    def __init__(self, machine: ConsumersMachine, name: str) -> None:
        self.machine, self.name = machine, name
        self.runner = self
        self.slots = Slots(
            [KEYS],
            "q",
            name,
            OPTIONS.lease_s,
            max_attempts=machine.queue.max_attempts,
            is_patient=False,
            clock=lambda: machine.now_s,
        )
        self.turn = 0
        self.out: Any = None
        self.all = [SimSlot(self) for _ in range(COUNT)]

    @property
    def one(self) -> SimSlot:
        return self.all[self.turn]

    @property
    def effect(self) -> Any:
        return self.one.effect if any(slot.effect for slot in self.all) else None

    @property
    def running(self) -> Message | None:
        return self.one.running

    @property
    def is_stopping(self) -> bool:
        return self.one.runner.is_stopping

    @is_stopping.setter
    def is_stopping(self, value: bool) -> None:
        for slot in self.all:
            slot.runner.is_stopping = value

    def resume(self, answer: Any) -> None:
        if self.one.effect is not None:
            self.one.resume(answer)

    def end(self, error: BaseException | None = None) -> None:
        self.one.resume(error)

    def network(self, fate: str) -> None:
        """A trip begins, or the one that is out ends: meanwhile slots go on. `fate` is that of one that begins."""
        slots, (shard,), now = self.slots, self.slots.shards, self.machine.now_s
        slots.is_ending = self.is_stopping
        self.give(slots.ready(now))
        if self.out is None:
            trip = slots.trip(shard, now)
            if trip is not None:
                self.out = None if fate == "request lost" else self.results_of(trip), fate != "ok"
            return
        (results, is_lost), self.out = self.out, None
        self.give(slots.lost(shard, ServerUnavailable("lost")) if is_lost else slots.answered(shard, results, now))

    def results_of(self, trip: Trip) -> list[Any]:
        return [self.machine.shard.run(call) for call in trip.calls]

    def keep(self, fate: str) -> None:
        self.network(fate)

    def give(self, answers: Any) -> None:
        by_slot = {one.slot: one for one in self.all}
        for slot, answer in answers:
            one = by_slot[slot]
            assert isinstance(one.effect, SettleAndClaim | Flush | Note | Wait), "a slot that asks nothing is answered"
            one.resume(answer)
