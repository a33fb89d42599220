"""Sequencer: the blocking client. Appends messages, consumes them, and inspects and operates the queue."""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Unpack

from .consume.apart import ApartConsumer
from .consume.around import Work
from .consume.emitter import EventEmitter
from .consume.on_loop import LoopConsumer
from .consume.registered import AnyHandler, Registered, needs_loop
from .consume.slots import SlotConsumer
from .consume.stop import stop_on_signals
from .consume.threads import Consumer
from .doctor.diagnose import diagnose
from .drain.steps.declared import Steps
from .drain.steps.functions import InlineHandler
from .errors import ConfigurationError
from .lease import Lease, LeaseSession
from .net.appender import Appender
from .net.awaited import AwaitedNet
from .net.blocking import BlockingNet, finish
from .net.endpoint import Endpoint, given_endpoint
from .net.faces import Blocking, listing, operation
from .queue import counts, operate, views
from .queue.alerts import incidents
from .queue.append_many import append_many
from .queue.consumers import consumers
from .queue.dead_letters import listed as dead_letters
from .queue.dead_letters import redrive as redriving
from .queue.groups import head, many
from .queue.groups import listed as listed_groups
from .queue.history import known, listed, rerun
from .queue.registry import deletion, index
from .queue.session import QueueGone as QueueGone
from .queue.session import Session
from .server import start_embedded
from .settings.body_fields import BodyFields
from .settings.option import shows
from .settings.options import (
    ClaimLimits,
    ConsumerOptions,
    ConsumerSettings,
    QueueOptions,
    QueueSettings,
    consumer_options,
    given_fields,
    queue_options,
)
from .settings.policy import Policy
from .store.item import Group, Id, Score
from .texts.findings import Finding
from .values.checks import check_name
from .values.durations import Duration
from .values.message import ConsumeSummary, Receipt


class Client(Registered):
    """What both clients have; of the table of operations each gets its methods (`net/faces.py`)."""

    _net: BlockingNet | AwaitedNet

    def _set_up(self, queue: str, namespace: str, settings: QueueSettings) -> None:
        """Behind the making of its net."""
        self.options = queue_options(queue, namespace, settings)
        self._net.limit(self.options)
        self._session = self._net.guide = Session(self.options, self._net)
        super().__init__(self.options.kind_by)
        self._emitter = EventEmitter(queue, observers=self._observers, success_observers=self._success_observers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.options.queue} on {self._net.name}>"

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.options.queue

    @property
    def endpoint(self) -> Endpoint:
        """The queue's server; starts the embedded one if no other was given."""
        return self._net.endpoint

    append_many = operation(append_many)

    info = operation(counts.info)
    snapshot = operation(counts.snapshot)
    group_page = operation(listed_groups.group_page)
    groups = operation(listed_groups.groups)
    parked = listing(listed_groups.parked)
    paused_groups = operation(views.paused_groups)
    peek = operation(views.peek)
    explain = operation(views.explain)
    get = operation(known.get)
    find = operation(known.find)
    history = listing(listed.history)
    steps = operation(known.steps)
    dead_page = operation(dead_letters.dead_page)
    dead = operation(dead_letters.dead)
    count_dead = operation(dead_letters.count_dead)
    consumers = operation(consumers)
    alerts = operation(incidents.alerts)

    resume = operation(head.resume)
    resume_many = operation(many.resume_many)
    skip = operation(head.skip)
    skip_many = operation(many.skip_many)
    unskip = operation(head.unskip)
    cancel = operation(operate.cancel)
    reschedule = operation(operate.reschedule)
    pause = operation(operate.pause)
    unpause = operation(operate.unpause)
    probe_outage = operation(operate.probe_outage)
    redrive = operation(redriving.redrive)
    purge = operation(redriving.purge)
    rerun = operation(rerun.rerun)
    sweep = operation(operate.sweep)
    delete = operation(deletion.delete)
    usage = operation(deletion.usage)


class Sequencer(Client, Blocking):
    """One queue: `append` messages of many groups, `consume` each group in order.

    `redis` is a URL (`redis:// rediss:// unix:// valkey:// redis+sentinel:// redis+cluster://`), a redis-py client, or
    None: then `SEQUENCER_REDIS`, else the embedded server. Nothing connects before the first use. Threads may share it,
    and it survives a fork. Raises ConfigurationError for a wrong option; docs/configuration.md lists them all.

    The queue remembers `group_by`, `id_by` and `score_by` from its first use, and its policy (`dedup_window` to
    `dead_cap`) until a client sets another one; clients that set none use what is there.
    """

    _net: BlockingNet

    @shows(QueueSettings, QueueOptions, Policy)
    def __init__(
        self, queue: str, redis: Any = None, *, namespace: str = "sequencer", **settings: Unpack[QueueSettings]
    ) -> None:
        self._net = BlockingNet(redis, start_embedded)
        self._set_up(queue, namespace, settings)
        self._appender = Appender(self._session, self._net)

    def override(self, settings: QueueSettings) -> None:
        """Let these options, of a command or a file, take precedence over the program's own; before its first use.

        Raises ConfigurationError.
        """
        self.options = replace(self.options, **given_fields(settings, self.options.policy))
        self._net.limit(self.options)
        self._session.options = self.options

    def __enter__(self) -> Sequencer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect now rather than at first use, and check the server and the queue's shards.

        Raises ServerUnavailable, ServerNotUsable, or ConfigurationError when `shards` differs from the server's number.
        """
        finish(self._session.shards(register=True))

    def close(self) -> None:
        """Close the connections. The client can still be used: it connects again. An embedded server keeps running."""
        self._net.close()
        self._emitter.close()

    # -- appending --------------------------------------------------------------------------------------------

    def append(
        self,
        body: Any,
        group: Group | None = None,
        *,
        id: Id | None = None,
        score: Score | None = None,
        headers: Mapping[str, str] | None = None,
        delay: Duration | None = None,
        at: Score | None = None,
        done: Mapping[str, Any] | None = None,
        replace: bool = False,
        backlog: bool = False,
        pipeline: Any = None,
    ) -> Receipt:
        """Add one message to its group and return its id, stamp, and whether it was already there.

        `group`, `id`, `score`: if not given, the fields of the body named by `group_by`, `id_by` and `score_by`. A
        score is a number, an aware datetime or ISO 8601 text; the default is the server's time of arrival, in seconds.
        An id is generated before the first attempt, so that a repeat after a lost connection adds nothing. The same id
        is a duplicate for the queue's `dedup_window`; while the message is pending, other content is an IdConflict.
        `delay` from now, or `at` (seconds since 1970, or an aware datetime), by the server's clock: the message is not
        handled before, and that time is its score unless `score` is given.
        `replace`: replace the message that is pending under the id. `done`: steps that are already done, each with its
        result. `backlog`: the receipt has the number of messages in the group.
        `pipeline`: a redis-py pipeline of the same server, no cluster, whose `execute()` sends the append; a refusal is
        an error reply there (`IDCONFLICT`, `EFFECTS`, `LATE`; `GENERATION`: append again with the same id), and the
        receipt has no stamp and no backlog.

        Raises InvalidMessage with nothing sent, IdConflict, LateMessage where `on_late` is "refuse", QueueFull,
        NotReplicated, OutcomeUnknown when the connection failed after sending, ServerUnavailable when it failed before.
        """
        session, given = self._session, (body, group, id, score, headers, delay, at, done)
        if (is_sequence := session.known_sequence()) is None:  # what breaks a rule is said without a server
            finish(session.check_first(session.items.check, session.items.make, *given))
            is_sequence = finish(session.policy("append")).sequence
        item = session.items.make(*given, is_sequence=is_sequence)
        if pipeline is not None:
            return self._appender.append_to(pipeline, item, replace=replace)
        return self._appender.append(item, replace=replace, backlog=backlog)

    # -- looking ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The queue's policy as the server has it now, after what this client asks for. Raises ServerError."""
        return finish(views.policy(self._session))

    @property
    def fields(self) -> BodyFields:
        """Which fields of a body make group, id and score, as the server remembers them now. Raises ServerError."""
        return finish(self._session.fresh_fields())

    def doctor(self, *, repair: bool = False) -> list[Finding]:
        """Check the server and this queue's invariants; with `repair`, fix what can be fixed from the data.

        Raises ServerUnavailable.
        """
        names = self.options.namespace, self.options.queue
        return diagnose(self.endpoint, *names, repair=repair, for_program=True)

    # -- consuming --------------------------------------------------------------------------------------------

    @shows(ConsumerSettings, ConsumerOptions)
    def consume(
        self,
        handler: AnyHandler | None = None,
        *,
        on_start: Callable[[Consumer], None] | None = None,
        **options: Unpack[ConsumerSettings],
    ) -> ConsumeSummary:
        """Run the handler in this process until stopped, for one message at a time, or for `concurrency` at once, each
        of another group: plain functions in threads, coroutine functions on an event loop of its own.

        A duration is a number of seconds, or text like "5m". `until_empty` ends when only parked or paused groups
        are left, `until_idle` when nothing is due: it does not wait for delayed messages, retries, or groups of other
        consumers. SIGINT or SIGTERM stops after the current messages; a second one releases them
        and stops now (in the main thread; elsewhere `on_start` gets the consumer, whose `stop()` any thread may call).
        `handler_timeout`: a handler that runs longer is interrupted with HandlerTimeout: in the main thread by SIGUSR2,
        which also ends a wait; with `concurrency` a coroutine is cancelled, and in a thread only Python is interrupted.
        Returns why it ended and what it did. Raises HandlerNotFound, ConfigurationError, ServerNotUsable, DataError.
        If the server goes away, it waits for it. Where an event loop runs: await AsyncSequencer.consume.
        """
        if _get_running_loop() is not None:
            raise ConfigurationError("loop_runs")
        consumer = self.consumer(handler, consumer_options(**options))
        if on_start:
            on_start(consumer)
        with stop_on_signals(consumer.stop, consumer.interrupt):
            return consumer.run()

    def consumer(self, handler: AnyHandler | Work | None = None, options: ConsumerOptions | None = None) -> Consumer:
        """A consumer that is not running yet, for a program that runs and stops it itself: `run`, `stop`.

        Raises HandlerNotFound, ConfigurationError, ServerError.
        """
        consumer: Consumer = self._consumer(handler, options or ConsumerOptions(), Consumer)
        return consumer

    def _consumer(self, handler: AnyHandler | Work | None, options: ConsumerOptions, single: Any) -> Any:
        """`single`: the kind that runs one plain function."""
        work = self._work(handler, self.queue)
        self._session.consumes = True
        if isinstance(work, Steps | InlineHandler):
            self._session.will_note_starts()
        shards = finish(self._session.shards("consume"))
        queue, options = self._timed(handler, self.options, options)
        kind = SlotConsumer if (options.concurrency or 1) > 1 else single
        if needs_loop(work):
            kind, options = LoopConsumer, replace(options, concurrency=options.concurrency or 100)
        endpoint = self._net.endpoint
        if kind is Consumer and len(endpoint.of_shards(len(shards))) > 1:
            kind = ApartConsumer
        given = (endpoint, shards, queue, options, self._surrounded(work))
        session = self._session
        consumer = kind(*given, guide=session, emitter=self._emitter, keeps_history=session.keeps_history)
        consumer.lifespans = self._lifespans
        return consumer

    def claim(
        self, *, group: Group | None = None, groups: int = 1, messages: int = 100, lease: Duration = 15.0
    ) -> Lease:
        """Lease up to `groups` due groups for your own loop, or this one `group`; empty (false) when nothing is due.

        Use it as `with seq.claim() as lease: for message in lease: ...; lease.ack(message)`. Renewing is up to you
        (`lease.renew()`), and so is watching the time (`lease.remaining_s`). A `group` that is leased, paused, parked
        or waiting is not claimed; `explain` tells why. Raises ConfigurationError, InvalidGroup, ServerError.
        """
        options = consumer_options(lease=lease, limits=ClaimLimits(groups, messages))
        return Lease(finish(LeaseSession.claim(self._session, options, self._emitter, group)))


def find_server(redis: Any = None) -> Endpoint:
    """The server that `redis` names, as for Sequencer; the embedded one is started. Raises ConfigurationError."""
    return given_endpoint(redis) or start_embedded()


def list_queues(redis: Any = None, namespace: str = "sequencer") -> list[str]:
    """The names of all queues of a namespace on a server, given as for Sequencer. Raises ServerError."""
    check_name("namespace", namespace)
    net = BlockingNet(redis, start_embedded)
    try:
        return finish(index.queue_names(net, namespace))
    finally:
        net.close()


class QueueClients:
    """Clients of the queues that are named, or of all of a namespace, for what looks at all of them.

    Nothing connects before the first call; threads may share it. None of the clients registers again what was deleted:
    it raises QueueGone. Raises ConfigurationError for a wrong name.
    """

    def __init__(self, names: Iterable[str] | None, redis: Any, namespace: str) -> None:
        self.namespace = check_name("namespace", namespace)
        self._fixed = None if names is None else [check_name("queue", name) for name in names]
        self._redis, self._clients = redis, dict[str, Sequencer]()

    @cached_property
    def _server(self) -> Any:
        return find_server(self._redis)

    def stored(self) -> list[str]:
        """The names that the server has. Raises ServerError."""
        return list_queues(self._server, self.namespace)

    def names(self) -> list[str]:
        """Raises ServerError."""
        return self.stored() if self._fixed is None else self._fixed

    @property
    def known(self) -> list[str]:
        """The names that can be given without the server."""
        return [*self._clients] if self._fixed is None else self._fixed

    def client(self, name: str) -> Sequencer:
        """The same for all threads: nothing is lost with the one that came second."""
        if (found := self._clients.get(name)) is None:
            made = Sequencer(name, self._server, namespace=self.namespace)
            made._session.restores = False
            found = self._clients.setdefault(name, made)
        return found

    def forget(self) -> None:
        """Close all connections, as at the end, or where a queue was deleted and perhaps made again."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()
