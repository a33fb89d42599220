"""The values that cross the public interface. They hold data and decide nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

GroupState = Literal["due", "leased", "waiting", "paused", "parked"]
MessageState = Literal["due", "behind", "leased", "delayed", "waiting", "paused", "parked", "dead", "handled"]
Fate = Literal["stored", "duplicate", "dropped", "dead_letter"]


class Message(NamedTuple):
    """One message, as a handler gets it.

    A named tuple, not a frozen dataclass: making one takes 0.3 us against 1.3 us, and a busy consumer makes
    hundreds of thousands a second.
    """

    id: str
    group: tuple[str, ...]
    """The ordering unit's parts, as text: `1002` was appended as 1002 or "1002"."""
    score: float
    """What orders the group: the producer's number, else seconds since 1970 at arrival."""
    body: Any
    headers: dict[str, str]
    attempt: int
    """1 for the first try. Failures and consumers that died while they held the head count."""
    token: int
    """The fencing token of the lease: greater for every later lease of the lane; 0 when only looked at."""
    appended_at: float
    """Seconds since 1970 by the server's clock."""
    queue: str
    stamp: int
    """The tick of the lane's clock, in us, that breaks ties of the score."""
    late: bool = False
    """Whether a message with a higher score was handled in its group before it."""
    redriven: bool = False
    """Whether it was a dead letter and was put back."""


class Receipt(NamedTuple):
    """What `append` says: the id, the stamp (lane clock, us), and whether the message was there already.

    `stamp`, `duplicate` and `outcome` are None when the append was put on a caller's pipeline and so is not sent yet;
    `stamp` also for a duplicate of a message that was handled.
    """

    id: str
    stamp: int | None
    duplicate: bool | None
    outcome: Fate | None = None
    """"dropped" and "dead_letter": it was late, and the queue's `on_late` says so."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One item that `append_many` did not store: its position from 0, and the error."""

    index: int
    error: Exception


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """What `append_many` did: counts, and each refused item."""

    appended: int
    duplicates: int
    refused: list[Refused]
    dropped: int = 0
    """Late ones that the queue's `on_late` drops."""
    dead: int = 0
    """Late ones that became dead letters."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a group's head, kept until the head succeeds or is skipped."""

    id: str
    type: str
    """The exception's class, or `LeaseExpired`, `Undecodable`, `Broken`."""
    message: str
    traceback: str
    """Cut at 8 KiB: the end is kept, where the cause is."""
    attempt: int
    at: float
    """Seconds since 1970 by the consumer's clock."""
    owner: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message set aside so that its group could go on, with all that puts it back into its own place."""

    message: Message
    """As it was: id, group, score, stamp, body, headers."""
    attempts: int
    error: Failure
    died_at: float
    """Seconds since 1970 by the server's clock."""
    letter: str
    """Its name in Redis: stamp, encoded group, newline, id."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What `redrive` did."""

    redriven: int
    pending: int
    """Dead letters that stay, because a message with their id is pending again."""
    parked: list[tuple[str, ...]]
    """Groups that got a message back and are parked: `resume` lets them go on, this message first. At most 100."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The numbers of a sequence that `skip` stepped over: first and last."""

    group: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """One message as the server has it at one moment."""

    id: str
    group: tuple[str, ...]
    state: MessageState
    """"delayed": before its own time; "behind": due, and not the first of its group; "waiting": its group backs off or
    waits for a number or a window; "dead": a dead letter; "handled": known by the dedup window, with no content."""
    due_in_s: float | None
    """Seconds until its own time, 0 when that is past or there is none; None when it will not be handled by itself."""
    attempts: int
    error: Failure | None
    message: Message | None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One group as the server has it at one moment."""

    group: tuple[str, ...]
    state: GroupState
    backlog: int
    """How many messages wait in it."""
    lag_s: float | None
    """Age of its head in seconds since arrival; None when the group ended meanwhile."""
    due_in_s: float | None
    """Seconds until it may be claimed: 0 when due, None when parked."""
    head_id: str | None
    head_score: float | None
    attempts: int
    """How often its head was tried and did not succeed."""
    owner: str | None
    token: int | None
    leased_for_s: float | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a group does not move, and what would move it."""

    group: tuple[str, ...]
    reason: Literal[
        "nothing", "due", "leased", "backoff", "delayed", "window", "gap", "parked", "paused", "queue paused", "broken"
    ]
    text: str
    """One sentence for people."""
    moves_in_s: float | None
    """Seconds until it may move by itself; None when something has to be done."""
    backlog: int
    head_id: str | None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue at one moment.

    Groups by state are exact. Backlog and lag need a look at each group: when there are more than
    `monitor.EXACT_GROUPS`, they come from a sample and `is_estimate` is true.
    """

    queue: str
    namespace: str
    lanes: int
    backlog: int
    lag_s: float
    """Age in seconds of the oldest head of a group; 0 when empty."""
    groups: int
    due: int
    leased: int
    waiting: int
    parked: int
    paused: int
    """Groups with messages that are paused and not in a consumer's hands."""
    is_paused: bool
    """Whether the whole queue is."""
    dead: int
    """Dead letters."""
    is_estimate: bool
    totals: dict[str, int]
    """Since the queue began: appended, handled, failed, parked, expired, skipped, late, refused, dead, dropped,
    redriven, purged, cancelled, overtaken."""
    append_rate: float | None
    """Messages a second between this look and the one before; None at the first look."""
    handle_rate: float | None


@dataclass(frozen=True, slots=True)
class ConsumeSummary:
    """How one consumer ended: why, and what it did."""

    reason: Literal["drained", "stopped", "recycled"]
    handled: int
    failed: int
    lost: int
    """Leases that ended before their acknowledgement; those messages are handled again."""
