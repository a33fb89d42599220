"""What a pass asks for, and what it hears. Plain data: an implementation is compared with the model by these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .ledger import Ledger


@dataclass(frozen=True)
class Facts:
    """What a pass is told of its message besides the ledger."""

    id: str = "m"
    group: str = "g"
    stamp: int = 1
    kind: str = ""
    token: int = 1
    unanswered: int = 0
    """Leases that ended without a word since a step became done: the four digits of the record."""
    given_up: str = ""
    """Why the message is given up before the pass: undecodable, unreadable, late, expired."""
    given_up_as: str = "park"
    """What the policy says of that: park, dead, drop."""
    outages: int = 0
    """How many outages in a row its failure counts."""
    counts_outage: int = 9
    """From so many in a row on, the next outage counts as a failure."""
    has_waited: bool = False
    """Whether `missing_wait` is over."""


# -- what a pass hears ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Began:
    """The pass begins."""


@dataclass(frozen=True)
class Returned:
    """The step returned this; a check that returned None says that nothing happened."""

    result: Any = None


@dataclass(frozen=True)
class Raised:
    """What the step or the check raised: error, retry, outage, outage by hand, park, set aside, declined, result.

    "declined" is an error that the declaration of a `once` step names as one that says that nothing happened.
    """

    error: str = "error"
    after: int | None = None


UNCONFIRMED = 2
"""The note is written, and replicas that the queue's owner asked for did not confirm it in time."""


@dataclass(frozen=True)
class Answered:
    """The answer to a note: 1, 0 (the token is not valid), -1 (the message is gone), or UNCONFIRMED, of a start."""

    code: int = 1


Event = Began | Returned | Raised | Answered


# -- what a pass asks for --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """Call the step."""

    step: str
    key: str
    results: Mapping[str, Any] = field(default_factory=dict)
    is_once: bool = False


@dataclass(frozen=True)
class Check:
    """Call the check of a step."""

    step: str
    key: str


@dataclass(frozen=True)
class Note:
    """Write the ledger and wait for the answer."""

    ledger: Ledger
    has_progressed: bool
    """A step became done since the last write: the leases that ended unanswered are counted anew."""
    start: str = ""
    """The `once` step whose start it is."""


@dataclass(frozen=True)
class Ack:
    """The end: finished, or finished with failures; the ledger is what the history keeps."""

    ledger: Ledger
    with_failures: bool


@dataclass(frozen=True)
class Failure:
    """Why a pass did not finish its message."""

    reason: str
    questions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nack:
    """The end: the group waits, is parked, or the message becomes a dead letter or is dropped."""

    ledger: Ledger
    has_progressed: bool
    ending: str
    """'' to wait, park, dead, drop."""
    failure: Failure
    delay: int | None = None
    is_outage: bool = False
    is_missing: bool = False
    """Given back, and no attempt is counted."""


@dataclass(frozen=True)
class Release:
    """The end: a stop was asked for, and everything is noted."""


@dataclass(frozen=True)
class Lost:
    """The end: nothing more may be written. code: 0 the lease, -1 the message."""

    code: int


Action = Call | Check | Note | Ack | Nack | Release | Lost
End = Ack | Nack | Release | Lost
