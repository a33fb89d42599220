"""One consuming process: does what the drain generator asks, and keeps leases alive beside a running handler.

Two threads. The caller's thread runs handlers and, between them, one round trip a batch. The other is the renewer's.
One lock guards what is held and the main link, on which both send.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar, cast

from ..calls.claim import Claimed
from ..drain import effects as asked
from ..drain.effects import Effect, Handle, SettleAndClaim, Wait
from ..drain.held import Held
from ..drain.held_group import History
from ..drain.outcome import Failed
from ..drain.protocol import drain
from ..drain.steps.declared import Steps
from ..drain.steps.functions import Handler, InlineHandler
from ..drain.steps.runner import StepRunner
from ..errors import SequencerError, ServerUnavailable, StopConsuming, Undecodable
from ..net.endpoint import Endpoint
from ..net.link import Guide, Link
from ..net.wait import Waiter
from ..settings.options import ConsumerOptions, QueueOptions
from ..settings.pace import SILENT_S, STOP_CHECK_S, SWITCH_S, WAIT_PART
from ..settings.policy import HistoryKept
from ..store.keys import ShardKeys
from ..values.message import ConsumeSummary, Message
from .emitter import ConsumerEvents, EventEmitter
from .forks import CURRENT_ID, GROUP_SIZE, Fork, Memory, exit_child, note_group, owner_name, remember_current
from .in_flight import InFlight
from .interruption import interrupt, is_ctrl_c
from .registered import Work
from .renewer import Renewer
from .step_calls import StepCalls
from .time_limit import TimeLimit

T = TypeVar("T")


class Consumer:
    """Runs `handler` for one message at a time until stopped, drained or recycled."""

    def __init__(
        self,
        endpoint: Endpoint,
        shards: Sequence[ShardKeys],
        queue: QueueOptions,
        options: ConsumerOptions,
        handler: Work,
        *,
        owner: str | None = None,
        guide: Guide | None = None,
        emitter: EventEmitter | None = None,
        keeps_history: Callable[[], HistoryKept] = lambda: "",
    ) -> None:
        """`keeps_history`: what the queue keeps of ended messages at present."""
        self.owner = owner or owner_name()
        self.emitter = emitter or EventEmitter(queue.queue)
        self.events = ConsumerEvents(self.emitter, queue, self.owner)
        self._options, self._handler = options, handler
        self._main = Link(endpoint, guide)
        self._waiter = Waiter(endpoint, shards, self._main, guide)
        self._held = Held(
            shards,
            options.lease_s,
            audits=options.audit,
            audit_length=options.audit_length,
            history=History(self.owner, keeps_history),
        )
        self._in_flight = InFlight(self._held, queue.queue, self.owner, self._main, clock=time.monotonic)
        self._limit = TimeLimit(options.handler_timeout_s)
        self._renewer = Renewer(self._in_flight, self.events, self._limit, lambda: self.running)
        declared = handler if isinstance(handler, Steps | InlineHandler) else None
        self._runner = StepRunner(self._held, queue, declared, self.owner, time.monotonic, time.time, random.random)
        self._step_calls = StepCalls(self.events, self._limit, self._perform)
        self._settled_at = 0.0
        self._in_progress: Message | None = None
        self.on_first: Callable[[], object] | None = None
        """Called once, before the first handler begins."""
        self.memory: Memory = None

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        self._runner.is_stopping = True

    def interrupt(self) -> None:
        """Stop now: from its thread's signal handler, raises StopConsuming into a running handler, where it may."""
        self._runner.is_stopping = True
        self._step_calls.is_interrupted = True  # for a handler that is just about to begin
        if self._step_calls.is_running:
            interrupt()

    def hang(self) -> None:
        """The message in progress hangs, so its end counts as an attempt: `interrupt` follows, and if that does not
        help, this process is killed once its last lease ends. Any thread may call it.
        """
        if (running := self.running) is not None:
            self._step_calls.hung, self._held.stuck_since = running

    def on_stuck(self, call: Callable[[Message], object]) -> None:
        """Call this, in the renewer's thread, when a handler ignores the end of its time: it has to end the process."""
        self._renewer.on_stuck = call

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler runs now, and since when, by `time.monotonic`; any thread may look."""
        message, since = self._in_progress, self._held.running_since
        return None if message is None or since is None else (message, since)

    @property
    def handlers_s(self) -> float:
        """Its time in handlers and steps since it began, including the one that runs now; any thread may read it."""
        ended_s, since = self._held.handlers_s, self._held.running_since
        return ended_s if since is None else ended_s + time.monotonic() - since

    @property
    def counts(self) -> dict[str, int]:
        """What it has done since it began, and what its emitter counted; any thread may look."""
        return {"handled": self._held.handled, "lost": self._held.lost, **asdict(self.emitter.counts)}

    def run(self) -> ConsumeSummary:
        """Consume until the end. Raises ServerNotUsable or DataError when going on makes no sense, and
        ConfigurationError where `handler_timeout` can't hold: outside the main thread, or without its signal.
        """
        switch_s = sys.getswitchinterval()
        with self._limit.in_force():
            try:
                sys.setswitchinterval(min(switch_s, SWITCH_S))
                self._renewer.start()
                return self._perform(drain(self._runner, self._options))
            except BaseException:
                self._release()
                raise
            finally:
                sys.setswitchinterval(switch_s)
                self._renewer.end()
                self._renewer.tell_refusals()
                self._renewer.tell_halted()
                self.emitter.close()
                for link in (self._main, self._waiter.link):
                    link.close()

    def _perform(self, effects: Generator[Effect, Any, T]) -> T:
        resume, forks, first, calls = effects.send, Fork.count, self.on_first, self._step_calls
        memory, write_id, group = self.memory, CURRENT_ID.pack_into, None
        handler = calls.limit.limited(cast(Handler, self._handler))
        answer: Any = None
        while True:
            try:
                effect = resume(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            resume, answer = effects.send, None
            if type(effect) is Handle:
                if first:
                    first()
                    first = None
                self._in_progress = message = effect.message
                if memory is not None:
                    if message.group is not group:
                        group = note_group(memory, message.group)
                    write_id(memory, GROUP_SIZE, message.id.encode("utf-8", "surrogateescape"))
                try:
                    calls.is_running = True
                    if calls.is_interrupted:
                        raise StopConsuming("interrupted")
                    handler(message)
                    calls.is_running = False
                    if forks != Fork.count:
                        exit_child(None)
                except BaseException as error:
                    # Also SystemExit or KeyboardInterrupt: what ends a handler is a failure of its message.
                    calls.is_running = False
                    if forks != Fork.count:
                        exit_child(error)
                    if is_ctrl_c(error):
                        raise
                    answer = calls.outcome(error, message)
            else:
                try:
                    answer = self._do(effect)
                except SequencerError as error:
                    if isinstance(error, ServerUnavailable):
                        self.events.unreachable(error)
                    resume, answer = effects.throw, error

    def _do(self, effect: Effect) -> Any:
        match effect:
            case SettleAndClaim():
                return self._settle_and_claim(effect)
            case asked.Locked():
                with self._renewer.lock:
                    return effect.act()
            case asked.Ahead():
                self._exchange(self._in_flight.ahead, effect)
            case asked.Flush():
                self._exchange(self._in_flight.flush, effect)
            case asked.Note():
                code = self._exchange(self._in_flight.note, effect)
                self._renewer.tell_refusals()
                return code
            case asked.Run():
                self._in_progress = remember_current(self.memory, effect.message)
                first, self.on_first = self.on_first, None
                if first:
                    first()
                return self._step_calls.run(effect)
            case Wait():
                return self._wait(effect)
            case asked.Sleep():
                until = time.monotonic() + effect.seconds
                while (left := until - time.monotonic()) > 0 and (effect.is_whole or not self._runner.is_stopping):
                    time.sleep(min(left, STOP_CHECK_S))
            case asked.Tell():
                self.events.emit(effect.name, effect.message, **effect.fields)
            case Failed():
                try:
                    self.events.failed(effect)
                except StopConsuming:  # an observer's wish
                    self.stop()
                if isinstance(effect.error, Undecodable):  # its body may be lost
                    self._main.invalidate()
        return None

    def _exchange(self, do: Callable[[Any], T], effect: Any) -> T:
        with self._renewer.lock, self._in_flight.in_one_piece():
            return do(effect)

    def _settle_and_claim(self, effect: SettleAndClaim) -> Claimed | None:
        self._renewer.rest()
        remember_current(self.memory, None)
        claimed = self._exchange(self._in_flight.settle_and_claim, effect)
        self._settled_at = time.monotonic()
        self._renewer.tell_refusals()
        if effect.shard is not None:
            self.events.reached()
        return None if claimed is None else self._took(claimed)

    def _wait(self, effect: Wait) -> Claimed | None:
        """Until a hint comes, and with what was claimed then. That lease is counted from before the wait."""
        shard, seconds, call = effect.shard, effect.seconds, None
        asked_at = time.monotonic()
        with self._renewer.lock:
            if self._main.is_check_due:
                self._main.refresh()
            if shard is not None and asked_at - self._settled_at < SILENT_S:
                seconds = min(seconds, self._options.lease_s / WAIT_PART)
                call = self._in_flight.claim(shard, effect.limits, ahead=True)
            else:
                self._main.refresh()  # the claim that follows the wait goes over it
        claimed = self._waiter.wait(seconds, lambda: self._runner.is_stopping, call)
        if claimed is None or shard is None:
            return None
        with self._renewer.lock:
            self._held.take(shard, claimed.groups, asked_at, time.monotonic())
            self._in_flight.halted += claimed.halted
        return self._took(claimed)

    def _took(self, claimed: Claimed) -> Claimed:
        self._main.is_idle = not claimed.groups
        if claimed.groups:
            self._renewer.wake()
            self.events.took(claimed.groups)
        self._renewer.tell_halted()
        self.emitter.tick()
        return claimed

    def _release(self) -> None:
        """Also to a server that must not be used any more: what was handled shall not be handled again."""
        with self._renewer.lock:
            self._main.may_check = False
        try:
            self._settle_and_claim(SettleAndClaim(None))
        except SequencerError as error:
            self.events.emit("groups not released", error=str(error))
