"""Snapshots of a queue: counts, groups, messages, dead letters. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, Literal, TypeVar

from .history import HistoryInfo, MessageInfo, MessageSteps
from .message import Failure, Message, Receipt
from .owner import NoConsumers

T = TypeVar("T")
GroupState = Literal["due", "leased", "waiting", "paused", "parked"]


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Shards that did not answer: a view of the queue leaves them out."""

    shards: tuple[int, ...]
    """Their numbers, from 0."""
    error: str
    """Why the first of them did not."""


@dataclass(frozen=True)  # with slots=True, Page[GroupInfo](...) fails in Python 3.11
class Page(Generic[T]):
    """A page of a list that others change meanwhile."""

    items: list[T]
    after: str | None
    """Where the next page begins: its argument `after`. None where nothing follows."""
    unreachable: Unreachable | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message set aside so that its group could go on, with everything needed to put it back into its place."""

    message: Message
    """As it was: id, group, score, stamp, body, headers."""
    attempts: int
    error: Failure
    died_at: float
    """Seconds since 1970 by the server's clock."""
    letter: str
    """Its name in Redis: stamp, encoded group, newline, id."""
    steps: MessageSteps | None = None  # where some began
    place: str = ""
    """Where it stands in its list: the next list goes on behind it, if given as `after`."""

    @property
    def info(self) -> MessageInfo:
        """As `get` shows it."""
        return MessageInfo.of(self.message, "dead", attempts=self.attempts, error=self.error, steps=self.steps)


@dataclass(frozen=True, slots=True)
class Redriven:
    """What `redrive` did."""

    redriven: int
    pending: int
    """Dead letters left alone because a message with their id is pending again."""
    parked: list[tuple[str, ...]]
    """Groups that got a message back and are parked: `resume` lets them go on, this message first. At most 100."""
    handled: int = 0
    """Dead letters left alone because a message with their id was handled within the queue's `dedup_window`."""
    stayed: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Group and id of those left alone, for any reason. At most 100."""
    changed: int = 0
    """Dead letters left alone because they died again after they were read."""
    asked: int = 0
    """Dead letters left alone because one of their steps waits for an operator's answer."""


@dataclass(frozen=True, slots=True)
class ManySummary:
    """What `resume_many` or `skip_many` did, or would do."""

    chosen: int
    """Groups that matched when they were read."""
    done: int
    """Groups that go on."""
    changed: int
    """Groups left alone because they changed after they were read: they failed again, a consumer has them, or someone
    else let them go on."""
    waiting: int
    """Parked groups that wait for a missing number, until it is appended or `skip` is called. Counted if all groups
    were asked for; never among the chosen."""
    errors: dict[str, int]
    """The chosen groups by type of error, the most frequent first."""
    is_dry_run: bool = False
    """Whether it was a dry run."""
    others: dict[str, int] = field(default_factory=dict)
    """The other groups parked behind a failure, by type of error."""
    asked: int = 0
    """Groups that match but have a step that waits for an operator's answer: left alone, never among the chosen."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The numbers of a sequence that `skip` skipped: first and last."""

    group: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One group as the server has it at one moment."""

    group: tuple[str, ...]
    state: GroupState
    backlog: int
    """How many messages are pending in it."""
    lag_s: float | None
    """Age of its head in seconds since arrival; None when the group ended meanwhile."""
    due_in_s: float | None
    """Seconds until it may be claimed: 0 when due, None when parked."""
    head_id: str | None
    head_score: float | None
    attempts: int
    """Failed attempts of its head."""
    owner: str | None
    token: int | None
    leased_for_s: float | None
    failure: Failure | None
    place: str = ""
    """Where it stands in its list: the next list goes on behind it, if given as `after`."""


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer that has groups in progress."""

    owner: str
    """Its host, process id and mark."""
    groups: int
    """Groups that it has in progress."""
    group: tuple[str, ...]
    """The one that it holds longest."""
    held_s: float
    """For how long it has held that one, in seconds."""
    is_long: bool
    """Whether that is longer than about ten leases: its handler may hang."""


@dataclass(frozen=True, slots=True)
class Consumers:
    """Who consumes a queue."""

    working: list[ConsumerInfo]
    """Those that have a group in progress, the longest held first."""
    connections: int | None
    """How many connections say that they are a consumer's of this queue, idle ones too; a consumer may have two. None
    where the user may not ask (CLIENT LIST)."""


@dataclass(frozen=True, slots=True)
class OutageInfo:
    """An outage that holds a queue back: a shared dependency is down."""

    since: float
    """Time of its first failure, in seconds since 1970 by the server's clock."""
    error: str
    """Class and text of its last failure."""
    next_probe_s: float
    """Seconds until the next probe."""
    probes: int
    """How many probes failed."""
    shards: int
    """How many shards it holds back; the other fields are of the one that began first."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue at one moment.

    Groups by state are exact. Backlog and lag need each group: when there are more than
    `counts.EXACT_GROUPS`, they come from a sample and `is_estimate` is true.
    """

    queue: str
    namespace: str
    shards: int
    backlog: int
    lag_s: float
    """Age in seconds of the oldest head of a group that is neither parked nor paused; 0 without any."""
    groups: int
    due: int
    leased: int
    waiting: int
    parked: int
    paused: int
    """Groups with messages that are paused and not in progress."""
    is_paused: bool
    """Whether the whole queue is paused."""
    dead: int
    """Dead letters."""
    is_estimate: bool
    totals: dict[str, int]
    """Since the queue began: appended, handled, failed, parked, expired, skipped, late, refused, dead, dropped,
    redriven, purged, cancelled, overtaken, outages, swept."""
    append_rate: float | None
    """Messages per second between this snapshot and the previous one; None in the first one."""
    handle_rate: float | None
    outage: OutageInfo | None = None
    no_consumers: NoConsumers | None = None
    """Set if groups have been due for five seconds while none is in progress."""
    history: HistoryInfo | None = None
    """Set if the queue keeps one."""
    unreachable: Unreachable | None = None
    """Set if shards did not answer: all numbers but `shards` are of the others."""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What may need more consumers or an operator: exact, and cheap enough to ask every second."""

    queue: str
    due: int
    """Groups that wait for a consumer; none while the queue is paused, or an outage holds it back."""
    waits_s: float
    """How long the longest waiting of them has been due, in seconds."""
    parked: int
    """Parked groups, including those that are also paused."""
    dead: int
    """Dead letters."""
    is_paused: bool
    has_outage: bool
    """Whether an outage holds it back."""
    unreachable: Unreachable | None = None
    """Set if shards did not answer: all numbers are of the others."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much is in a queue, and who uses it, as far as can be seen: for `delete`."""

    messages: int
    groups: int
    """Groups with messages."""
    dead: int
    leases: int
    """Groups leased by consumers."""
    owners: tuple[str, ...]
    clients: tuple[str, ...] | None
    """Addresses of connected consumers of this queue; None where the user may not ask (CLIENT LIST)."""


def as_json(value: Any) -> Any:
    """Convert a public value, or a list of them, into plain values for JSON. A body stays as it is."""
    if own := getattr(value, "as_json", None):
        return own()
    if isinstance(value, Message | Receipt):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value
