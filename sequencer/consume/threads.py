"""One consuming process: does what the drain generator asks, and keeps leases alive beside a running handler.

Two threads. The caller's thread runs handlers and, between them, one round trip a batch. The other is the renewer's.
One lock guards what is held and the main link, on which both send.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from ..calls.claim import Claimed
from ..drain import effects as asked
from ..drain.effects import SettleAndClaim, Wait
from ..drain.held import Held
from ..drain.held_group import History
from ..drain.protocol import drain
from ..drain.steps.declared import Steps
from ..drain.steps.functions import BatchHandler, InlineHandler
from ..drain.steps.runner import StepRunner
from ..errors import SequencerError
from ..net.endpoint import Endpoint
from ..net.link import Guide, Link
from ..net.wait import Waiter
from ..settings.options import ConsumerOptions, QueueOptions
from ..settings.pace import SILENT_S, WAIT_PART
from ..settings.policy import HistoryKept
from ..store.keys import ShardKeys
from ..values.message import ConsumeSummary, Message
from .around import Manager, Work, lived
from .current import in_progress
from .emitter import ConsumerEvents, EventEmitter
from .forks import owner_name, remember_current
from .in_flight import InFlight
from .perform import Performer, quick_switches
from .renewer import Renewer
from .time_limit import TimeLimit

T = TypeVar("T")


class AnyConsumer(ABC):
    """What all consumers are made of, and what can be asked of them from any thread."""

    lifespans: Sequence[Manager] = ()

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
        self.work, self._queue, self._options = handler, queue, options
        self._set_up(endpoint, shards, guide, partial(History, self.owner, keeps_history))

    @abstractmethod
    def _set_up(
        self, endpoint: Endpoint, shards: Sequence[ShardKeys], guide: Guide | None, new_history: Callable[[], History]
    ) -> None: ...

    @property
    @abstractmethod
    def _helds(self) -> Sequence[Held]: ...

    @property
    def handlers_s(self) -> float:
        """Time in handlers and steps since it began, with those that run now; of many worker slots on average."""
        ended_s, now, helds = sum(held.handlers_s for held in self._helds), time.monotonic(), self._helds
        began = [since for held in helds if (since := held.running_since) is not None]
        return (ended_s + now * len(began) - sum(began)) / len(helds)

    @property
    def is_limited(self) -> bool:
        """Whether any handler or step has a time limit."""
        own_s = self.work.timeouts_s if isinstance(self.work, Steps) else ()
        return bool(own_s) or self._options.handler_timeout_s is not None

    @property
    def counts(self) -> dict[str, int]:
        """What it has done since it began, and what its emitter counted."""
        return {**self._sums("handled", "lost"), **asdict(self.emitter.counts)}

    @property
    def runs(self) -> list[float]:
        """How many handlers ended within each of RUN_BOUNDS_S and later, and the time in all of them."""
        helds = self._helds
        return [*map(sum, zip(*(held.runs for held in helds), strict=True)), sum(held.handlers_s for held in helds)]

    def _sums(self, *names: str) -> dict[str, int]:
        return {name: sum(getattr(held, name) for held in self._helds) for name in names}

    def runner_of(self, held: Held) -> StepRunner:
        work = self.work
        declared = work if isinstance(work, Steps | InlineHandler) else None
        batch = work if isinstance(work, BatchHandler) else None
        clocks, tells = (time.monotonic, time.time, random.random), self.emitter.hears_successes
        return StepRunner(held, self._queue, declared, self.owner, *clocks, batch=batch, tells_successes=tells)


class Consumer(AnyConsumer, Performer):
    """Runs `handler` for one message at a time until stopped, drained or recycled."""

    def _set_up(
        self, endpoint: Endpoint, shards: Sequence[ShardKeys], guide: Guide | None, new_history: Callable[[], History]
    ) -> None:
        options, work = self._options, self.work
        held = Held(shards, options.lease_s, history=new_history())
        limit = TimeLimit(options.handler_timeout_s, work.timeouts_s if isinstance(work, Steps) else ())
        Performer.__init__(self, work, self.runner_of(held), self.events, limit)
        self.link = Link(endpoint, guide)
        self._waiter = Waiter(endpoint, shards, self.link, guide)
        self._in_flight = InFlight(held, self._queue.queue, self.owner, self.link, clock=time.monotonic)
        self._renewer = Renewer(self._in_flight, self.events, limit, lambda: self.running)
        self.lock, self._settled_at = self._renewer.lock, 0.0

    @property
    def _helds(self) -> Sequence[Held]:
        return (self._held,)

    def invalidate(self) -> None:
        self.link.invalidate()

    def hang(self) -> None:
        """The message in progress hangs, so its end counts as an attempt: `interrupt` follows. From any thread."""
        if (running := self.running) is not None:
            self.hung, self._held.stuck_since = running

    def on_stuck(self, call: Callable[[Message], object]) -> None:
        """Call this, in the renewer's thread, when a handler ignores the end of its time: it has to end the process."""
        self._renewer.on_stuck = call

    def run(self) -> ConsumeSummary:
        """Consume until the end. Raises ServerNotUsable, DataError, ConfigurationError."""
        with lived(self.lifespans), in_progress(self), self.limit.in_force(), quick_switches():
            try:
                self._renewer.start()
                return self.perform(drain(self._runner, self._options))
            except BaseException:
                self._release()
                raise
            finally:
                self._renewer.end()
                self._renewer.tell_refusals()
                self._renewer.tell_halted()
                self.emitter.close()
                for link in (self.link, self._waiter.link):
                    link.close()

    def ask(self, effect: asked.SettleAndClaim | asked.Ahead | asked.Flush | asked.Note | asked.Wait) -> Any:
        match effect:
            case SettleAndClaim():
                return self._settle_and_claim(effect)
            case asked.Ahead():
                return self._exchange(self._in_flight.ahead, effect)
            case asked.Flush():
                return self._exchange(self._in_flight.flush, effect)
            case asked.Wait():
                return self._wait(effect)
        code = self._exchange(self._in_flight.note, effect)
        self._renewer.tell_refusals()
        return code

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

    def _wait(self, effect: Wait) -> Claimed | int | None:
        """Until a hint comes, and with what was claimed then. That lease is counted from before the wait. Of several
        shards, with the one that the hint is for.
        """
        shard, seconds, call = effect.shard, effect.seconds, None
        asked_at = time.monotonic()
        with self._renewer.lock:
            if self.link.is_check_due:
                self.link.refresh()
            if shard is not None and asked_at - self._settled_at < SILENT_S:
                seconds = min(seconds, self._options.lease_s / WAIT_PART)
                call = self._in_flight.claim(shard, effect.limits, ahead=True)
            else:
                self.link.refresh()  # the claim that follows the wait goes over it
        claimed = self._waiter.wait(seconds, lambda: self._runner.is_stopping, call)
        if shard is None:
            return self._waiter.hinted
        if claimed is None:
            return None
        with self._renewer.lock:
            self._held.take(shard, claimed.groups, asked_at, time.monotonic())
            self._in_flight.halted += claimed.halted
        return self._took(claimed)

    def _took(self, claimed: Claimed) -> Claimed:
        self.link.is_idle = not claimed.groups
        if claimed.groups:
            self._renewer.wake()
            self.events.took(claimed.groups)
        self._renewer.tell_halted()
        self.emitter.tick()
        return claimed

    def _release(self) -> None:
        """Also to a server that must not be used any more: what was handled shall not be handled again."""
        with self._renewer.lock:
            self.link.may_check = False
        try:
            self._settle_and_claim(SettleAndClaim(None))
        except SequencerError as error:
            self.events.emit("groups not released", error=str(error))
