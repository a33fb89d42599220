"""What an operator answers about steps of unknown outcome, and the ledger after that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import AnswerRefused, ConfigurationError, InvalidBody
from ...store.ledger import MAX_COUNT, Entry, Ledger, LedgerError, check_step_name, kept_result
from ...values.checks import check_integer, check_names

SOMEBODY, MAX_NAME = "somebody", 100  # who says it, where nobody is named; and the most characters of a name


@dataclass(frozen=True, slots=True)
class Answers:
    """Steps that took effect, each with its result, and steps that run again."""

    done: Mapping[str, Any] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Of these steps, how often they were called when it was said: it says nothing of a later run."""
    by: str = SOMEBODY  # who says it

    def __bool__(self) -> bool:
        return bool(self.done or self.again)

    @classmethod
    def of(cls, done: Any, again: Any, attempts: Any = None, by: Any = None) -> Answers:
        """From {step: its result}, names, {step: a number}, a name. Raises ConfigurationError, InvalidBody."""
        if by is not None and (not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= MAX_NAME):
            raise ConfigurationError("by_invalid", value=by, most=MAX_NAME)
        done = {} if done is None else done
        if not isinstance(done, Mapping):
            raise ConfigurationError("steps_mapping_expected", name="done", value=done)
        for name in (*done, *check_names("again", again, "names of steps")):
            check_step_name(name)
        if both := sorted({*done} & {*again}):
            raise ConfigurationError("answered_twice", step=both[0])
        attempts = {} if attempts is None else attempts
        if not isinstance(attempts, Mapping):
            raise ConfigurationError("steps_mapping_expected", name="attempts", value=attempts)
        for name, number in attempts.items():
            if name not in done and name not in again:
                raise ConfigurationError("attempt_needless", step=name)
            check_integer(f"attempts[{name!r}]", number, 0, MAX_COUNT)
        try:
            results = {name: kept_result(result) for name, result in done.items()}
            return cls(results, tuple(dict.fromkeys(again)), dict(attempts), by or SOMEBODY)
        except LedgerError as error:
            raise InvalidBody("answer_too_large", error=str(error)) from error

    def applied(self, ledger: Ledger | None, *, at: float) -> Ledger:
        """The ledger with them. `at`: now, in seconds since 1970. Raises AnswerRefused.

        "Done" is said of any step that is not done, or that is done without a result. "Again" is said of one that was
        started or failed and is `once`, or that was left: it runs under another key, and with fresh attempts.
        """
        if ledger is None:
            raise AnswerRefused("no_step_begun")
        for name, attempt in self.attempts.items():
            if (entry := _entry(ledger, name)).runs != attempt:
                raise AnswerRefused("answer_outdated", step=name, attempt=attempt, last=entry.runs)
        for name, result in self.done.items():
            entry = _entry(ledger, name)
            if entry.state == "done" and not entry.error:
                raise AnswerRefused("step_done", step=name, by=entry.who)
            ledger = ledger.put(entry.moved("done", by="person", who=self.by, at=at, result=result, error=""))
        for name in self.again:
            entry = _entry(ledger, name)
            if entry.state == "done":
                raise AnswerRefused("step_done", step=name, by=entry.who)
            if entry.state == "open" or not (entry.once or entry.state == "left"):
                raise AnswerRefused("step_runs_again", step=name, state=entry.state)
            ledger = ledger.put(entry.moved("open", by="person", turn=entry.turn + 1, attempts=0, at=at))
        return ledger


def _entry(ledger: Ledger, name: str) -> Entry:
    entry = ledger.get(name)
    if entry is None:
        raise AnswerRefused("step_not_found", step=name, steps=sorted(one.name for one in ledger.entries))
    return entry
