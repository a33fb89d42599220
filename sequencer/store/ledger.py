"""The ledger: what became of a message's steps, as its record keeps it. Pure.

Not here: what a ledger means for the next attempt (`drain`), where it stands in a record (`store.record`).
The rule: a script never reads a ledger; it puts it after the head of its record, and hands it out again.

As bytes it is JSON:

    {"k": STAMP, "s": [[name, kind, state, attempts, runs, turn, token or who, at, took, result, error], ...],
     "log": [[attempt, at, error], ...]}

Kind is what holds of the step: `1` (once), `o` (optional), `i` (inline), in this order, or `a` where nothing does. A
state is its first letter. A row ends early where there is no error, or neither result nor error; `log` is missing where
it is empty.

Before it a record has an effects digit, 4 hex digits of a serial, and 6 of a length. In Lua parts/record.lua cuts that,
and parts/ledger.lua compares serials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import product
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

import orjson

from ..errors import ConfigurationError, InvalidMessage, SequencerError
from ..values.message import PastAttempt
from .group import encode_group
from .text import cut_text, finite_json

State = Literal["open", "started", "done", "failed", "left"]
ERROR_BYTES = 512
LOG_ERROR_BYTES = 200
LOG = 5
"""How many failures of the past a ledger keeps."""

_AGAIN = frozenset[State](("open", "done", "failed", "left"))
_SAID = frozenset[State](("done", "open"))
MOVES: Mapping[str, Mapping[State, frozenset[State]]] = {
    "automatic": {"open": _AGAIN, "failed": _AGAIN},
    "once": {"open": frozenset(("started", "left")), "started": frozenset(("started", *_AGAIN)), "failed": _AGAIN},
    "person": {"open": frozenset(("done",)), "started": _SAID, "failed": _SAID, "left": _SAID},
}
"""Who moves a step, and from where to where; nothing else is allowed. A person may also give a result to a step that is
done and whose own could not be kept."""


class LedgerError(SequencerError, ValueError):
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
        return _KINDS[self.once, self.optional, self.inline]

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
            raise LedgerError("step_not_moved", step=self.name, state=self.state, to=state)
        if by == "person":
            changes.setdefault("token", 0)
        return replace(self, state=state, **changes)


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
        """With this entry in place of the one of its name, or after the others."""
        if self.get(entry.name) is None:
            return Ledger(self.stamp, (*self.entries, entry), self.log)
        return Ledger(self.stamp, tuple([entry if one.name == entry.name else one for one in self.entries]), self.log)

    def logged(self, attempt: int, at: float, error: str) -> Ledger:
        """With a failure; its error is cut."""
        tried = PastAttempt(attempt, at, cut_text(error, LOG_ERROR_BYTES))
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


# -- as bytes -------------------------------------------------------------------------------------------------------

MAX_STEPS = 64
MAX_RESULT_BYTES = 16 * 1024
MAX_LEDGER_BYTES = 64 * 1024
"""More is not written: each note writes the whole ledger."""
SPARE_BYTES = 16 * 1024
"""Of a ledger: what results leave for the errors that may come."""
MAX_COUNT = 999_999
"""Of attempts, runs and turns: beyond, nobody counted."""
MAX_STAMP = 10**16 - 1
_ENTRY = (str, str, str, int, int, int, (int, str), (int, float), (int, float), object, str)
"""Types of the fields of a row."""
_LINE = (int, (int, float), str)
_LETTERS: dict[State, str] = {state: state[0] for state in get_args(State)}
_STATES: dict[str, State] = {letter: state for state, letter in _LETTERS.items()}
_KINDS = {
    flags: "".join([letter for letter, is_it in zip("1oi", flags, strict=True) if is_it]) or "a"
    for flags in product((False, True), repeat=3)
}
"""Once, optional, inline -> kind."""
_FLAGS = {kind: flags for flags, kind in _KINDS.items()}


def kept_result(result: Any) -> Any:
    """What JSON makes of a step's result: so the first run has what a later one reads.

    Raises LedgerError, with the size, for one that is too large or no JSON.
    """
    return orjson.loads(finite_json("result", result, MAX_RESULT_BYTES, LedgerError))


def encode_ledger(ledger: Ledger) -> bytes:
    """As the record keeps it. Raises LedgerError where a cap is passed, or a value is out of its range."""
    words: dict[str, Any] = {"k": ledger.stamp, "s": [_row(entry) for entry in ledger.entries]}
    if ledger.log:
        words["log"] = [[one.attempt, one.at, one.error] for one in ledger.log]
    _checked(ledger)
    return finite_json("ledger", words, MAX_LEDGER_BYTES, LedgerError)


def check_room(written: bytes) -> None:
    """Raises LedgerError where a result leaves too little: then a step that ran might not be noted."""
    if len(written) > (most := MAX_LEDGER_BYTES - SPARE_BYTES):
        raise LedgerError("results_too_large", size=len(written), most=most)


def _row(entry: Entry) -> list[Any]:
    end: list[Any] = [entry.result, entry.error] if entry.error else [] if entry.result is None else [entry.result]
    who = entry.who or entry.token
    counts = entry.attempts, entry.runs, entry.turn
    return [entry.name, entry.kind, _LETTERS[entry.state], *counts, who, entry.at, entry.took_s, *end]


def _checked(ledger: Ledger) -> Ledger:
    """This ledger. Raises LedgerError where a value is out of its range, or two steps have one name."""
    names = {entry.name for entry in ledger.entries}
    is_right = 0 <= ledger.stamp <= MAX_STAMP and len(ledger.log) <= LOG
    if not is_right or "" in names or len(names) < len(ledger.entries) or not all(map(_is_right, ledger.entries)):
        raise LedgerError("ledger_damaged")
    if len(names) > MAX_STEPS:
        raise LedgerError("too_many_steps", count=len(names), most=MAX_STEPS)
    return ledger


def _is_right(entry: Entry) -> bool:
    counts = min(entry.attempts, entry.runs) >= 0 and max(entry.attempts, entry.runs) <= MAX_COUNT
    return counts and 1 <= entry.turn <= MAX_COUNT and 0 <= entry.token <= MAX_STAMP


def decode_ledger(text: bytes) -> Ledger:
    """The ledger of a record. Raises LedgerError, and nothing else, for what no client of this version wrote."""
    try:
        words = orjson.loads(text)
        if type(words) is not dict or not {"k", "s"} <= set(words) <= {"k", "s", "log"} or type(words["k"]) is not int:
            raise TypeError
        entries = [_entry(*_fields(row, _ENTRY, 9)) for row in _fields(words["s"])]
        lines = [_fields(line, _LINE, 3) for line in _fields(words.get("log", []))]
        log = [PastAttempt(attempt, float(at), error) for attempt, at, error in lines]
        ledger = Ledger(words["k"], tuple(entries), tuple(log))
    except (TypeError, ValueError, KeyError) as error:
        raise LedgerError("ledger_damaged") from error
    return _checked(ledger)


def _entry(
    name: str,
    kind: str,
    state: str,
    attempts: int,
    runs: int,
    turn: int,
    who: int | str,
    at: float,
    took_s: float,
    result: Any = None,
    error: str = "",
) -> Entry:
    once, optional, inline = _FLAGS[kind]
    token, person = (0, who) if isinstance(who, str) else (who, "")
    counts = attempts, turn, token, person, float(at), float(took_s)
    return Entry(name, once, optional, _STATES[state], *counts, result, error, inline, runs)


def _fields(row: Any, kinds: Sequence[Any] | None = None, least: int = 0) -> list[Any]:
    """The list, and where `kinds` are given, the types of its fields: all, or the first ones."""
    if type(row) is not list or (kinds and not least <= len(row) <= len(kinds)):
        raise TypeError
    for value, kind in zip(row, kinds or (), strict=False):
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
            raise TypeError
    return row


# -- as a record keeps it -------------------------------------------------------------------------------------------

MAX_SERIAL = 0xFFFF
_HEAD = 1 + 4 + 6
_HEX = b"0123456789abcdefABCDEF"


class Written(NamedTuple):
    """A ledger as a record keeps it."""

    ledger: bytes
    """Encoded."""
    serial: int
    """From 0 to 65535: each write counts on by one, and 0 comes after the last. A record whose own is not after it is
    left as it is: so a late repeat undoes nothing."""
    has_effects: bool
    """Whether `cancel` and `replace` must not throw the message away."""

    def next(self, ledger: bytes, *, has_effects: bool) -> Written:
        """What the write after this one brings."""
        return Written(ledger, (self.serial + 1) & MAX_SERIAL, has_effects)

    def text(self) -> bytes:
        """With the digits that stand before it."""
        return b"%d%04x%06x" % (self.has_effects, self.serial, len(self.ledger)) + self.ledger


def written_at(record: bytes, at: int) -> tuple[Written, int]:
    """The ledger that begins there, and where it ends. Never raises: a number that can't be read is 0."""
    begins = at + _HEAD
    ends = begins + _number(record[at + 5 : begins], 6)
    return Written(record[begins:ends], _number(record[at + 1 : at + 5], 4), record[at : at + 1] == b"1"), ends


def _number(digits: bytes, count: int) -> int:
    return int(digits, 16) if len(digits) == count and not digits.strip(_HEX) else 0


# -- steps that are done already when the message is appended -------------------------------------------------------

MAX_STEP_NAME = 100
"""Characters of a step's name: it is part of keys, commands and ledgers."""
HANDLER = "(handler)"
"""The entry that counts what the code of a handler raises outside of steps: no step has this name."""
PRODUCER = "producer"
"""Who says that a step is done, where the append did."""


def check_step_name(name: Any) -> None:
    """Raises ConfigurationError for what can't be a step's name."""
    is_text = isinstance(name, str) and name.isprintable() and 0 < len(name) <= MAX_STEP_NAME
    if not is_text or name == HANDLER:
        raise ConfigurationError("step_name_invalid", name=name, most=MAX_STEP_NAME)


def ledger_of_done(done: Any, stamp: int) -> bytes:
    """As a record keeps it, b"" of none: `done` maps the name of each step to its result. Raises InvalidMessage.

    `stamp`: part of the keys of its steps; the message gets its own only when it is stored.
    """
    if not isinstance(done, Mapping):
        raise InvalidMessage("steps_mapping_expected", name="done", value=done)
    if not done:
        return b""
    try:
        for name in done:
            check_step_name(name)
        entries = [Entry(name, state="done", who=PRODUCER, result=kept_result(result)) for name, result in done.items()]
        ledger = Ledger(stamp, tuple(entries))
        text = encode_ledger(ledger)
        check_room(text)
    except (ConfigurationError, LedgerError) as error:
        raise InvalidMessage("done_invalid", error=str(error)) from error
    return Written(b"", 0, has_effects=False).next(text, has_effects=ledger.has_effects).text()


# -- keys of steps --------------------------------------------------------------------------------------------------

MAX_KEY = 200
"""Characters; providers take 255."""
KEY_START, KEY_DIGEST = 100, 32
"""Of a longer one: its first characters, and hex digits of its SHA-256."""


def step_key(queue: str, group: str | Sequence[Any], message_id: str, stamp: int, entry: Entry) -> str:
    """What a step hands to a provider, so that a repeat is known as one: printable ASCII, at most 200 characters.

    `group`: encoded, or its parts. `stamp`: that of the ledger. After `--again` the step has another key.
    """
    again = f"#{entry.turn}" if entry.turn > 1 else ""
    start = _start(queue, group if isinstance(group, str) else encode_group(group), message_id, stamp)
    key = f"{start}/{_quoted(entry.name)}{again}"
    if len(key) <= MAX_KEY:
        return key
    return f"{key[:KEY_START]}~{sha256(key.encode()).hexdigest()[:KEY_DIGEST]}"


@lru_cache(maxsize=16)
def _start(queue: str, encoded: str, message_id: str, stamp: int) -> str:
    return "/".join([*map(_quoted, (queue, encoded, message_id)), f"{stamp:016d}"])


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="surrogateescape")
