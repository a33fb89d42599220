"""What a pass knows, what a call returned, and how it ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...calls.settle import Ending
from ...store.ledger import Ledger
from ...values.message import Message


@dataclass(frozen=True, slots=True)
class PassFacts:
    """What a pass knows of its message besides the ledger."""

    message: Message
    kind: str = ""
    refusal: BaseException | None = None
    """Why the message is given up before its first step: it is late, or undecodable."""
    outage_counts: bool = False
    """Whether its outages are its group's own trouble, as the server says: then the next one counts an attempt."""
    has_waited: bool = False  # whether another version had `missing_wait` to take the message
    lost_owner: str = ""  # whose lease on it ran out just before, or ""


# -- what it hears -------------------------------------------------------------------------------------------------

UNCONFIRMED = 2
"""The start of a step is written, and fewer replicas than `wait_replicas` confirmed it in time."""
AGAIN = -2
"""A note is to be sent once more. What went in front of it was refused, or nobody knows what replicas have."""


class Returned(NamedTuple):
    result: Any


class Raised(NamedTuple):
    error: BaseException


# -- how it ends ---------------------------------------------------------------------------------------------------


class Finished(NamedTuple):
    ledger: Ledger
    failed: tuple[str, ...] = ()  # optional steps that are not done: it is finished with failures


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The message is retried, or, with an ending, given up by this pass."""

    error: BaseException
    ledger: Ledger | None  # what is written with it; None leaves the record as it is
    has_progressed: bool = False
    ending: Ending | None = None
    attempts: int = 0  # the most attempts of a step: backoff follows it
    after_s: float | None = None  # when it is retried, where a step said so
    backoff_s: float | None = None
    """The longest `backoff` of the steps that failed and run again; None: the queue's."""
    outage: BaseException | None = None
    """The last error of it that says that something all handlers need is not there."""
    is_missing: bool = False
    """Whether this version lacks steps, or the kind: it is released, and no attempt is counted."""


class Stopped(NamedTuple):
    """A stop, or an interruption: everything that is known is in the server."""

    error: BaseException | None = None


class Lost(NamedTuple):
    """Nothing more may be written: the lease is lost, or the message is gone."""

    code: int
    ledger: Ledger


End = Finished | Unfinished | Stopped | Lost
