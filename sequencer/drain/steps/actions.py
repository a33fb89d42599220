"""What a pass is told, what it asks for, what it hears, and how it ends. Pure.

asks for                what the caller does                                       answer
--------                --------------------                                       ------
CallStep(step, call)    call the step's function, or with `is_check` its check     Returned, or Raised
WriteLedger(ledger)     write it into the message's record, and wait for that      1; 0: the lease is lost;
                                                                                   -1: the message is gone;
                                                                                   UNCONFIRMED, of a start
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...calls.settle import Ending
from ...store.ledger import Ledger
from ...values.message import Message, StepCall
from .declared import Step


@dataclass(frozen=True, slots=True)
class PassFacts:
    """What a pass is told of its message besides the ledger."""

    message: Message
    kind: str = ""
    refusal: BaseException | None = None
    """Why the message is given up before its first step: it is late, or undecodable."""
    outage_counts: bool = False
    """Whether its outages are its group's own trouble, as the server says: then the next one counts an attempt."""
    has_waited: bool = False
    """Whether another version had `missing_wait` to take the message."""
    lost_owner: str = ""
    """Whose lease on it ran out just before, or ""."""


# -- what it asks for, and hears ---------------------------------------------------------------------------------

UNCONFIRMED = 2
"""The start of a step is written, and fewer replicas than `wait_replicas` confirmed it in time."""
AGAIN = -2
"""A note is to be sent once more. What went in front of it was refused, or nobody knows what replicas have."""


class CallStep(NamedTuple):
    step: Step
    call: StepCall
    is_check: bool = False


class WriteLedger(NamedTuple):
    ledger: Ledger
    has_progressed: bool
    """Whether a step became done since the last write: the leases that end unanswered are then counted again."""
    names: tuple[str, ...] = ()
    """Of the steps that it tells something new of."""
    is_start: bool = False
    """Whether a `once` step begins with it: then replicas are to have it, too."""


class Returned(NamedTuple):
    result: Any


class Raised(NamedTuple):
    error: BaseException


Asked = CallStep | WriteLedger


# -- how it ends ---------------------------------------------------------------------------------------------------


class Finished(NamedTuple):
    """The message is acknowledged."""

    ledger: Ledger
    failed: tuple[str, ...] = ()
    """Optional steps that are not done: it is finished with failures."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The message is retried, or, with an ending, given up by this pass."""

    error: BaseException
    ledger: Ledger | None
    """What is written with it; None leaves the record as it is."""
    has_progressed: bool = False
    ending: Ending | None = None
    attempts: int = 0
    """The most attempts of a step: backoff follows it."""
    after_s: float | None = None
    """When it is retried, where a step said so."""
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
