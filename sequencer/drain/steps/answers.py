"""What a person says of steps whose end nobody knows, or that are given up, as a ledger. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...store.ledger import Entry, Ledger, LedgerError, kept_result
from .rules import questions


def answered(ledger: Ledger, done: Mapping[str, Any], again: Collection[str], *, who: str, at: float) -> Ledger:
    """The ledger after it. `done`: results by name; `again`: steps that shall run again, under a new key.

    Raises LedgerError, in one sentence, for a step that the message lacks, or to which that can't be said.
    """
    for name in done:
        if name in again:
            raise LedgerError(f"step {name} can't be done and run again; say one of them")
        entry = _entry(ledger, name)
        ledger = ledger.put(entry.moved("done", by="person", who=who, at=at, result=kept_result(done[name]), error=""))
    for name in again:
        ledger = ledger.put(_again(_entry(ledger, name), at))
    return ledger


def _entry(ledger: Ledger, name: str) -> Entry:
    entry = ledger.get(name)
    if entry is None:
        names = ", ".join(one.name for one in ledger.entries) or "none yet"
        raise LedgerError(f"the message has no step {name}; it has {names}")
    return entry


def _again(entry: Entry, at: float) -> Entry:
    if not (entry.once or entry.state == "left"):
        raise LedgerError(f"step {entry.name} can't be run again: it is {entry.state} and automatic")
    return entry.moved("open", by="person", turn=entry.turn + 1, tries=0, at=at)


def unanswered(ledger: Ledger) -> tuple[str, ...]:
    """Steps of which a person has yet to say how they ended: without that, the next pass would ask again."""
    return tuple(entry.name for entry in questions(ledger))
