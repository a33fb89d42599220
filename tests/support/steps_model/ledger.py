"""The ledger: what became of a message's steps. Plain data, and the table of moves that a step may make.

Times (`at`, `took`) are left out: they follow from a clock, and no rule reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

State = Literal["open", "started", "done", "failed", "left"]
LOG = 5
"""How many errors of the past a ledger keeps."""

_AUTO: dict[State, set[State]] = {
    "open": {"open", "done", "failed", "left"},
    "failed": {"open", "done", "failed", "left"},
}
_ONCE: dict[State, set[State]] = {
    "open": {"started", "left"},
    "started": {"started", "done", "failed", "open", "left"},
    "failed": {"done", "failed", "open", "left"},
}
_PERSON: dict[State, set[State]] = {
    "open": {"done"},
    "started": {"done", "open"},
    "failed": {"done", "open"},
    "left": {"done", "open"},
}
MOVES = {"automatic": _AUTO, "once": _ONCE, "person": _PERSON}
"""Who moves a step, and from where to where; nothing else is allowed."""


class LedgerError(Exception):
    """A move that the table does not have."""


@dataclass(frozen=True)
class Entry:
    """What became of one step."""

    name: str
    once: bool = False
    optional: bool = False
    state: State = "open"
    attempts: int = 0
    turn: int = 1
    token: int = 0
    """Of the lease under which a `once` step was started."""
    who: str = ""
    """The person who said that it is done."""
    result: Any = None
    error: str = ""
    """Of its last failure; of a step that is done: its result could not be kept."""

    @property
    def kind(self) -> str:
        return ("1" if self.once else "") + ("o" if self.optional else "") or "a"

    @property
    def has_effects(self) -> bool:
        """Whether `cancel` and `replace` must not remove the message."""
        ended_once = self.once and self.state in ("failed", "left")
        return self.state in ("started", "done") or ended_once or self.turn > 1

    def moved(self, state: State, *, by: str = "", **changes: Any) -> Entry:
        """This entry in another state. Raises LedgerError for a move that is not in the table."""
        table = MOVES[by or ("once" if self.once else "automatic")]
        asked_for_result = by == "person" and self.state == state == "done" and self.error
        if state not in table.get(self.state, set()) and not asked_for_result:
            raise LedgerError(f"step {self.name} can't go from {self.state} to {state}")
        return replace(self, state=state, **changes)


@dataclass(frozen=True)
class Ledger:
    """The entries of a message, in the order in which they came in."""

    stamp: int
    """The message's stamp when its first step began: a part of each step's key."""
    entries: tuple[Entry, ...] = ()
    log: tuple[str, ...] = ()

    def get(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    def put(self, entry: Entry) -> Ledger:
        """With this entry in place of the one of its name, or behind the others."""
        if self.get(entry.name) is None:
            return replace(self, entries=(*self.entries, entry))
        return replace(self, entries=tuple(entry if one.name == entry.name else one for one in self.entries))

    def logged(self, error: str) -> Ledger:
        return replace(self, log=(*self.log, error)[-LOG:])

    @property
    def has_effects(self) -> bool:
        return any(entry.has_effects for entry in self.entries)

    @property
    def results(self) -> dict[str, Any]:
        """What the steps that are done returned; none for one whose result could not be kept."""
        return {entry.name: entry.result for entry in self.entries if entry.state == "done" and not entry.error}


def key(queue: str, group: str, message_id: str, stamp: int, entry: Entry) -> str:
    """What a step hands to a provider, so that a repeat is known as one; it is short here."""
    parts = (queue, group, message_id, f"{stamp:016d}", entry.name)
    again = f"#{entry.turn}" if entry.turn > 1 else ""
    return "/".join(quote(part, safe="") for part in parts) + again
