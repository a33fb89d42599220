"""What a person says of steps whose end nobody knows, and the ledger after that. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import AnswerRefused, ConfigurationError, InvalidBody, shown
from ...store.ledger import MAX_COUNT, Entry, Ledger, LedgerError, check_step_name, kept_result
from ...values.checks import check_integer

SOMEBODY, MAX_NAME = "somebody", 100
"""Who says it, where nobody is named; and the most characters of a name."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Steps that took effect, each with its result, and steps that run again."""

    done: Mapping[str, Any] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Of these steps, how often they were called when it was said: it says nothing of a later run."""
    by: str = SOMEBODY
    """Who says it."""

    def __bool__(self) -> bool:
        return bool(self.done or self.again)

    @classmethod
    def of(cls, done: Any, again: Any, attempts: Any = None, by: Any = None) -> Answers:
        """From {step: its result}, names, {step: a number}, a name. Raises ConfigurationError, InvalidBody."""
        if by is not None and (not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= MAX_NAME):
            raise ConfigurationError("by_invalid", value=shown(by), most=MAX_NAME)
        done = {} if done is None else done
        if not isinstance(done, Mapping):
            raise ConfigurationError(f"done={shown(done)} must be a mapping: name of a step -> its result")
        if isinstance(again, str) or not isinstance(again, Sequence):
            raise ConfigurationError(f"again={shown(again)} must be a list of names of steps")
        for name in (*done, *again):
            check_step_name(name)
        if both := sorted({*done} & {*again}):
            raise ConfigurationError(f"step {both[0]} is in both done and again; remove it from one")
        attempts = {} if attempts is None else attempts
        if not isinstance(attempts, Mapping):
            raise ConfigurationError(f"attempts={shown(attempts)} must be a mapping: name of a step -> the attempt")
        for name, number in attempts.items():
            if name not in done and name not in again:
                raise ConfigurationError(f"attempts names step {name}, which is neither in done nor in again")
            check_integer(f"attempts: {name}", number, 0, MAX_COUNT)
        try:
            results = {name: kept_result(result) for name, result in done.items()}
            return cls(results, tuple(dict.fromkeys(again)), dict(attempts), by or SOMEBODY)
        except LedgerError as error:
            raise InvalidBody(f"a result given in done can't be kept: {error}") from error

    def applied(self, ledger: Ledger | None, *, at: float) -> Ledger:
        """The ledger with them. `at`: now, in seconds since 1970. Raises AnswerRefused.

        "Done" is said of any step that is not done, or that is done without a result. "Again" is said of one that was
        started or failed and is `once`, or that was left: it runs under another key, and with fresh attempts.
        """
        if ledger is None:
            raise AnswerRefused("no step of this message has begun, so there is nothing to answer")
        for name, attempt in self.attempts.items():
            if (entry := _entry(ledger, name)).runs != attempt:
                raise AnswerRefused(
                    f"this answer is for attempt {attempt} of step {name}, but its last is {entry.runs}; check again"
                )
        for name, result in self.done.items():
            entry = _entry(ledger, name)
            if entry.state == "done" and not entry.error:
                raise AnswerRefused(f"step {name} is done already{_by(entry)}")
            ledger = ledger.put(_moved(entry, "done", who=self.by, at=at, result=result, error=""))
        for name in self.again:
            entry = _entry(ledger, name)
            if entry.state == "done":
                raise AnswerRefused(f"step {name} is done{_by(entry)}; a step that is done does not run again")
            if not entry.once and entry.state != "left":
                raise AnswerRefused(f"step {name} is {entry.state}, and runs again by itself; leave it out")
            ledger = ledger.put(_moved(entry, "open", turn=entry.turn + 1, attempts=0, at=at))
        return ledger


def _entry(ledger: Ledger, name: str) -> Entry:
    entry = ledger.get(name)
    if entry is None:
        names = ", ".join(sorted(one.name for one in ledger.entries)) or "none"
        raise AnswerRefused(f"the message has no step {name}; it has {names}")
    return entry


def _moved(entry: Entry, state: Any, **changes: Any) -> Entry:
    try:
        return entry.moved(state, by="person", **changes)
    except LedgerError as error:
        raise AnswerRefused(f"step {entry.name} is {entry.state}: {error}") from error


def _by(entry: Entry) -> str:
    return f" (said by {entry.who})" if entry.who else ""
