"""Sequencer: the blocking client. Appends messages, consumes them, and inspects and operates the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Unpack

from .consume.around import Work
from .consume.emitter import EventEmitter
from .consume.forks import owner_name
from .consume.on_loop import LoopConsumer
from .consume.registered import AnyHandler, Registered, needs_loop
from .consume.slots import SlotConsumer
from .consume.stop import stop_on_signals
from .consume.threads import Consumer
from .doctor.diagnose import diagnose
from .drain.steps.declared import Steps
from .drain.steps.functions import InlineHandler
from .lease import Lease
from .net.appender import Appender
from .net.blocking import BlockingNet, blocking, blocking_list, finish
from .net.endpoint import Endpoint, given_endpoint
from .queue import audit as auditing
from .queue import counts, operate, views
from .queue.alerts import incidents
from .queue.append_many import append_many
from .queue.dead_letters import listed as dead_letters
from .queue.dead_letters import redrive as redriving
from .queue.groups import head, many, parked
from .queue.history import known, listed, rerun
from .queue.registry import deletion, index
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
from .store.group import encode_group, shard_of
from .store.item import Group, Id, Score
from .texts.findings import Finding
from .values.checks import check_name
from .values.durations import Duration
from .values.message import ConsumeSummary, Receipt


class Sequencer(Registered):
    """One queue: `append` messages of many groups, `consume` each group in order.

    `redis` is a URL (`redis:// rediss:// unix:// valkey://`), a redis-py client, or None: then `SEQUENCER_REDIS`, else
    the embedded server. Nothing connects before the first use. Threads may share it, and it survives a fork. Raises
    ConfigurationError for a wrong option; docs/configuration.md lists them all.

    The queue remembers `group_by`, `id_by` and `score_by` from its first use, and its policy (`dedup_window` to
    `dead_cap`) until a client sets another one; clients that set none use what is there.
    """

    @shows(QueueSettings, QueueOptions, Policy)
    def __init__(
        self, queue: str, redis: Any = None, *, namespace: str = "sequencer", **settings: Unpack[QueueSettings]
    ) -> None:
        self.options = queue_options(queue, namespace, settings)
        self._net = BlockingNet(redis, start_embedded)
        self._net.check_reply_time(self.options)
        self._session = Session(self.options, self._net)
        self._net.guide = self._session
        self._appender = Appender(self._session, self._net)
        Registered.__init__(self, self.options.kind_by)
        self._emitter = EventEmitter(queue, observers=self._observers, success_observers=self._success_observers)

    def override(self, settings: QueueSettings) -> None:
        """Let these options, of a command or a file, take precedence over the program's own; before its first use.

        Raises ConfigurationError.
        """
        self.options = replace(self.options, **given_fields(settings, self.options.policy))
        self._net.check_reply_time(self.options)
        self._session.options = self.options

    def __repr__(self) -> str:
        return f"<Sequencer {self.options.queue} on {self._net.name}>"

    def __enter__(self) -> Sequencer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.options.queue

    @property
    def endpoint(self) -> Endpoint:
        """The queue's server; starts the embedded one if no other was given."""
        return self._net.endpoint

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
        `pipeline`: a redis-py pipeline of the same server, whose `execute()` sends the append; a refusal is an
        error reply there (`IDCONFLICT`, `EFFECTS`, `LATE`; `GENERATION`: append again with the same id), and the
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

    append_many = blocking(append_many)

    # -- looking ----------------------------------------------------------------------------------------------

    info = blocking(counts.info)
    snapshot = blocking(counts.snapshot)
    groups = blocking(views.groups)
    parked = blocking_list(parked.parked)
    paused_groups = blocking(views.paused_groups)
    peek = blocking(views.peek)
    explain = blocking(views.explain)
    get = blocking(known.get)
    find = blocking(known.find)
    history = blocking_list(listed.history)
    steps = blocking(known.steps)
    dead = blocking(dead_letters.dead)
    count_dead = blocking(dead_letters.count_dead)
    alerts = blocking(incidents.alerts)
    audit = blocking(auditing.audit)

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

    # -- operating --------------------------------------------------------------------------------------------

    resume = blocking(head.resume)
    resume_many = blocking(many.resume_many)
    skip = blocking(head.skip)
    skip_many = blocking(many.skip_many)
    unskip = blocking(head.unskip)
    cancel = blocking(operate.cancel)
    reschedule = blocking(operate.reschedule)
    pause = blocking(operate.pause)
    unpause = blocking(operate.unpause)
    probe_outage = blocking(operate.probe_outage)
    redrive = blocking(redriving.redrive)
    purge = blocking(redriving.purge)
    rerun = blocking(rerun.rerun)
    sweep = blocking(operate.sweep)

    delete = blocking(deletion.delete)
    usage = blocking(deletion.usage)

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
        `audit` records each handled message in a stream of about `audit_length` entries a shard (see `audit`).
        Returns why it ended and what it did. Raises HandlerNotFound, ConfigurationError, ServerNotUsable, DataError.
        If the server goes away, it waits for it.
        """
        consumer = self.consumer(handler, consumer_options(**options))
        if on_start:
            on_start(consumer)
        with stop_on_signals(consumer.stop, consumer.interrupt):
            return consumer.run()

    def consumer(self, handler: AnyHandler | Work | None = None, options: ConsumerOptions | None = None) -> Consumer:
        """A consumer that is not running yet, for a program that runs and stops it itself: `run`, `stop`.

        Raises HandlerNotFound, ConfigurationError, ServerError.
        """
        work = self._work(handler, self.queue)
        self._session.consumes = True
        if isinstance(work, Steps | InlineHandler):
            self._session.will_note_starts()
        shards = finish(self._session.shards("consume"))
        options = options or ConsumerOptions()
        kind: Any = SlotConsumer if (options.concurrency or 1) > 1 else Consumer
        if needs_loop(work):
            kind, options = LoopConsumer, replace(options, concurrency=options.concurrency or 100)
        given = (self._net.endpoint, shards, self.options, options, self._surrounded(work))
        consumer: Consumer = kind(
            *given, guide=self._net.guide, emitter=self._emitter, keeps_history=self._session.keeps_history
        )
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
        only = "" if group is None else encode_group(group)
        shards = finish(self._session.shards("consume"))
        if only:
            shards = [shards[shard_of(only, len(shards))]]
        given = (self._net.connect(), shards, self.options, options, owner_name(), self._emitter)
        return Lease.claim(*given, keeps_history=bool(self._session.keeps_history()), only=only)


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
