"""The errors that callers get, the signals that a handler may raise, and what else a Failure may be named after.

The signals are Retry, Park, SetAside, Outage and StopConsuming. Each class says when it is raised and what to do about
it; an error without fields or a text shows that docstring. Nothing here holds a payload or a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from .values.durations import Duration, seconds


def shown(value: Any) -> str:
    """A value as texts show it: at most 200 characters, even if its own `repr` fails."""
    try:
        text = repr(value)
    except Exception:  # a number of more than 4,300 digits, or a broken class
        text = f"an int of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


class Coded(BaseException):
    """An error whose text is made of `code`, which names it, and `fields`, its data (`texts/refusals.py`).

    Without fields it shows a code that has no text as it is, or, without a code, its docstring.
    """

    code: str = "error"
    fields: Mapping[str, Any]

    def __init__(self, code: str = "", /, **fields: Any) -> None:
        """`code`: where it is not the one of the class."""
        super().__init__(code)
        self.fields = fields
        if code:
            self.code = code

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:  # a class of the user's own has the code of ours
            cls.code = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __str__(self) -> str:
        from .texts.refusals import refusal_text  # here alone: all rooms know errors, and few need their texts

        text = refusal_text(self.code, self.fields) or super().__str__() or (type(self).__doc__ or "").strip()
        return ": ".join([*self.fields.get("place", ()), text])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class SequencerError(Coded, Exception):
    """Something went wrong in sequencer."""

    earlier: Any = None
    """Of `append_many`: the receipt of the chunks before the one that failed."""
    answers: Sequence[Any] = ()
    """Of several calls sent at once: what each answered, None for one that failed; () where nothing is known."""

    @property
    def group(self) -> tuple[str, ...]:
        """The group that it is about, or ()."""
        return self.fields.get("group", ())  # type: ignore[no-any-return]

    @property
    def id(self) -> str:
        """The id of the message that it is about, or ""."""
        return self.fields.get("id", "")  # type: ignore[no-any-return]


class ConfigurationError(SequencerError, ValueError):
    """An option, a name or a queue's fixed setting is wrong; correct the value that the text names."""


class HandlerNotFound(ConfigurationError):
    """The requested handler does not exist; the text lists what was found instead."""


class InvalidMessage(SequencerError, ValueError):
    """A message breaks a rule; nothing was sent. The text names the field, the value and the rule."""


class InvalidGroup(InvalidMessage):
    """The group is missing, empty, too long, or has a part that is not a str, int or UUID."""


class InvalidId(InvalidMessage):
    """The id is empty, too long, or not a str or int."""


class InvalidScore(InvalidMessage):
    """The score is not a finite number within 2**53, nor an aware datetime."""


class InvalidTime(InvalidMessage):
    """`delay` or `at` is not a valid time for a message to wait for."""


class InvalidBody(InvalidMessage):
    """The body or a header is not JSON, holds NaN or infinity, or is too large."""


# -- an append that the server answered ------------------------------------------------------------------


class IdConflict(SequencerError):
    """The id is already pending in this group with another body, headers or score; the new one was not stored."""


class NumberTaken(IdConflict):
    """In a sequence, the number is already pending in this group under another id; the message was not stored."""


class RelayOutdated(SequencerError):
    """The tables of an outbox are older than its queue: they were restored from a backup. The relay sends nothing until
    it is renewed: `sequencer outbox renew`.
    """


class LateMessage(SequencerError):
    """The score is below one already handled in its group, and the queue refuses such messages (`on_late`)."""


class BatchRefused(SequencerError):
    """`append_many` met an item that it could not store, with on_refused="stop"; `refused` says which and why.

    `stored` counts the messages of earlier chunks, which are in the queue. Of the failing chunk nothing is, but what
    other shards stored of it, where the queue has several: that is counted too. `earlier`: the receipt of earlier
    chunks.
    """

    @property
    def refused(self) -> list[Any]:
        """Those of the failing chunk, in the order of their positions."""
        return self.fields["refused"]  # type: ignore[no-any-return]

    @property
    def stored(self) -> int:
        """Messages of earlier chunks, and those of the failing one that other shards stored."""
        return self.fields["stored"]  # type: ignore[no-any-return]


class OutcomeUnknown(SequencerError):
    """The connection failed after a change was sent, and repeating it failed too, or would not be harmless.

    After an append: append again with the same id and content, which adds nothing if it was stored. After anything
    else, check first. `id`: of the message that was appended, else "".
    """


class NotReplicated(OutcomeUnknown):
    """The message is stored, but fewer replicas than `wait_replicas` confirmed it in time: a failover may lose it.

    Append again with the same id and content, which adds nothing and waits again.
    """


class QueueFull(SequencerError):
    """The server is at its `maxmemory` and refused an append; consumers go on draining. Retry later."""


# -- the server --------------------------------------------------------------------------------------------


class ServerError(SequencerError):
    """The server can't be used now."""


class ServerUnavailable(ServerError):
    """The server can't be reached, is loading, or dropped the connection; try again, or start it.

    `maybe_sent`: whether the call may have reached the server, so that its outcome is unknown.
    """

    maybe_sent: bool = False


class ServerNotUsable(ServerError):
    """The server answers but can't be used as it is, because of its version, role, eviction, rights or password."""


class DataError(ServerError):
    """Keys of sequencer hold data that it did not write, such as a value of the wrong type."""


# -- leases and groups -------------------------------------------------------------------------------------


class LeaseLost(SequencerError):
    """The lease on the group expired or was taken over, so this token can no longer acknowledge anything."""


class GroupNotFound(SequencerError, LookupError):
    """The group has no messages in this queue."""


class GroupBusy(SequencerError):
    """The group is leased by a consumer, or its failure changed meanwhile; check again and repeat."""


class NotParked(SequencerError):
    """`skip` was called for a group whose head did not fail, so there is nothing to skip; or `resume` for a group that
    waits for a missing number, which only an append or `skip` can resolve."""


class AnswerNeeded(SequencerError):
    """A `once` step began, and its outcome is unknown: the message waits until an operator answers with `done=` or
    `again=`; on the command line `--done STEP` or `--again STEP`."""


class AnswerRefused(SequencerError):
    """The answer for a step does not match its state: it is already done, or there is no such step.
    Check: `sequencer steps QUEUE GROUP --id ID`."""


class MessageNotFound(SequencerError, LookupError):
    """No message with this id is pending in the group, or no dead letter matches."""


class RerunRefused(SequencerError):
    """The message can't be run again: it has not ended, the history doesn't have its content, or the outcome of one of
    its `once` steps is unknown. The text says which, and what to do."""


class MessageBusy(SequencerError):
    """A consumer may have the message in progress, so it can't be cancelled or rescheduled now; check again."""


class EffectsSaved(SequencerError):
    """Some steps of the message took effect, so it is not cancelled, replaced or skipped: let it end, or follow the
    text.
    """


# -- signals a handler raises ------------------------------------------------------------------------------


class WrongSignal(ConfigurationError, TypeError):
    """A Retry or an Outage was created with a wrong argument; the text shows the right call.

    Raised in a handler, it counts as a failed attempt, and the message is retried with the queue's backoff, up to
    `max_attempts`, even if `park_on` or `dead_letter_on` name ValueError or TypeError.
    """


def _checked_after(name: str, reason: object, after: object) -> float | None:
    if isinstance(reason, int | float | timedelta):
        raise WrongSignal("reason_invalid", name=name, value=reason)
    if after is not None and seconds(after) is None:
        raise WrongSignal("duration_invalid", name="after", value=after)
    return seconds(after)


class Signal(Coded, Exception):
    """What a handler raises to say what becomes of its message."""

    fields: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, reason: str = "") -> None:
        """`reason`: any text, also one that looks like a code."""
        Exception.__init__(self, reason)

    def __str__(self) -> str:
        return Exception.__str__(self) or super().__str__()


class Retry(Signal):
    """Raised by a handler: handle this message again after this time: 5, "5m" (default: the queue's backoff).

    `reason` is shown in the failure. It counts as an attempt, like any failure, so a message cannot retry forever.
    Raises WrongSignal for a number in place of the reason, and for an `after` that is not a duration.
    """

    def __init__(self, reason: str = "", after: Duration | None = None) -> None:
        self.after = _checked_after("Retry", reason, after)
        """In seconds."""
        super().__init__(reason)


class Park(Signal):
    """Raised by a handler: park the group of this message at once, even if attempts are left.

    `reason` is shown in the failure.
    """


class SetAside(Signal):
    """Raised by a handler: make this message a dead letter at once, and let its group go on.

    `reason` is shown in the failure.
    """


class Outage(Signal):
    """Raised by a handler: a shared dependency is down. No attempt is counted, and a few of these hold the queue back
    until it works again. `after`: time until the next probe (default: 1, 2, 4, then 5 s). Raises WrongSignal like
    Retry.
    """

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        self.after = _checked_after("Outage", reason, after)
        """In seconds."""
        super().__init__(reason)


class StopConsuming(Coded):
    """Raised by a handler or a signal: stop this consumer now; the message counts as not started.

    A BaseException, so that a handler's own `except Exception` does not swallow it.
    """


# -- what a message failed with when no handler did ------------------------------------------------------


class Undecodable(Coded, Exception):
    """The bytes of a message were not written by a sequencer client; they are kept for inspection."""


class BodyInvalid(Undecodable):
    """The body does not fit the type that its handler names; `fields` say which (`type`), why (`problem`), and where in
    the body (`path`). It is given up at once by `on_failure`: fix the type or the producer, then resume the group.
    """


class LeaseExpired(Coded, Exception):
    """Consumers repeatedly died, or stalled past their lease, while handling this message."""


class HandlerTimeout(Coded, TimeoutError):
    """A handler or a step ran longer than its time limit, and was interrupted.

    `park_on` and similar options match it by its own name only: TimeoutError there means one raised by the handler.
    """


class TooLate(Coded, Exception):
    """The message's score is below one already handled, and the queue drops or dead-letters such messages."""


# -- steps of a message ------------------------------------------------------------------------------------


class StepUnknown(Coded, Exception):
    """A `once` step began or failed, and whether it took effect is unknown: an operator has to answer, as the text
    shows. `fields["steps"]`: their names.
    """


class StepMissing(Coded, Exception):
    """A message has a step that is not done (`fields["steps"]`), or a kind, that this version of the program lacks."""


class StepResultInvalid(Coded, Exception):
    """A step took effect, but its result is too large or not JSON: an operator gives a result, as the text shows."""


class StepFailed(Coded, Exception):
    """No step of the message has attempts left; the text names them."""


# -- commands for messages (`--exec`) --------------------------------------------------------------------


class CommandFailed(Coded, Exception):
    """The command for a message ended with a non-zero exit status."""


class CommandNotFound(StopConsuming):
    """The first command of a consumer could not be run: the command is probably wrong, not the message."""


class CommandStopped(StopConsuming):
    """The command was ended by a signal that came with the consumer's stop: its message did not fail."""


_OWN = {name for name, kind in globals().items() if isinstance(kind, type) and kind.__module__ == __name__}
__all__ = sorted(_OWN)  # noqa: PLE0605 - it is a list: each error here is public
