"""One drain of a MemoryQueue: does what the drain's generator asks, as a consumer would, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..calls.claim import Claimed
from ..consume.emitter import ConsumerEvents
from ..consume.in_flight import InFlight
from ..consume.registered import Work
from ..consume.time_limit import TimeIsUp, timed_out, without_ours
from ..drain.effects import Flush, Handle, Locked, Note, Run, SettleAndClaim, Sleep, Tell, Wait
from ..drain.held import Held
from ..drain.held_group import HeldGroup, History
from ..drain.outcome import Failed
from ..drain.protocol import drain
from ..drain.steps.actions import Raised, Returned
from ..drain.steps.declared import Steps
from ..drain.steps.functions import InlineHandler
from ..drain.steps.inline import InlineSteps
from ..drain.steps.runner import StepRunner
from ..errors import ConfigurationError, StopConsuming
from ..net.blocking import finish
from ..settings.options import ConsumerOptions
from ..texts.words import many
from ..values.message import ConsumeSummary, Message

if TYPE_CHECKING:
    from .memory_queue import MemoryQueue


class StepRun(NamedTuple):
    """One call of a step."""

    message: Message
    step: str
    key: str
    is_check: bool
    result: Any
    """What it returned."""
    error: BaseException | None = None
    """What it raised."""


class _Held(Held):
    """Says which messages are handled."""

    on_finish: Callable[[Message], object]

    def finish(self, group: HeldGroup, began: float, ended: float) -> None:
        self.on_finish(group.leased.messages[group.done])
        super().finish(group, began, ended)


class MemoryRun:
    """One drain, with neither threads nor waiting."""

    def __init__(self, queue: MemoryQueue, work: Work, options: ConsumerOptions) -> None:
        self.queue, self.work = queue, work
        self.handled: list[Message] = []
        self.steps: list[StepRun] = []
        self.failed: list[tuple[Message, BaseException]] = []
        self._options = options
        self._declared = work if isinstance(work, Steps | InlineHandler) else None
        shards = finish(queue._session.shards("consume"))
        history = History("memory", queue._session.keeps_history)
        self._held = _Held(
            shards, options.lease_s, audits=options.audit, audit_length=options.audit_length, history=history
        )
        self._held.on_finish = self.handled.append
        self._events = ConsumerEvents(queue._emitter, queue.options, "memory")
        self._dues_s: list[float] = []
        """Seconds until something is due, as the last claims said."""

    def to_the_end(self, max_effects: int) -> ConsumeSummary:
        queue = self.queue
        clocks = (lambda: queue.now), (lambda: queue.now), (lambda: 0.5)
        runner = StepRunner(self._held, queue.options, self._declared, "memory", *clocks)
        effects = drain(runner, self._options)
        answer: Any = None
        with queue._net.link() as link:
            in_flight = InFlight(self._held, queue.queue, "memory", link, clock=lambda: queue.now)
            try:
                for _ in range(max_effects):
                    try:
                        effect = effects.send(answer)
                    except StopIteration as end:
                        summary: ConsumeSummary = end.value
                        return summary
                    answer = self._do(effect, in_flight)
                raise AssertionError(
                    f"queue {queue.queue!r} is not drained after {max_effects} effects: "
                    f"{many(len(self.handled), 'handled message')}, {many(len(self.failed), 'failed run')}; "
                    "does a handler append to its own queue, or fail "
                    "with Retry for ever? And where nothing else is handled, an outage "
                    f"({', '.join(queue.options.outage_names)}) costs no attempt, so that it never ends"
                )
            except BaseException:
                link.close()  # what a flush posted may not be answered yet: the next question would get that answer
                raise

    def _do(self, effect: Any, in_flight: InFlight) -> Any:
        if type(effect) is Handle:
            return self._handle(effect.message)
        if type(effect) is Run:
            return self._run(effect, in_flight)
        if isinstance(effect, Note):
            return in_flight.note(effect)
        if isinstance(effect, SettleAndClaim):
            return self._told(in_flight.settle_and_claim(effect))
        if isinstance(effect, Failed):
            if effect.end is not None:
                self.failed.append((effect.message, effect.error))
            self._events.failed(effect)
        elif isinstance(effect, Tell):
            self._events.emit(effect.name, effect.message, **effect.fields)
        elif isinstance(effect, Locked):
            return effect.act()
        elif isinstance(effect, Flush):
            in_flight.flush(effect)
        elif isinstance(effect, Wait):
            dues_s, self._dues_s = self._dues_s, []
            self.queue.advance(max(0.0, min(dues_s, default=effect.seconds)) + 1e-6)
        elif isinstance(effect, Sleep):
            self.queue.advance(effect.seconds)
        return None

    def _handle(self, message: Message) -> BaseException | None:
        assert not isinstance(self.work, Steps | InlineHandler)
        error = self._limited(self.work, message)[1]
        if error is not None and not isinstance(error, StopConsuming):
            self.failed.append((message, error))
        return error

    def _run(self, effect: Run, in_flight: InFlight) -> Returned | Raised:
        call = effect.call
        if isinstance(call, InlineSteps):
            call.perform = self._performer(in_flight)
        result, error = self._limited(effect.function, effect.message, call)
        if not isinstance(call, InlineSteps):
            self.steps.append(StepRun(effect.message, call.name, call.key, effect.is_check, result, error))
        return Returned(result) if error is None else Raised(error)

    def _performer(self, in_flight: InFlight) -> Callable[[Any], Any]:
        is_inside = False

        def perform(effects: Any) -> Any:
            nonlocal is_inside
            if is_inside:
                raise ConfigurationError("a step can't run within another step; run it after that")
            answer, is_inside = None, True
            try:
                while True:
                    answer = self._do(effects.send(answer), in_flight)
            except StopIteration as end:
                return end.value
            finally:
                is_inside = False

        return perform

    def _limited(self, function: Callable[..., Any], *given: Any) -> tuple[Any, BaseException | None]:
        """What it returns, or raises."""
        limit_s, queue = self._options.handler_timeout_s, self.queue
        queue._cut_us = None if limit_s is None else queue._now_us + round(limit_s * 1e6)
        try:
            return function(*given), None
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # as a consumer does: whatever ends a handler is a failure of its message
            return None, without_ours(timed_out(raised, limit_s or 0.0) if isinstance(raised, TimeIsUp) else raised)
        finally:
            queue._cut_us = None

    def _told(self, claimed: Claimed | None) -> Claimed | None:
        refusals, self._held.refusals = self._held.refusals, []
        self._events.refused(refusals)
        outages, self._held.outages = self._held.outages, []
        self._events.outages(outages)
        if claimed is None:
            return None
        self._events.claimed(claimed)
        if claimed.groups:
            self._dues_s = []
        elif claimed.next_due_s is not None:
            self._dues_s.append(claimed.next_due_s)
        return claimed
