"""The rules of a pass: what a ledger and the declared steps mean together. Pure, and each rule is one function.

The model of them is in tests/support/steps_model/: a rule that changes changes there first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from ...errors import Outage, Park, Retry, SetAside, Undecodable, WrongSignal
from ...settings.error_names import is_named
from ...settings.options import QueueOptions
from ...store.ledger import HANDLER, MAX_STEPS, Entry, Ledger, LedgerError, encode_ledger
from .declared import Step

Verdict = Literal["error", "never", "declined", "retry", "outage", "outage by hand", "park", "dead"]
SHORT_ERROR = 20  # characters of an error in a ledger that would be too large


# -- the ledger, and the steps that this version declares --------------------------------------------------------------


def joined(ledger: Ledger, steps: Iterable[Step]) -> Ledger:
    """The ledger with an entry for each declared step, by name. Raises LedgerError where that are too many."""
    entries = {entry.name: entry for entry in ledger.entries}
    for step in steps:
        before = entries.get(step.name)
        entries[step.name] = Entry(step.name, step.once, step.optional) if before is None else kept(before, step)
    if len(entries) > MAX_STEPS:
        raise LedgerError("too_many_steps", count=len(entries), most=MAX_STEPS)
    return replace(ledger, entries=tuple(entries.values()))


def kept(entry: Entry, step: Step) -> Entry:
    """A `once` entry stays `once`, and required while its question is open, whichever version runs."""
    is_asked = entry.once and entry.state in ("started", "failed")
    optional = step.optional and (entry.optional or not is_asked)
    return replace(entry, once=entry.once or step.once, optional=optional, inline=step.inline)


def missing(entries: Iterable[Entry], known: Container[str], retired: Sequence[str]) -> tuple[str, ...]:
    """Required steps that are not done and that this version lacks. `retired` answers no question of a `once` step."""
    unknown = [e for e in entries if e.name not in known and not e.optional and e.state not in ("done", "left")]
    return tuple(entry.name for entry in unknown if entry.once or entry.name not in retired)


def failures(ledger: Ledger) -> tuple[str, ...]:
    """What a message that is finished did without: optional steps that are not done, or have lost their result."""
    found = [e for e in ledger.entries if e.state == "left" or (e.optional and (e.state != "done" or e.error))]
    return tuple(entry.name for entry in found if entry.name != HANDLER)


def questions(ledger: Ledger) -> list[Entry]:
    """Required `once` steps whose outcome an operator must give before the message is given up."""
    return [e for e in ledger.entries if e.once and not e.optional and e.state in ("started", "failed")]


def fresh(ledger: Ledger) -> Ledger:
    """Written by each nack that parks or buries: what is not done gets its attempts again; the log keeps the past."""
    entries = tuple(e if e.state in ("done", "left") else replace(e, attempts=0) for e in ledger.entries)
    return replace(ledger, entries=entries)


# -- what a step may do now -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class View:
    """A ledger as one pass sees it; the pass changes it."""

    ledger: Ledger
    steps: Mapping[str, Step]
    max_attempts: int
    token: int

    def entry(self, name: str) -> Entry:
        found = self.ledger.get(name)
        assert found is not None, name
        return found

    def may_begin(self, step: Step) -> bool:
        """Whether the steps that it comes after are done."""
        return all(map(self._is_done, step.after))

    def _is_done(self, name: str) -> bool:
        entry = self.ledger.get(name)
        return entry is not None and entry.state == "done"

    def is_open(self, step: Step) -> bool:
        """Whether it may be called. A failed automatic one with attempts left is read as open."""
        entry = self.entry(step.name)
        is_ready = entry.state == "open" or (entry.state == "failed" and not entry.once)
        return is_ready and entry.attempts < step.limit(self.max_attempts)

    def is_begun(self, step: Step) -> bool:
        """Whether its start was noted under this lease."""
        entry = self.entry(step.name)
        return entry.state == "started" and entry.token == self.token

    def may_check(self, step: Step) -> bool:
        """Whether its check is asked: started under another lease, or failed and `once`; after the last attempt too."""
        entry = self.entry(step.name)
        is_unknown = entry.state == "started" and entry.token != self.token
        is_asked = is_unknown or (entry.once and entry.state == "failed")
        return is_asked and step.asks is not None and entry.attempts <= step.limit(self.max_attempts)

    def can_be_tried(self, step: Step) -> bool:
        """Whether a later pass can do something for it without an operator."""
        if not (self.is_open(step) or self.may_check(step)):
            return False
        return all(self._is_done(name) or self.can_be_tried(self.steps[name]) for name in step.after)

    def is_over(self, step: Step) -> bool:
        """Whether nothing will ever call it. Behind a required step it waits: an operator may answer for that one."""
        if not (self.is_open(step) or self.may_check(step)):
            return self.entry(step.name).state != "done"
        before = [self.steps[name] for name in step.after if name in self.steps]
        return any(self.entry(one.name).optional and self.is_over(one) for one in before)

    def close(self) -> None:
        """At the end of a pass: optional steps that will never run again are left."""
        for step in self.steps.values():
            entry = self.entry(step.name)
            if entry.optional and entry.state not in ("done", "left") and self.is_over(step):
                self.ledger = self.ledger.put(entry.moved("left"))

    @property
    def is_finished(self) -> bool:
        """Whether the message may be acknowledged."""
        return all(self.entry(name).state in ("done", "left") for name in self.steps)


# -- what became of it ------------------------------------------------------------------------------------------------


def raised(
    entry: Entry, step: Step, error: BaseException, kind: Verdict, limit: int, *, counts: bool, at: float, took_s: float
) -> Entry:
    """The entry after its step raised. `kind`: see `verdict`; `counts`: whether an outage counts as a failure."""
    if entry.once and says_nothing_happened(step, error):
        counted = 1 if kind != "outage by hand" or counts else 0  # else it could go on for ever
        is_left = kind == "declined" and entry.optional
        return entry.moved(
            "left" if is_left else "open", attempts=entry.attempts + counted, token=0, at=at, took_s=took_s
        )
    is_free = not entry.once and kind in ("outage", "outage by hand") and not counts
    attempts = entry.attempts if is_free else max(entry.attempts + 1, limit) if kind == "never" else entry.attempts + 1
    is_last = entry.optional and entry.once and not (step.asks and attempts <= limit)
    return entry.moved("left" if is_last else "failed", attempts=attempts, at=at, took_s=took_s)


def says_nothing_happened(step: Step, error: BaseException) -> bool:
    """Whether a `once` step says that it took no effect: then nobody is asked."""
    return isinstance(error, Retry | Outage | Park | SetAside | Undecodable) or is_named(error, step.declined)


def verdict(queue: QueueOptions, step: Step, error: BaseException, *, is_optional: bool) -> Verdict:
    """What an error says: signals, then the queue's lists, then the step's. An optional step makes no outage."""
    if isinstance(error, Outage):
        return "outage by hand"
    if isinstance(error, Retry):
        return "retry"
    if isinstance(error, Park | SetAside):
        return "park" if isinstance(error, Park) else "dead"
    if isinstance(error, WrongSignal):
        return "error"
    if isinstance(error, Undecodable) or is_named(error, step.declined):
        return "declined"
    if is_named(error, queue.park_on):
        return "park"
    if is_named(error, queue.dead_letter_on):
        return "dead"
    if is_named(error, queue.outage_names) and not is_optional:
        return "outage"
    is_given_up = is_named(error, step.never_retry) or (step.retry_on and not is_named(error, step.retry_on))
    return "never" if is_given_up else "error"


def fitting(ledger: Ledger) -> Ledger:
    """The same, small enough to be written: texts of errors give way, results and states never do."""
    if not (ledger.log or any(entry.error for entry in ledger.entries)):
        return ledger
    with suppress(LedgerError):
        encode_ledger(ledger)
        return ledger
    cut = [e if e.state == "done" else replace(e, error=e.error[:SHORT_ERROR]) for e in ledger.entries]
    return replace(ledger, log=(), entries=tuple(cut))
