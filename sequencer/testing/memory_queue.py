"""MemoryQueue: a queue for unit tests of what you build on sequencer: no server process, no sleep, time that you set.

    queue = MemoryQueue(seq)                            # your application's: its options, handler and steps
    queue.append({"user_id": 7, "amount": 10}, delay=3600)
    done = queue.drain()                                # an hour passes at once
    assert [message.body["amount"] for message in done.handled] == [10]
    assert not done.failed and not done.parked and not done.dead

It runs our real scripts on a private fakeredis, which is not Redis: no `maxmemory`, no rights, no persistence, no other
clients. No claim that sequencer makes rests on it; test what depends on the server with `EmbeddedServer`. The local end
of a `Lease` counts by the real clock, and a `handler_timeout` what a handler lets pass by `advance`. Coroutines run on
a loop of its own, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack, cast

from ..async_client import AsyncSequencer
from ..calls.claim import Claimed
from ..client import Sequencer
from ..consume.around import Work, lived
from ..consume.current import in_progress
from ..consume.emitter import ConsumerEvents
from ..consume.in_flight import InFlight
from ..consume.registered import AnyHandler, needs_loop
from ..consume.threads import Consumer
from ..consume.time_limit import TimeIsUp, timed_out, without_ours
from ..drain.effects import Flush, Handle, Locked, Note, Run, SettleAndClaim, Sleep, Tell, Wait
from ..drain.held import Held
from ..drain.held_group import HeldGroup, History
from ..drain.outcome import Failed
from ..drain.protocol import drain
from ..drain.steps.actions import Raised, Returned
from ..drain.steps.declared import Steps
from ..drain.steps.functions import BatchHandler, Handler, InlineHandler, is_coroutine
from ..drain.steps.inline import InlineSteps
from ..drain.steps.runner import StepRunner
from ..errors import ConfigurationError, StopConsuming
from ..net.blocking import finish
from ..net.endpoint import Connection, Endpoint
from ..settings.option import shows
from ..settings.options import (
    ConsumerOptions,
    ConsumerSettings,
    QueueOptions,
    QueueSettings,
    consumer_options,
    settings_of,
)
from ..settings.policy import Policy
from ..texts.refusals import refusal_text
from ..values.batch import Batch
from ..values.checks import seconds_of
from ..values.durations import Duration
from ..values.message import ConsumeSummary, Message
from ..values.views import DeadLetter, GroupInfo
from .wire import Wire, Words, at_time, wired

BEGAN_S = 1_800_000_000.0
"""What the clock of a new MemoryQueue shows, in seconds since 1970 (2027-01-15): always the same."""
MAX_EFFECTS = 10_000
"""Effects in one `drain`: a queue that is not drained by then never will be, such as one that appends to itself."""


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


@dataclass(frozen=True, slots=True)
class Drained:
    """What one `drain` did. Messages in the order in which they were handled."""

    handled: list[Message]
    failed: list[tuple[Message, BaseException]]
    """Each run that failed, with what it raised; a message that fails twice stands here twice."""
    parked: list[GroupInfo]
    """Groups that are parked now, each with the failure of its head."""
    paused: list[tuple[str, ...]]
    """Groups that are paused now."""
    dead: list[DeadLetter]
    """All dead letters of the queue."""
    elapsed_s: float
    """How much virtual time passed."""
    reason: str
    steps: list[StepRun]
    """Each call of a step or of its check, in their order."""


class MemoryQueue(Sequencer):
    """A Sequencer without a server, in virtual time. Options as for Sequencer; needs the extra `testing`.

    `queue`: a name, or the client of an application: its queue, options, handler, steps and observers are taken, and
    an option given here takes precedence. What its handler appends through that client goes to the real server.
    Raises ConfigurationError when fakeredis or lupa are not installed.
    """

    @shows(QueueSettings, QueueOptions, Policy)
    def __init__(
        self,
        queue: str | Sequencer | AsyncSequencer = "test",
        *,
        namespace: str = "sequencer",
        **settings: Unpack[QueueSettings],
    ) -> None:
        self._now_us = round(BEGAN_S * 1e6)
        self._cut_us: int | None = None
        """When the handler that runs now is interrupted."""
        endpoint = wired(_private_server(), lambda connection: _Clocked(self, connection))
        if isinstance(queue, str):
            super().__init__(queue, endpoint, namespace=namespace, **settings)
            return
        own: QueueSettings = {**settings_of(queue.options), **settings}
        super().__init__(queue.queue, endpoint, namespace=queue.options.namespace, **own)
        self.register_as(queue)

    @property
    def now(self) -> float:
        """The queue's time, in seconds since 1970."""
        return self._now_us / 1e6

    def advance(self, duration: Duration) -> None:
        """Let so much time pass. In a handler, it is a handler that takes so long: its lease is not renewed, and past
        its `handler_timeout` it is interrupted here.
        """
        now_us = self._now_us + round(seconds_of("advance", duration) * 1e6)
        if self._cut_us is not None and now_us > self._cut_us:
            self._now_us, self._cut_us = max(self._now_us, self._cut_us), None
            raise TimeIsUp
        self._now_us = now_us

    @shows(ConsumerSettings, ConsumerOptions)
    def drain(
        self,
        handler: AnyHandler | None = None,
        *,
        max_effects: int = MAX_EFFECTS,
        **options: Unpack[ConsumerSettings],
    ) -> Drained:
        """Run the handler (default: what is registered) until nothing is left but parked and paused groups.

        Goes through the drain of a real consumer, in this thread; jumps over delays and backoffs. Raises AssertionError
        when that does not end in this many effects, HandlerNotFound without a handler.
        """
        began_s = self.now
        run = self._run(handler, options)
        summary = run.to_the_end(max_effects)
        now = list(self.parked()), self.paused_groups(), self.dead()
        return Drained(run.handled, run.failed, *now, self.now - began_s, summary.reason, run.steps)

    @shows(ConsumerSettings, ConsumerOptions)
    def consume(
        self,
        handler: AnyHandler | None = None,
        *,
        on_start: Callable[[Consumer], None] | None = None,
        **options: Unpack[ConsumerSettings],
    ) -> ConsumeSummary:
        """As `Sequencer.consume`, in virtual time, for code under test that calls it: without `until_idle` it ends when
        the queue is drained, whatever `until_empty` says, as nobody else could append. Signals are left alone.

        Raises as `drain`, and ConfigurationError for `on_start`: there is no consumer to stop from another thread; a
        handler ends the run with StopConsuming.
        """
        if on_start is not None:
            raise ConfigurationError("on_start_needless")
        return self._run(handler, options).to_the_end(MAX_EFFECTS)

    def _run(self, handler: AnyHandler | None, options: ConsumerSettings) -> _Run:
        options["until_empty"] = not options.get("until_idle")
        work = self._surrounded(self._work(handler, self.queue))
        return _Run(self, work, *self._timed(handler, self.options, consumer_options(**options)))


class _Held(Held):
    """Says which messages are handled."""

    on_finish: Callable[[Message], object]

    def finish(self, group: HeldGroup, began: float, ended: float) -> None:
        self.on_finish(group.leased.messages[group.done])
        super().finish(group, began, ended)


class _Run:
    """One drain, with neither threads nor waiting."""

    def __init__(self, queue: MemoryQueue, work: Work, queue_options: QueueOptions, options: ConsumerOptions) -> None:
        self.queue, self.work, self._queue_options = queue, work, queue_options
        self.handled: list[Message] = []
        self.steps: list[StepRun] = []
        self.failed: list[tuple[Message, BaseException]] = []
        self._options = options
        self._needs_loop = needs_loop(work)
        self._declared = work if isinstance(work, Steps | InlineHandler) else None
        shards = finish(queue._session.shards("consume"))
        history = History("memory", queue._session.keeps_history)
        self._held = _Held(shards, options.lease_s, history=history)
        self._held.on_finish = self.handled.append
        self._events = ConsumerEvents(queue._emitter, queue.options, "memory")
        self._in_progress: Message | None = None
        self._dues_s: list[float] = []
        """Seconds until something is due, as the last claims said."""

    def to_the_end(self, max_effects: int) -> ConsumeSummary:
        queue = self.queue
        clocks = (lambda: queue.now), (lambda: queue.now), (lambda: 0.5)
        batch = self.work if isinstance(self.work, BatchHandler) else None
        runner = StepRunner(
            *(self._held, self._queue_options, self._declared, "memory", *clocks),
            batch=batch,
            tells_successes=queue._emitter.hears_successes,
        )
        effects = drain(runner, self._options)
        answer: Any = None
        with suppress(RuntimeError):
            if self._needs_loop and asyncio.get_running_loop():
                raise ConfigurationError("loop_runs")
        runs: Any = asyncio.Runner() if self._needs_loop else nullcontext()
        life = lived(queue._lifespans, self._finished if self._needs_loop else None)
        with in_progress(self), runs as self._loop, life, queue._net.link() as link:
            in_flight = InFlight(self._held, queue.queue, "memory", link, clock=lambda: queue.now)
            try:
                for _ in range(max_effects):
                    try:
                        effect = effects.send(answer)
                    except StopIteration as end:
                        summary: ConsumeSummary = end.value
                        return summary
                    answer = self._do(effect, in_flight)
                counts = {"effects": max_effects, "handled": len(self.handled), "failed": len(self.failed)}
                about = {"queue": queue.queue, "outage": queue.options.outage_names, **counts}
                raise AssertionError(refusal_text("not_drained", about))
            except BaseException:
                link.close()  # what a flush posted may not be answered yet: the next question would get that answer
                raise

    def _do(self, effect: Any, in_flight: InFlight) -> Any:
        if type(effect) is Handle:
            return self._finished(self._handle(effect.message))
        if type(effect) is Run:
            return self._finished(self._run(effect, in_flight))
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

    def _finished(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run(coroutine) if self._needs_loop else finish(coroutine)

    @property
    def running(self) -> tuple[Message, float] | None:
        """The message whose handler runs now, and since when."""
        message, since = self._in_progress, self._held.running_since
        return None if message is None or since is None else (message, since)

    async def _handle(self, message: Message) -> BaseException | None:
        self._in_progress = message
        error = (await self._limited(None, cast(Handler, self.work), message))[1]
        self._note_failure(message, error)
        return error

    def _note_failure(self, message: Message, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, StopConsuming):
            self.failed.append((message, error))

    async def _run(self, effect: Run, in_flight: InFlight) -> Returned | Raised:
        call, self._in_progress = effect.call, effect.message
        if isinstance(call, InlineSteps):
            perform = self._performer(in_flight)
            call.perform = perform if is_coroutine(effect.function) else lambda effects: finish(perform(effects))
        result, error = await self._limited(effect.timeout_s, effect.function, effect.message, call)
        if isinstance(call, Batch):
            self._note_failure(call.failing, error)
        elif not isinstance(call, InlineSteps):
            self.steps.append(StepRun(effect.message, call.name, call.key, effect.is_check, result, error))
        return Returned(result) if error is None else Raised(error)

    def _performer(self, in_flight: InFlight) -> Callable[[Any], Any]:
        is_inside = False

        async def perform(effects: Any) -> Any:
            nonlocal is_inside
            if is_inside:
                raise ConfigurationError("step_misplaced")
            answer, is_inside = None, True
            try:
                while True:
                    effect = effects.send(answer)
                    is_run = type(effect) is Run
                    answer = await self._run(effect, in_flight) if is_run else self._do(effect, in_flight)
            except StopIteration as end:
                return end.value
            finally:
                is_inside = False

        return perform

    async def _limited(
        self, own_s: float | None, function: Callable[..., Any], *given: Any
    ) -> tuple[Any, BaseException | None]:
        """What it returns, or raises."""
        limit_s, queue = self._options.handler_timeout_s if own_s is None else own_s, self.queue
        queue._cut_us = None if limit_s is None else queue._now_us + round(limit_s * 1e6)
        try:
            result = function(*given)
            return await result if hasattr(result, "__await__") and self._needs_loop else result, None
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


def _private_server() -> Endpoint:
    try:
        import fakeredis
        import lupa  # type: ignore[import-untyped]  # noqa: F401 - fakeredis says little when it is missing
    except ImportError as error:
        raise ConfigurationError("fakeredis_missing", module=error.name) from error
    return Endpoint.from_client(fakeredis.FakeRedis(server=fakeredis.FakeServer(version=(7,))))


class _Clocked(Wire):
    """Everything that asks for the time gets the queue's."""

    def __init__(self, queue: MemoryQueue, connection: Connection) -> None:
        super().__init__(connection)
        self._queue = queue
        self._asked: list[bool] = []

    def sending(self, commands: list[Words]) -> list[Words]:
        self._asked = [str(words[0]).upper() == "TIME" for words in commands]
        return [at_time(words, self._queue._now_us) for words in commands]

    def received(self, reply: Any) -> Any:
        is_time = self._asked.pop(0) if self._asked else False
        seconds, us = divmod(self._queue._now_us, 10**6)
        return [b"%d" % seconds, b"%d" % us] if is_time and isinstance(reply, list) else reply
