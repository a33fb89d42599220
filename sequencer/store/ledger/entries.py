"""The entries of a ledger, and the table of moves that a step may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

State = Literal["open", "started", "done", "failed", "left"]
ERROR_BYTES = 512
LOG_ERROR_BYTES = 200
LOG = 5
"""How many failures of the past a ledger keeps."""

_AUTO: Mapping[State, frozenset[State]] = {
    "open": frozenset({"open", "done", "failed", "left"}),
    "failed": frozenset({"open", "done", "failed", "left"}),
}
_ONCE: Mapping[State, frozenset[State]] = {
    "open": frozenset({"started", "left"}),
    "started": frozenset({"started", "done", "failed", "open", "left"}),
    "failed": frozenset({"done", "failed", "open", "left"}),
}
_PERSON: Mapping[State, frozenset[State]] = {
    "open": frozenset({"done"}),
    "started": frozenset({"done", "open"}),
    "failed": frozenset({"done", "open"}),
    "left": frozenset({"done", "open"}),
}
MOVES: Mapping[str, Mapping[State, frozenset[State]]] = {"automatic": _AUTO, "once": _ONCE, "person": _PERSON}
"""Who moves a step, and from where to where; nothing else is allowed. A person may also give a result to a step that is
done and whose own could not be kept."""


class LedgerError(ValueError):
    """A move that MOVES lacks, a cap that is passed, or bytes that are no ledger of this version."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one step."""

    name: str
    once: bool = False
    optional: bool = False
    state: State = "open"
    attempts: int = 0
    """Since the message was last parked or set aside: what counts for its limit."""
    turn: int = 1
    token: int = 0
    """Of the lease under which a `once` step was started."""
    who: str = ""
    """The person who said that it is done; then no token is kept."""
    at: float = 0.0
    """When it last moved, in seconds since 1970."""
    took_s: float = 0.0
    result: Any = None
    """What it returned, as JSON has it."""
    error: str = ""
    """Of its last failure, cut to 512 bytes; of a step that is done: why its result could not be kept."""
    inline: bool = False
    """Whether the code of a handler made it, which need not call it again; a step that was declared has to be done."""
    runs: int = 0
    """How often it was called, in all: a `once` step from its start on. An answer names the run that it is for."""

    def __post_init__(self) -> None:
        if self.error:
            object.__setattr__(self, "error", cut_text(self.error, ERROR_BYTES))

    @property
    def kind(self) -> str:
        return ("1" if self.once else "") + ("o" if self.optional else "") + ("i" if self.inline else "") or "a"

    @property
    def has_effects(self) -> bool:
        """Whether `cancel` and `replace` must not remove the message."""
        ended_once = self.once and self.state in ("failed", "left")
        return self.state in ("started", "done") or ended_once or self.turn > 1

    def moved(self, state: State, *, by: str = "", **changes: Any) -> Entry:
        """This entry in another state; `by` "person" where somebody said so. Raises LedgerError for no such move."""
        allowed = MOVES[by or ("once" if self.once else "automatic")].get(self.state, frozenset())
        is_result = by == "person" and self.state == state == "done" and self.error
        if state not in allowed and not is_result:
            raise LedgerError(f"step {self.name} can't go from {self.state} to {state}")
        if by == "person":
            changes.setdefault("token", 0)
        return replace(self, state=state, **changes)


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A failure of the past: a line of the log."""

    attempt: int
    at: float
    """In seconds since 1970."""
    error: str
    """Cut to 200 bytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", cut_text(self.error, LOG_ERROR_BYTES))


@dataclass(frozen=True, slots=True)
class Ledger:
    """The entries of a message, in the order in which they came in."""

    stamp: int
    """The message's stamp when its first step began: a part of each step's key."""
    entries: tuple[Entry, ...] = ()
    log: tuple[PastAttempt, ...] = ()
    """The last five failures, the oldest first."""

    def get(self, name: str) -> Entry | None:
        for entry in self.entries:  # fifty times a message: a generator takes four times as long
            if entry.name == name:
                return entry
        return None

    def put(self, entry: Entry) -> Ledger:
        """With this entry in place of the one of its name, or behind the others."""
        if self.get(entry.name) is None:
            return Ledger(self.stamp, (*self.entries, entry), self.log)
        return Ledger(self.stamp, tuple([entry if one.name == entry.name else one for one in self.entries]), self.log)

    def logged(self, tried: PastAttempt) -> Ledger:
        return replace(self, log=(*self.log, tried)[-LOG:])

    @property
    def has_effects(self) -> bool:
        return any(entry.has_effects for entry in self.entries)

    @property
    def attempts(self) -> int:
        """The most of a step."""
        return max((entry.attempts for entry in self.entries), default=0)

    @property
    def failures(self) -> int:
        """The most of a step after which the message was retried."""
        return max((entry.attempts - (entry.state in ("done", "left")) for entry in self.entries), default=0)

    @property
    def results(self) -> dict[str, Any]:
        """What the steps that are done returned; none for one whose result could not be kept."""
        return {entry.name: entry.result for entry in self.entries if entry.state == "done" and not entry.error}


def cut_text(text: str, most: int) -> str:
    """The first bytes of a text; what is no text (lone surrogates) comes as escapes."""
    return text.encode("utf-8", "backslashreplace")[:most].decode("utf-8", "ignore")
