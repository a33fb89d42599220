"""The options of a queue, of a consumer and of the service, each declared once; how: see `option.py`.

A new one is a field here, or in `policy.py`; with a keyword argument also a line of the TypedDict above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, cast

from ..errors import ConfigurationError
from ..values.checks import check_integer, check_name
from ..values.durations import Duration
from .backoff import Backoff
from .body_fields import BodyFields
from .error_names import check_listed_once
from .option import (
    ADDRESS,
    ERRORS,
    FLAG,
    KEEP,
    NAME,
    TEXTS,
    Takers,
    check_known,
    choice,
    declared,
    fields_of,
    instance,
    names,
    option,
    read_options,
    seconds,
    text,
    whole,
)
from .policy import DAY_S, Policy, PolicySettings

MAX_SHARDS = 1024
MAX_WAIT_S = 4.0
"""Below the time that a call may take (CALL_TIMEOUT_S)."""
MAX_PROCESSES = 1024
MAX_PARTS = 64
"""Of an outbox."""
Replicas = tuple[int, int] | None
"""For how many replicas a write waits, and how many milliseconds."""
OnFailure = Literal["park", "dead_letter", "drop"]
OnUnresolved = Literal["park", "dead_letter"]
OUTAGE = ("ConnectionError", "TimeoutError")
"""What is an outage unless a queue's options say otherwise: Python's own, with their subclasses."""
MAX_CLAIMED = 1000
"""Messages that one claim takes at most."""
SIZE_BESIDE = 40
"""Bytes that a message counts for beside its record: id, stamp and frame of a claim's answer."""


APPEND: Takers = ("append",)
CONSUME: Takers = ("consume",)
FILE: Takers = ("run",)
CONSUMERS, EVERYWHERE = CONSUME + FILE, APPEND + CONSUME + FILE


class QueueSettings(PolicySettings, total=False):
    """The keyword arguments of a Sequencer, as callers write them."""

    group_by: Sequence[str] | str | None
    id_by: str | None
    score_by: str | None
    shards: int | None
    max_attempts: int
    backoff: Duration
    backoff_cap: Duration
    max_body_bytes: int
    on_failure: OnFailure
    park_on: Sequence[type[BaseException] | str]
    dead_letter_on: Sequence[type[BaseException] | str]
    outage: Sequence[type[BaseException] | str] | None
    wait_replicas: int
    wait_timeout: Duration
    call_timeout: Duration | None
    kind_by: str | None
    on_unknown: OnFailure
    on_unresolved: OnUnresolved
    retired: Sequence[str]
    missing_wait: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """What a client knows about its queue. Raises ConfigurationError for a value out of range."""

    queue: str
    namespace: str = "sequencer"
    group_by: tuple[str, ...] | None = option(
        names("field names, for example ('user_id', 'order_id')", may_be_one=True),
        None,
        "Body fields that make up the group: user_id,order_id. user.id names a nested field.",
        APPEND,
    )
    id_by: str | None = option(text("the name of a body field"), None, "Body field that is the id.", APPEND)
    score_by: str | None = option(text("the name of a body field"), None, "Body field that is the score.", APPEND)
    shards: int | None = option(
        whole(1, MAX_SHARDS),
        None,
        "Number of shards, fixed at first use. Without it, the queue's own, else 1; 16 in a cluster.",
        APPEND,
    )
    max_attempts: int = option(
        whole(1, 9999), 5, "Attempts per message, including the first, before `on_failure` applies.", CONSUMERS
    )
    backoff_s: float = option(
        seconds(0, DAY_S), 0.5, "Delay before the first retry; it doubles with each further one.", CONSUMERS
    )
    backoff_cap_s: float = option(
        seconds(0, 7 * DAY_S), 60.0, "Longest delay before a retry; `backoff`, if that is longer.", CONSUMERS
    )
    max_body_bytes: int = option(
        whole(1, 512 * 1024 * 1024),
        1024 * 1024,
        "Largest size of body and headers together, as JSON, in bytes.",
        APPEND,
    )
    on_failure: OnFailure = option(
        choice(OnFailure),
        "park",
        "After the last attempt: park the group; or make the message a dead letter, or drop it, and the group goes on.",
        CONSUMERS,
    )
    park_on: tuple[str, ...] = option(
        ERRORS,
        (),
        "Exceptions that park the group at once, including subclasses: OutOfStock,shop.errors.Closed.",
        CONSUMERS,
    )
    dead_letter_on: tuple[str, ...] = option(
        ERRORS, (), "Exceptions that make the message a dead letter at once.", CONSUMERS
    )
    outage: tuple[str, ...] | None = option(
        ERRORS,
        None,
        "Exceptions that mean a shared dependency is down: no attempt is counted, and the queue waits until it works "
        "again. Default: ConnectionError,TimeoutError, unless `park_on` or `dead_letter_on` names them.",
        CONSUMERS,
    )
    wait_replicas: int = option(
        whole(0, 100),
        0,
        "How many replicas must confirm an append, and the start of a `once` step, before it counts as done.",
        EVERYWHERE,
    )
    wait_timeout_s: float = option(seconds(0.001, MAX_WAIT_S), 1.0, "How long to wait for `wait_replicas`.", EVERYWHERE)
    call_timeout_s: float | None = option(
        seconds(0.01, DAY_S),
        None,
        "Time limit of one call to the server, including retries. Default: `socket_timeout` of the URL, else 5 s.",
        EVERYWHERE,
    )
    kind_by: str | None = option(
        text("the name of a body field"), None, "Body field that decides which steps a message has."
    )
    on_unknown: OnFailure = option(
        choice(OnFailure), "park", "What happens to a message whose kind has no steps, after `missing_wait`.", CONSUMERS
    )
    on_unresolved: OnUnresolved = option(
        choice(OnUnresolved), "park", "What happens to a message with a `once` step of unknown outcome.", CONSUMERS
    )
    retired: tuple[str, ...] = option(
        names("names of steps"),
        (),
        "Steps removed on purpose: messages that still have them go on without them.",
        CONSUMERS,
    )
    missing_wait_s: float = option(
        seconds(0, 30 * DAY_S),
        600.0,
        "How long a message waits for a version of the program that has its kind or its open step.",
        CONSUMERS,
    )
    policy: Mapping[str, Any] = field(default_factory=dict)
    """The policies that were given, by the names of Policy's fields; the others come from the server."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_name("namespace", self.namespace)
        read_options(self)
        lists = "park_on", "dead_letter_on", "outage"
        check_listed_once({name: getattr(self, name) or () for name in lists})
        if self.policy:
            Policy(**{"watermark_window": 1.0, "history_window": 1.0, **self.policy})

    @property
    def fields(self) -> BodyFields:
        """Those that were named; the queue may remember others."""
        return BodyFields(self.group_by, self.id_by, self.score_by)

    @property
    def wait(self) -> Replicas:
        """What a write waits for that is to outlive a failover."""
        return (self.wait_replicas, round(self.wait_timeout_s * 1000)) if self.wait_replicas else None

    @property
    def outage_names(self) -> tuple[str, ...]:
        """Names of the exceptions that are an outage."""
        if self.outage is not None:
            return self.outage
        return tuple(name for name in OUTAGE if name not in (*self.park_on, *self.dead_letter_on))

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.backoff_s, max(self.backoff_s, self.backoff_cap_s))


def given_fields(settings: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of QueueOptions that a caller named; its policies join those `before`. Raises ConfigurationError."""
    check_known("Sequencer", settings, declared(QueueOptions, Policy))
    policies = declared(Policy)
    named = {
        name: policies[name].kind.read(name, settings[name]) for name in policies if settings.get(name) is not None
    }
    return {**fields_of(QueueOptions, settings), "policy": {**(before or {}), **named}}


def queue_options(queue: str, namespace: str, settings: Mapping[str, Any]) -> QueueOptions:
    """The options of a queue from what a caller named. Raises ConfigurationError, also for an unknown name."""
    return QueueOptions(queue=queue, namespace=namespace, **given_fields(settings))


def settings_of(options: QueueOptions) -> QueueSettings:
    """What `queue_options` made them of."""
    own = {name: getattr(options, one.field) for name, one in declared(QueueOptions).items()}
    return cast(QueueSettings, {**own, **options.policy})


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """The most that one claim takes: groups, messages, and bytes (each message counts its record and 40 bytes; one
    message always fits).

    By default, a claim keeps the server busy for 1 to 3 ms; more gains nothing.
    """

    groups: int = 100
    messages: int = 500
    bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        check_integer("groups", self.groups, 1, 1000)
        check_integer("messages", self.messages, 1, MAX_CLAIMED)
        check_integer("bytes", self.bytes, 1, 2**31)


class ConsumerSettings(TypedDict, total=False):
    """The keyword arguments of `consume`, as callers write them."""

    lease: Duration
    until_empty: bool
    until_idle: bool
    max_messages: int | None
    max_age: Duration | None
    handler_timeout: Duration | None
    concurrency: int | None
    limits: ClaimLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How one consumer works. Raises ConfigurationError for a value out of range."""

    lease_s: float = option(
        seconds(0.1, DAY_S),
        15.0,
        "How long the groups of a dead consumer wait; renewed after each third of it while a handler runs.",
        CONSUMERS,
        has_variable=True,
    )
    until_empty: bool = option(FLAG, False, "End when only parked or paused groups are left.", CONSUME)
    until_idle: bool = option(
        FLAG,
        False,
        "End when nothing is due, even if delayed messages, retries or groups of other consumers are left.",
        CONSUME,
    )
    max_messages: int | None = option(whole(1, 2**53), None, "Replace a consumer after this many messages.", CONSUMERS)
    max_age_s: float | None = option(seconds(0.1, 366 * DAY_S), None, "Replace a consumer after this time.", CONSUMERS)
    handler_timeout_s: float | None = option(
        seconds(0.001, DAY_S),
        None,
        "Time limit of a handler or command; one that exceeds it is interrupted, and the attempt fails.",
        CONSUMERS,
    )
    concurrency: int | None = option(
        whole(1, 1000),
        None,
        "Handlers that run at once in one process, each of another group; 1, and 100 for coroutines.",
        CONSUMERS,
    )
    limits: ClaimLimits = option(instance(ClaimLimits), ClaimLimits(), "The most that one claim takes.")

    def __post_init__(self) -> None:
        read_options(self)
        if self.until_empty and self.until_idle:
            raise ConfigurationError("not_both", one="until_empty", other="until_idle")


def consumer_options(**settings: Unpack[ConsumerSettings]) -> ConsumerOptions:
    """The options of a consumer from what a caller named. Raises ConfigurationError, also for an unknown name."""
    check_known("consume", settings, declared(ConsumerOptions))
    return ConsumerOptions(**fields_of(ConsumerOptions, settings))


def timing(what: str, timeout: Duration | None, backoff: Duration | None) -> tuple[float | None, float | None]:
    """The time limit and the backoff of one handler or step, in seconds, within the bounds of `handler_timeout` and
    `backoff`. `what`: its name. Raises ConfigurationError.
    """
    limit, first = declared(ConsumerOptions)["handler_timeout"].kind, declared(QueueOptions)["backoff"].kind
    timeout_s = None if timeout is None else limit.read(f"{what}.timeout", timeout)
    return timeout_s, None if backoff is None else first.read(f"{what}.backoff", backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions(ConsumerOptions):
    """How a service runs its consumers, and what they run; without `app` and `exec` they print each message."""

    app: str | None = option(
        text("module:attribute"),
        None,
        "module:attribute of a Sequencer with a handler, or of a function.",
        CONSUMERS,
        has_variable=True,
    )
    exec: str | None = option(
        text("a command"), None, "Shell command to run for each message, which is JSON on its stdin.", CONSUMERS
    )
    pass_redis: bool = option(
        FLAG, False, "Pass the server's URL to the commands of `exec`, in SEQUENCER_REDIS.", CONSUMERS
    )
    grace_s: float | None = option(
        seconds(),
        None,
        "Time from a stop signal until handlers are interrupted; without it, a second signal does that.",
        CONSUMERS,
    )
    start_timeout_s: float = option(
        seconds(0.1, 366 * DAY_S),
        60.0,
        "Time limit for importing `app`; after that, the consumer is killed.",
        CONSUMERS,
    )

    def __post_init__(self) -> None:
        ConsumerOptions.__post_init__(self)
        if self.app and self.exec:
            raise ConfigurationError("not_both", one="app", other="exec")
        if self.pass_redis and not self.exec:
            raise ConfigurationError("option_needed", name="pass_redis", needed="exec")
        if (self.concurrency or 1) > 1 and not self.app:
            raise ConfigurationError("option_needed", name="concurrency", needed="app")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How `sequencer run` keeps the consumers of one queue."""

    n: int = option(whole(0, MAX_PROCESSES), 1, "Number of consumers. 0: none until something is due.", FILE)
    max: int | None = option(
        whole(1, MAX_PROCESSES), None, "Maximum number of consumers while groups wait. Default: `n`.", FILE
    )
    wait_s: float = option(
        seconds(0.001), 1.0, "Start more consumers, up to `max`, once a due group has waited this long.", FILE
    )
    hang_after_s: float | None = option(
        seconds(0.1),
        None,
        "A consumer this much older than `max_age` is stopped: its message fails with HandlerTimeout.",
        FILE,
    )
    check: str | None = option(
        text("module:function"), None, "module:function that inspects the queue and returns what is wrong.", FILE
    )
    env: Mapping[str, str | None] | None = option(
        TEXTS, None, "Environment variables of its consumers; env:NAME copies one.", FILE
    )
    cwd: str = option(text("a directory"), ".", "Working directory of its consumers, relative to the file.", FILE)

    def __post_init__(self) -> None:
        read_options(self)
        if self.max is not None and self.max < self.n:
            raise ConfigurationError("max_below_n", max=self.max, n=self.n)

    @property
    def most(self) -> int:
        """How many there may be while groups wait."""
        return max(self.n, 1) if self.max is None else self.max


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxOptions:
    """How the outbox of a queue is relayed."""

    db: str = option(
        text("the URL of a database", is_secret=True),
        "",
        "postgresql://user@host/db, mysql://user@host/db or sqlite:///file.",
        FILE,
    )
    parts: int = option(whole(1, MAX_PARTS), 1, "Number of parts, as of the Outbox.", FILE)
    keep: Duration | Literal["until_done"] = option(
        KEEP, 600.0, "How long sent rows stay, should the server lose data; until_done: until the inbox has them.", FILE
    )
    prefix: str = option(text(), "sequencer_", "Prefix of the tables' names.", FILE)

    def __post_init__(self) -> None:
        read_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What `consume` and `run` serve for programs that watch them."""

    http: str | None = option(
        ADDRESS, None, "Serve /metrics, /live and /ready at this address, as 127.0.0.1:9464.", CONSUMERS
    )

    def __post_init__(self) -> None:
        read_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(HttpOptions):
    """What the file of `sequencer run` sets for all queues."""

    redis: str | None = option(
        text("the URL of a server", is_secret=True), None, "Server URL; with a password, as env:NAME.", FILE
    )
    namespace: str = option(NAME, "sequencer", "Prefix of all keys.", FILE)
    environment: str = option(text(), "", 'Name of this deployment, shown in alerts: "production".', FILE)
    check_every_s: float = option(seconds(0.1), 2.0, "How often queues are checked.", FILE)
    run_for_s: float = option(seconds(), 0.0, "The master stops after this time. 0: never.", FILE)
    max_processes: int = option(
        whole(1, MAX_PROCESSES), 64, "Maximum number of consumers of all queues together, on this host.", FILE
    )

    def __post_init__(self) -> None:
        read_options(self)
