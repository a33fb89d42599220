"""What becomes of a message that failed or is not to be tried: by the error, its attempts and the options. Pure."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import Any

from ..calls.claim import LeasedGroup
from ..calls.outage import ShardOutage, Waits
from ..calls.settle import Ending, Nacked
from ..errors import (
    HandlerTimeout,
    LeaseExpired,
    Outage,
    Park,
    Retry,
    SetAside,
    StepResultInvalid,
    StepUnknown,
    TooLate,
    Undecodable,
    WrongSignal,
)
from ..settings.error_names import is_named
from ..settings.options import OnFailure, QueueOptions
from ..store.ledger import Written
from ..texts.events import Event, event
from ..texts.refusals import refusal_text
from ..texts.words import text_of, type_name
from ..values.message import Failure, Message
from .steps.actions import Unfinished


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a failed message: retried after `delay_s`, or, when that is None, ended so."""

    delay_s: float | None
    ending: Ending = "park"
    outage: Waits | None = None
    """Of an outage, how long its group waits; the rest holds only where the server counts it as an attempt."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A message that failed or is not to be tried, with what, and what becomes of it."""

    message: Message
    error: BaseException
    decision: Decision
    failure: Failure
    is_held: bool = True  # whether its lease still counts as held: if not, another consumer decides
    held_back: ShardOutage | None = None
    """The outage that holds the shard back, as the server answered the nack."""
    end: Unfinished | None = None  # of a message with steps: how its pass ended
    written: Written | None = None  # the ledger that its pass left; None leaves the record as it is
    was_tried: bool = True  # whether its handler, or a step of it, ran
    step: str = ""  # the step that raised what the message failed with

    @property
    def is_late(self) -> bool:
        """Whether it is given up because it was late: no attempt failed."""
        return isinstance(self.error, TooLate)

    @property
    def is_missing(self) -> bool:
        """Whether this version of the program lacks what the message needs."""
        return self.end is not None and self.end.is_missing

    @property
    def is_timeout(self) -> bool:
        return isinstance(self.error, HandlerTimeout)

    @property
    def ends_outage(self) -> bool:
        """Whether this failure of a probe shows that what all handlers need is there."""
        return self.was_tried and not (self.decision.outage or self.is_timeout)

    def answered(self, done: Nacked | None) -> Failed:
        """An outage, as the server took it; None: nobody knows, as no answer came."""
        if done is None or not done.is_valid:
            return self
        if not done.is_uncounted:
            return replace(self, decision=replace(self.decision, outage=None))
        return replace(self, decision=replace(self.decision, delay_s=done.wait_s), held_back=done.held)


UNTRIED = TooLate, Undecodable, LeaseExpired  # what a message is given up with that no handler got
ENDING_BY_OPTION: dict[OnFailure, Ending] = {"park": "park", "dead_letter": "dead", "drop": "drop"}


def decide(options: QueueOptions, attempt: int, error: BaseException, random: float) -> Decision:
    """By what the handler raised, else by the queue's options: those that name errors, then `max_attempts`."""
    if isinstance(error, TooLate):
        return Decision(None, ENDING_BY_OPTION[error.fields["on_late"]])
    is_signal = isinstance(error, Outage | Retry | WrongSignal | SetAside)  # meant, whatever lists say of its class
    if isinstance(error, Park) or (not is_signal and is_named(error, options.park_on)):
        return Decision(None, "park")
    if isinstance(error, SetAside) or (not is_signal and is_named(error, options.dead_letter_on)):
        return Decision(None, "dead")
    outage = waits(options, error, random)
    if isinstance(error, Undecodable) or attempt >= options.max_attempts:
        return Decision(None, ENDING_BY_OPTION[options.on_failure], outage)
    after_s = error.after if isinstance(error, Retry) else None
    return Decision(options.backoff.delay_s(attempt, random) if after_s is None else after_s, outage=outage)


def waits(options: QueueOptions, error: BaseException, random: float) -> Waits | None:
    """Of an outage: backoff follows how many there were in a row, which the server knows; None for another error."""
    if isinstance(error, Outage) and error.after is not None:
        return Waits(error.after, error.after, error.after)
    if isinstance(error, Outage) or is_named(error, options.outage_names):
        return Waits(options.backoff.delay_s(1, random), options.backoff.longest_s(random))
    return None


def failed_with(
    options: QueueOptions,
    message: Message,
    error: BaseException,
    *,
    owner: str,
    at: float,
    random: float,
    is_held: bool = True,
) -> Failed:
    """What becomes of the message. `at`: now, in seconds since 1970; `random`: in [0, 1)."""
    decision, was_tried = decide(options, message.attempt, error, random), not isinstance(error, UNTRIED)
    failure = describe(error, message, owner, at, message.attempt if was_tried else message.attempt - 1)
    return Failed(message, error, decision, failure, is_held, was_tried=was_tried)


def most_unanswered(options: QueueOptions) -> int:
    """How many leases may end unanswered. One alone may be a claim whose answer was lost: it drops no message."""
    return max(2, options.max_attempts) if options.on_failure == "drop" else options.max_attempts


def unfit(leased: LeasedGroup, position: int) -> TooLate | Undecodable | None:
    """Why nobody handles this message of a group, however often it was tried, or None.

    The rules, in this order:
      1. Late, where the queue gives late messages up. The order says so, whatever the bytes are: a message that nobody
         would handle need not park its group because it can't be read. A redriven one is never late in this sense: an
         operator put it back.
      2. Undecodable. That never gets better, so it is not blamed on the consumers that died.
    """
    message = leased.messages[position]
    if message.late and not message.redriven and leased.on_late in ("drop", "dead_letter"):
        return TooLate(score=message.score, mark=leased.mark, on_late=leased.on_late)
    if leased.undecodable and position == len(leased.messages) - 1:
        return Undecodable(leased.undecodable)
    return None


def refusal_of(queue: QueueOptions, leased: LeasedGroup, position: int) -> TooLate | Undecodable | LeaseExpired | None:
    """Why this message is not given to a plain handler, or None: it is unfit, or too many leases on it ended
    unanswered. A first attempt that is in time and decodable is never refused: a hot loop need not ask about it.
    """
    if refusal := unfit(leased, position):
        return refusal
    tried, most, owner = leased.messages[position].attempt - 1, most_unanswered(queue), leased.expired_owner
    if tried < most:
        return None
    return LeaseExpired("attempts_used", attempts=tried, most=most, owner=owner)


def describe(error: BaseException, message: Message, owner: str, at: float, attempt: int) -> Failure:
    """The failure as it is kept with the group, at this attempt."""
    try:
        said = str(error)
        text = "".join(traceback.format_exception(error)) if error.__traceback__ else ""
    except Exception:  # an exception whose text can't be made
        said, text = text_of(error), ""
    return Failure(message.id, type(error).__name__, said, text, attempt, at, owner)


EVENTS: dict[Ending, str] = {"park": "group parked", "dead": "dead letter", "drop": "message dropped"}


def event_of(options: QueueOptions, owner: str, one: Failed, *, parked: int = 0) -> Event:
    """What a message failed with, and what becomes of it. `parked`: how many groups this consumer parked before."""
    message, error, decision = one.message, one.error, one.decision
    fields: dict[str, Any] = {"group": list(message.group), "owner": owner, "id": message.id}
    fields |= {"attempt": one.failure.attempt, "error_type": type_name(error)}
    if one.failure.attempt and not (one.is_late or decision.outage or one.end):
        fields["attempts"] = options.max_attempts
    if one.step:
        fields["step"] = one.step
    name, raised, wait_s = "message failed", error, decision.delay_s
    if not one.is_held:
        pass
    elif decision.outage is not None:
        fields["outage"] = True
        if one.held_back is not None:  # the shard waits, rather than the group
            fields["since"], wait_s = one.held_back.since_us / 1e6, one.held_back.probe_s
    elif wait_s is None:
        name = EVENTS[decision.ending]
        if decision.ending == "park":
            fields["parked"] = parked + 1
        elif one.is_late:
            fields["late"] = True
        if decision.ending == "drop" and one.written:
            fields["ledger"] = one.written.ledger
        if isinstance(error, StepUnknown | StepResultInvalid):
            fields |= {name: error.fields[name] for name in ("steps", "runs") if name in error.fields}
    if one.is_held and wait_s is not None:
        fields["retry_in_s"] = round(wait_s, 3)
    said = one.failure.message
    if isinstance(error, StepUnknown | StepResultInvalid):  # the commands that answer it are those of the event
        said = refusal_text(f"{error.code}_short", error.fields) or said
    made = event(name, options.queue, namespace=options.namespace, error=said, **fields)
    return replace(made, error=None if one.is_late and name != "message failed" else raised)
