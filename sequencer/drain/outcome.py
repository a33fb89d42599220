"""What becomes of a message that failed or is not to be tried: by the error, its attempts and the options. Pure."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from ..calls.settle import Ending
from ..errors import LeaseExpired, Park, Retry, SetAside, TooLate, Undecodable
from ..settings.options import OnFailure, QueueOptions, is_named
from ..store.failure import encode_failure
from ..values.message import Failure, Message


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a failed message: tried again after `delay_s`, or, when that is None, ended so."""

    delay_s: float | None
    ending: Ending = "park"


@dataclass(frozen=True, slots=True)
class Failed:
    """A message that failed or is not to be tried, with what, and what becomes of it."""

    message: Message
    error: BaseException
    decision: Decision
    failure: Failure
    is_held: bool = True
    """Whether its lease still counts as held: if not, another consumer decides."""

    @property
    def is_late(self) -> bool:
        """Whether it is given up because it was late: no try failed."""
        return isinstance(self.error, TooLate)

    def told(self, member: str) -> tuple[int, float | None, bytes, Ending, bool]:
        """What the server is told of it: tries, delay, the failure as it is kept, ending, and whether it was late."""
        failure = encode_failure(self.failure, member)
        return self.failure.attempt, self.decision.delay_s, failure, self.decision.ending, self.is_late


ENDING_BY_OPTION: dict[OnFailure, Ending] = {"park": "park", "dead_letter": "dead", "drop": "drop"}


def decide(options: QueueOptions, attempt: int, error: BaseException, random: float) -> Decision:
    """By what the handler raised, else by the queue's options."""
    if isinstance(error, TooLate):
        return Decision(None, error.ending)
    if isinstance(error, SetAside):
        return Decision(None, "dead")
    if isinstance(error, Park) or is_named(error, options.park_on):
        return Decision(None, "park")
    if is_named(error, options.dead_letter_on):
        return Decision(None, "dead")
    if isinstance(error, Undecodable) or attempt >= options.max_attempts:
        return Decision(None, ENDING_BY_OPTION[options.on_failure])
    if isinstance(error, Retry) and error.after is not None:
        return Decision(error.after)
    return Decision(options.backoff.delay_s(attempt, random))


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
    decision = decide(options, message.attempt, error, random)
    return Failed(message, error, decision, describe(error, message, owner, at), is_held)


def no_answer(message: Message, owner: str) -> str:
    """What LeaseExpired says: of the attempts before this one, the last is known to have ended so."""
    who = f"consumer {owner}" if owner else "its consumer"
    return (
        f"attempt {message.attempt - 1} ended without an answer: {who} died, or stood still for longer than its lease"
    )


def has_expired(options: QueueOptions, message: Message) -> bool:
    """Whether so many leases ended without an answer that the message is not tried any more.

    One alone may be a claim whose answer was lost, with no handler begun: that drops no message.
    """
    limit = max(2, options.max_attempts) if options.on_failure == "drop" else options.max_attempts
    return message.attempt > limit


def describe(error: BaseException, message: Message, owner: str, at: float) -> Failure:
    """The failure as it is kept with the group. The traceback starts below our own frames."""
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        said = str(error)
        text = "".join(traceback.format_exception(type(error), error, inner)) if inner else ""
    except Exception as broken:  # an exception that can't even say what it is
        said, text = f"its text could not be read: {type(broken).__name__}", ""
    return Failure(message.id, type(error).__name__, said, text, tries(message, error), at, owner)


def tries(message: Message, error: BaseException) -> int:
    """How often the message was tried, when it failed with this."""
    return message.attempt - 1 if isinstance(error, LeaseExpired | TooLate) else message.attempt
