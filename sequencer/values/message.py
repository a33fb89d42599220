"""The values that cross the public interface. They hold data and decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Body_co = TypeVar("Body_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Body_co = TypeVar("Body_co", covariant=True)

Fate = Literal["stored", "duplicate", "dropped", "dead_letter"]


class Message(NamedTuple, Generic[Body_co]):
    """One message, as a handler gets it. Where that says `Message[Order]`, its body was made an Order.

    A named tuple, not a frozen dataclass: making one takes 0.3 us against 1.3 us, and a busy consumer makes
    hundreds of thousands a second.
    """

    id: str
    group: tuple[str, ...]
    """The parts of its group, as text: `1002` was appended as 1002 or "1002"."""
    score: float
    """What orders the group: the producer's number, else seconds since 1970 at arrival."""
    body: Body_co
    headers: dict[str, str]
    attempt: int
    """1 for the first attempt. Failures count, and consumers that died while handling it."""
    token: int
    """The fencing token of the lease: greater for every later lease of the shard; 0 if it was only read."""
    appended_at: float
    """Seconds since 1970 by the server's clock."""
    queue: str
    stamp: int
    """The tick of the shard's clock, in us, that breaks ties of the score."""
    late: bool = False
    """Whether a message with a higher score was handled in its group before it."""
    redriven: bool = False
    """Whether it was redriven from a dead letter."""


class StepCall(NamedTuple):
    """One call of a step, or of its check: the second argument of their functions."""

    name: str
    key: str
    """Stable over all attempts and consumers, and never that of another message: hand it to a provider, so that it
    knows a repeat as one. At most 200 characters of ASCII."""
    token: int
    """The fencing token of the lease."""
    attempt: int
    """1 for the first call."""
    result: Any
    """Result of the step named by `after`; None if it names none."""
    results: Mapping[str, Any]
    """Results of the steps that are done, as plain JSON values, by name."""


class Receipt(NamedTuple):
    """What `append` returns: the id, the stamp (shard clock, us), and whether the message was already there.

    `stamp`, `duplicate` and `outcome` are None when the append was put on a caller's pipeline and so is not sent yet;
    `stamp` also for a duplicate of a message that was handled.
    """

    id: str
    stamp: int | None
    duplicate: bool | None
    outcome: Fate | None = None
    """"dropped" and "dead_letter": it was late, by the queue's `on_late`."""
    backlog: int | None = None
    """The number of messages in its group, with `append(..., backlog=True)`."""


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
    """Late messages dropped by the queue's `on_late`."""
    dead: int = 0
    """Late messages that became dead letters."""


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A failed attempt of a message, in brief."""

    attempt: int
    """0 for an outage, or a message that was released."""
    at: float
    """Seconds since 1970 by the consumer's clock."""
    error: str
    """Class and text, at most 200 bytes."""


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
    outages: int = 0
    """How often in a row it failed by an outage: not counted as an attempt before the tenth."""
    missing: int = 0
    """How often in a row it was released because the consumer's version lacked its kind or one of its steps."""
    missing_since: float = 0.0
    """Since when, in seconds since 1970 by the server's clock."""
    log: tuple[PastAttempt, ...] = ()
    """The four failed attempts before that, without outages that were not counted."""


@dataclass(frozen=True, slots=True)
class ConsumeSummary:
    """How one consumer ended: why, and what it did."""

    reason: Literal["drained", "stopped", "recycled"]
    """"drained": because of `until_empty` or `until_idle`."""
    handled: int
    failed: int
    lost: int
    """Leases that ended before their acknowledgement; those messages are handled again."""
