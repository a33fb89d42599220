"""The values that cross the public interface. They hold data and decide nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

GroupState = Literal["due", "leased", "waiting", "parked"]


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


class Receipt(NamedTuple):
    """What `append` says: the id, the stamp (lane clock, us), and whether the message was there already.

    `stamp` and `duplicate` are None when the append was put on a caller's pipeline and so is not sent yet.
    """

    id: str
    stamp: int | None
    duplicate: bool | None


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
    is_estimate: bool
    totals: dict[str, int]
    """Since the queue began: appended, handled, failed, parked, expired, skipped."""
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
