"""MemoryQueue: a queue for unit tests of what you build on sequencer: no server process, no sleep, time that you set.

    queue = MemoryQueue(seq)                            # your application's: its options, handler and steps
    queue.append({"user_id": 7, "amount": 10}, delay=3600)
    done = queue.drain()                                # an hour passes at once
    assert [message.body["amount"] for message in done.handled] == [10]
    assert not done.failed and not done.parked and not done.dead

It runs our real scripts on a private fakeredis, which is not Redis: no `maxmemory`, no rights, no persistence, no other
clients. No claim that sequencer makes rests on it; test what depends on the server with `EmbeddedServer`. The local end
of a `Lease` counts by the real clock, and a `handler_timeout` what a handler lets pass by `advance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Unpack

from ..client import Sequencer
from ..consume.registered import AnyHandler
from ..consume.threads import Consumer
from ..consume.time_limit import TimeIsUp
from ..errors import ConfigurationError
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
from ..values.checks import seconds_of
from ..values.durations import Duration
from ..values.message import ConsumeSummary, Message
from ..values.views import DeadLetter, GroupInfo
from .memory_run import MemoryRun, StepRun
from .wire import Wire, Words, at_time, wired

BEGAN_S = 1_800_000_000.0
"""What the clock of a new MemoryQueue shows, in seconds since 1970 (2027-01-15): always the same."""
MAX_EFFECTS = 10_000
"""Effects in one `drain`: a queue that is not drained by then never will be, such as one that appends to itself."""


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
    reason: str = field(default="drained")
    steps: list[StepRun] = field(default_factory=list)
    """Each call of a step or of its check, in their order."""

    def __iter__(self) -> Iterator[Message]:
        return iter(self.handled)

    def __len__(self) -> int:
        return len(self.handled)


class MemoryQueue(Sequencer):
    """A Sequencer without a server, in virtual time. Options as for Sequencer; needs the extra `testing`.

    `queue`: a name, or the Sequencer of an application: its queue, options, handler, steps and observers are taken, and
    an option given here takes precedence. What its handler appends through that Sequencer goes to the real server.
    Raises ConfigurationError when fakeredis or lupa are not installed.
    """

    @shows(QueueSettings, QueueOptions, Policy)
    def __init__(
        self, queue: str | Sequencer = "test", *, namespace: str = "sequencer", **settings: Unpack[QueueSettings]
    ) -> None:
        self._now_us = round(BEGAN_S * 1e6)
        self._cut_us: int | None = None
        """When the handler that runs now is interrupted."""
        self._server = _private_server()
        endpoint = wired(self._server, lambda connection: _Clocked(self, connection))
        if not isinstance(queue, Sequencer):
            super().__init__(queue, endpoint, namespace=namespace, **settings)
            return
        own: QueueSettings = {**settings_of(queue.options), **settings}
        super().__init__(queue.queue, endpoint, namespace=queue.options.namespace, **own)
        self._handler, self._steps = queue._handler, queue._steps
        self._observers += queue._observers

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
        options["until_empty"] = not options.get("until_idle")
        run = self._run(handler, consumer_options(**options))
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
            raise ConfigurationError("a MemoryQueue has no consumer for on_start; raise StopConsuming in the handler")
        options["until_empty"] = not options.get("until_idle")
        return self._run(handler, consumer_options(**options)).to_the_end(MAX_EFFECTS)

    def _run(self, handler: AnyHandler | None, options: ConsumerOptions) -> MemoryRun:
        return MemoryRun(self, self._work(handler, self.queue), options)


def _private_server() -> Endpoint:
    try:
        import fakeredis
        import lupa  # type: ignore[import-untyped]  # noqa: F401 - fakeredis says little when it is missing
    except ImportError as error:
        raise ConfigurationError(
            f'MemoryQueue needs fakeredis with Lua ({error.name} is missing): pip install "fakeredis[lua]"'
        ) from error
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
