"""Options of a queue and of a consumer, checked when they are made. Durations are kept in seconds.

A new option of a queue is a key of QueueSettings and a field of QueueOptions, with its default. A policy is a field of
Policy as well, and of `policy.FIELDS`. A WorkerConfig hands on what it is given. CONTRIBUTING.md says
which lines the command line and the documents need, and what an option of a consumer needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import combinations
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

from ..errors import ConfigurationError, shown
from ..values.checks import check_choice, check_integer, check_name, nearest, seconds_of
from ..values.durations import Duration
from .backoff import Backoff
from .error_names import error_names
from .policy import NAMES, OnGap, OnLate, Policy

MAX_SHARDS = 1024
LEASE_S = 15.0
"""How long a lease lasts unless a consumer says so itself."""
AUDIT_LENGTH = 100_000
"""Handled messages that the audit stream of a shard keeps, about: 10 to 20 MB."""
MAX_WAIT_S = 4.0
"""Below the time that a reply may take (SOCKET_TIMEOUT_S)."""
Replicas = tuple[int, int] | None
"""For how many replicas a write waits, and how many milliseconds."""
OnFailure = Literal["park", "dead_letter", "drop"]
OnUnresolved = Literal["park", "dead_letter"]
OUTAGE = ("ConnectionError", "TimeoutError")
"""What is an outage unless a queue's options say otherwise: Python's own, with their subclasses."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class QueueSettings(TypedDict, total=False):
    """The options that a Sequencer takes by name, as callers write them; what they mean and their defaults: see
    QueueOptions, where `backoff`, `backoff_cap` and `wait_timeout` have `_s` behind their names.
    """

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
    dedup_window: Duration | None
    dedup_cap: int | None
    on_late: OnLate | None
    watermark_window: Duration | None
    watermark_cap: int | None
    reorder_window: Duration | None
    sequence: bool | None
    gap_timeout: Duration | None
    on_gap: OnGap | None
    history_window: Duration | None
    history_cap: int | None
    history_bodies: bool | None
    dead_window: Duration | None
    dead_cap: int | None
    wait_replicas: int
    wait_timeout: Duration
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
    group_by: tuple[str, ...] | None = None
    """Names of body fields that make the group when `append` gets none."""
    id_by: str | None = None
    score_by: str | None = None
    shards: int | None = None
    """Shards of the queue, kept in the server at first use; None takes what is there, else 1."""
    max_attempts: int = 5
    """Attempts of one message, the first included, before `on_failure` says what becomes of it."""
    backoff_s: float = 0.5
    backoff_cap_s: float = 60.0
    max_body_bytes: int = 1024 * 1024
    """Largest body and headers together, as JSON."""
    on_failure: OnFailure = "park"
    """After the last attempt: park the group behind the message, or set it aside or drop it, and let the group go
    on.
    """
    park_on: tuple[str, ...] = ()
    """Names of exceptions that park the group at once; `ValueError` or `shop.errors.NoStock`, and their subclasses."""
    dead_letter_on: tuple[str, ...] = ()
    """Names of exceptions that make the message a dead letter at once."""
    outage: tuple[str, ...] | None = None
    """Names of exceptions that say that something all handlers need is not there: they cost no attempt, and hold the
    queue back. None: ConnectionError and TimeoutError, but for those that `park_on` or `dead_letter_on` names.
    """
    dedup_window: float | None = None
    """From here to `dead_cap`: see Policy. None takes what the queue has."""
    dedup_cap: int | None = None
    on_late: OnLate | None = None
    watermark_window: float | None = None
    watermark_cap: int | None = None
    reorder_window: float | None = None
    sequence: bool | None = None
    gap_timeout: float | None = None
    on_gap: OnGap | None = None
    history_window: float | None = None
    history_cap: int | None = None
    history_bodies: bool | None = None
    dead_window: float | None = None
    dead_cap: int | None = None
    wait_replicas: int = 0
    """How many replicas must confirm an append, and the start of a `once` step, before it counts as done; 0: none."""
    wait_timeout_s: float = 1.0
    kind_by: str | None = None
    """Name of the body field that says which steps a message has; `order.code` is a field of a field."""
    on_unknown: OnFailure = "park"
    """What becomes of a message of a kind that has no steps, after `missing_wait`."""
    on_unresolved: OnUnresolved = "park"
    """What becomes of a message with a `once` step whose end nobody knows."""
    retired: tuple[str, ...] = ()
    """Names of steps that were removed on purpose: messages that began with them go on without."""
    missing_wait_s: float = 600.0
    """How long a message waits for a version of the program that has its kind, or a step that is not done."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_name("namespace", self.namespace)
        are_names = isinstance(self.group_by, tuple) and all(isinstance(f, str) and f for f in self.group_by)
        if self.group_by is not None and not (are_names and self.group_by):
            raise ConfigurationError(
                f"group_by={shown(self.group_by)} must be a sequence of field names, "
                "for example ('user_id', 'order_id')"
            )
        for name in ("id_by", "score_by", "kind_by"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigurationError(f"{name}={shown(value)} must be the name of a body field")
        if self.shards is not None:
            check_integer("shards", self.shards, 1, MAX_SHARDS)
        check_integer("max_attempts", self.max_attempts, 1, 9999)
        seconds_of("backoff", self.backoff_s, 0, 86_400)
        seconds_of("backoff_cap", self.backoff_cap_s, self.backoff_s, 7 * 86_400)
        check_integer("max_body_bytes", self.max_body_bytes, 1, 512 * 1024 * 1024)
        check_integer("wait_replicas", self.wait_replicas, 0, 100)
        seconds_of("wait_timeout", self.wait_timeout_s, 0.001, MAX_WAIT_S)
        for option, choices in (("on_failure", OnFailure), ("on_unknown", OnFailure), ("on_unresolved", OnUnresolved)):
            check_choice(option, getattr(self, option), get_args(choices))
        seconds_of("missing_wait", self.missing_wait_s, 0, 30 * 86_400)
        if not isinstance(self.retired, tuple) or not all(isinstance(name, str) and name for name in self.retired):
            raise ConfigurationError(f"retired={shown(self.retired)} must be a sequence of names of steps")
        for option in ("park_on", "dead_letter_on", "outage"):
            names = () if option == "outage" and self.outage is None else getattr(self, option)
            if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
                raise ConfigurationError(f"{option}={shown(names)} must be a tuple of the names of exception classes")
        for one, other in combinations(("park_on", "dead_letter_on", "outage"), 2):
            for name in set(getattr(self, one)) & set(getattr(self, other) or ()):
                raise ConfigurationError(f"{name} stands in {one} and in {other}; leave it in one of them")
        if self.asked:
            Policy(**{"watermark_window": 1.0, "history_window": 1.0, **self.asked})

    @property
    def wait(self) -> Replicas:
        """What a write waits for that is to outlive a failover."""
        return (self.wait_replicas, round(self.wait_timeout_s * 1000)) if self.wait_replicas else None

    @property
    def asked(self) -> dict[str, Any]:
        """The policies that were named."""
        return {name: value for name in NAMES if (value := getattr(self, name)) is not None}

    @property
    def outage_names(self) -> tuple[str, ...]:
        """Names of the exceptions that are an outage."""
        if self.outage is not None:
            return self.outage
        return tuple(name for name in OUTAGE if name not in (*self.park_on, *self.dead_letter_on))

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.backoff_s, self.backoff_cap_s)


def queue_options(queue: str, namespace: str, settings: Mapping[str, Any]) -> QueueOptions:
    """The options of a queue from what a caller named. Raises ConfigurationError, also for an unknown name."""
    for name in settings:
        if name not in FIELD_OF:
            raise ConfigurationError(f"a Sequencer has no option {shown(name)}; {nearest(name, FIELD_OF)}")
    values = {FIELD_OF[name]: _READ[name](value) if name in _READ else value for name, value in settings.items()}
    return QueueOptions(queue=queue, namespace=namespace, **values)


def shows_settings(function: FunctionT) -> FunctionT:
    """Make the signature of a function with `**settings` show each of them with its default, as `help()` prints it."""
    plain = inspect.signature(function)
    taken = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
    texts = {name: getattr(hint, "__forward_arg__", hint) for name, hint in QueueSettings.__annotations__.items()}
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=texts[name])
        for name, default in DEFAULTS.items()
    ]
    function.__signature__ = plain.replace(parameters=[*taken, *named])  # type: ignore[attr-defined]  # any has one
    return function


def _seconds(name: str, duration: Any) -> float | None:
    return None if duration is None else seconds_of(name, duration)


def _names(names: Sequence[str] | None) -> Any:
    """As a tuple; a plain string stays one, so that QueueOptions can refuse it with its reason."""
    return tuple(names) if isinstance(names, Sequence) and not isinstance(names, str) else names


_READ: Mapping[str, Callable[[Any], Any]] = {
    **{name: partial(_seconds, name) for name, kind in QueueSettings.__annotations__.items() if "Dur" in str(kind)},
    "group_by": lambda names: (names,) if isinstance(names, str) else _names(names),
    "retired": _names,
    "park_on": lambda errors: error_names("park_on", errors),
    "dead_letter_on": lambda errors: error_names("dead_letter_on", errors),
    "outage": lambda errors: None if errors is None else error_names("outage", errors),
}
"""What makes an option of what a caller wrote, where that is not the same."""
_GIVEN = [one for one in fields(QueueOptions) if one.name not in ("queue", "namespace")]
FIELD_OF = {one.name.removesuffix("_s"): one.name for one in _GIVEN}
"""Name of a setting -> its field of QueueOptions."""


def settings_of(options: QueueOptions) -> QueueSettings:
    """What `queue_options` made them of."""
    return cast(QueueSettings, {name: getattr(options, field) for name, field in FIELD_OF.items()})


DEFAULTS = cast(QueueSettings, {one.name.removesuffix("_s"): one.default for one in _GIVEN})


SIZE_BESIDE = 40
"""Bytes that a message counts for beside its record: id, stamp and frame of a claim's answer."""


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """The most that one claim takes: groups, messages, and bytes, 40 and its record for each message (one message
    always fits).

    By default so much as costs the server 1 to 3 ms, in which it does nothing else; more gains nothing.
    """

    groups: int = 100
    messages: int = 500
    bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        check_integer("groups", self.groups, 1, 1000)
        check_integer("messages", self.messages, 1, 1000)
        check_integer("bytes", self.bytes, 1, 2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How one consumer works. Raises ConfigurationError for a value out of range."""

    lease_s: float = LEASE_S
    """A consumer that dies delays its groups by this long; renewed at a third of it while a handler runs."""
    until_empty: bool = False
    """End when nothing is left but parked or paused groups."""
    until_idle: bool = False
    """End when nothing is due: without waiting for delayed messages, retries, or groups that other consumers hold."""
    max_messages: int | None = None
    """End, to be replaced, after this many messages."""
    max_age_s: float | None = None
    handler_timeout_s: float | None = None
    """How long one handler may run before it is interrupted; None: as long as it likes. Of one consumer, as the lease
    is: what it takes to handle a message depends on where that is done.
    """
    audit: bool = False
    """Record each handled message in the shard's audit stream."""
    audit_length: int = AUDIT_LENGTH
    limits: ClaimLimits = field(default_factory=ClaimLimits)

    def __post_init__(self) -> None:
        if self.until_empty and self.until_idle:
            raise ConfigurationError("give until_empty or until_idle, not both")
        for name, low, high in (
            ("lease", 0.1, 86_400.0),
            ("max_age", 0.1, 366 * 86_400.0),
            ("handler_timeout", 0.001, 86_400.0),
        ):
            if (given := getattr(self, f"{name}_s")) is not None or name == "lease":
                object.__setattr__(self, f"{name}_s", seconds_of(name, given, low, high))
        if self.max_messages is not None:
            check_integer("max_messages", self.max_messages, 1, 2**53)
        check_integer("audit_length", self.audit_length, 1, 10**9)


def consumer_options(
    *,
    lease: Duration = LEASE_S,
    max_age: Duration | None = None,
    handler_timeout: Duration | None = None,
    limits: ClaimLimits | None = None,
    **others: Any,
) -> ConsumerOptions:
    """The options of a consumer from what a caller gave. Raises ConfigurationError."""
    durations: Any = {"lease_s": lease, "max_age_s": max_age, "handler_timeout_s": handler_timeout}
    return ConsumerOptions(limits=limits or ClaimLimits(), **durations, **others)
