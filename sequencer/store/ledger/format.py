"""A ledger as bytes, and back. It is JSON:

    {"k": STAMP, "s": [[name, kind, state, attempts, runs, turn, token or who, at, took, result, error], ...],
     "log": [[attempt, at, error], ...]}

Kind is what holds of the step: `1` (once), `o` (optional), `i` (inline), in this order, or `a` where nothing does. A
state is its first letter. A row ends early where there is no error, or neither result nor error; `log` is missing where
it is empty.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, TypeVar, get_args

import orjson

from ...texts.words import many
from ..text import has_non_finite
from .entries import LOG, Entry, Ledger, LedgerError, PastAttempt, State

T = TypeVar("T")
MAX_STEPS = 64
MAX_RESULT_BYTES = 16 * 1024
MAX_LEDGER_BYTES = 64 * 1024
"""More is not written: each note writes the whole ledger."""
SPARE_BYTES = 16 * 1024
"""Of a ledger: what results leave for the errors that may come."""
MAX_COUNT = 999_999
"""Of attempts, runs and turns: beyond, nobody counted."""
MAX_STAMP = 10**16 - 1
_LETTERS: dict[State, str] = {state: state[0] for state in get_args(State)}
_STATES: dict[str, State] = {letter: state for state, letter in _LETTERS.items()}
_KINDS = {
    ("1" if once else "") + ("o" if optional else "") + ("i" if inline else "") or "a": (once, optional, inline)
    for once, optional, inline in product((False, True), repeat=3)
}
"""Kind -> once, optional, inline."""


def kept_result(result: Any) -> Any:
    """What JSON makes of a step's result: so the first run has what a later one reads.

    Raises LedgerError, with the size, for one that is too large or no JSON.
    """
    return orjson.loads(_result_bytes(result))


def _result_bytes(result: Any) -> bytes:
    try:
        kept = orjson.dumps(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise LedgerError(f"the result can't be written as JSON: {error}") from error
    if b"null" in kept and has_non_finite(result):
        raise LedgerError("the result holds NaN or infinity, which JSON has no word for")
    if len(kept) > MAX_RESULT_BYTES:
        raise LedgerError(f"the result is {len(kept)} bytes as JSON, at most {MAX_RESULT_BYTES}")
    return kept


def encode_ledger(ledger: Ledger) -> bytes:
    """As the record keeps it. Raises LedgerError where a cap is passed, or a value is out of its range."""
    words: dict[str, Any] = {"k": ledger.stamp, "s": [_row(entry) for entry in ledger.entries]}
    if ledger.log:
        words["log"] = [[one.attempt, one.at, one.error] for one in ledger.log]
    _checked(ledger)
    try:
        text = orjson.dumps(words)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"the ledger can't be written as JSON: {error}") from error
    if len(text) > MAX_LEDGER_BYTES:
        raise LedgerError(f"the ledger is {len(text)} bytes long, at most {MAX_LEDGER_BYTES}")
    return text


def check_room(written: bytes) -> None:
    """Raises LedgerError where a result leaves too little: then a step that ran might not be noted."""
    if len(written) > (most := MAX_LEDGER_BYTES - SPARE_BYTES):
        raise LedgerError(f"the results of all steps together are over {most} bytes")


def _row(entry: Entry) -> list[Any]:
    end: list[Any] = [entry.result, entry.error] if entry.error else [] if entry.result is None else [entry.result]
    if end and entry.result is not None:
        try:
            end[0] = orjson.Fragment(_result_bytes(entry.result))
        except LedgerError as error:
            raise LedgerError(f"step {entry.name}: {error}") from error.__cause__
    who = entry.who or entry.token
    counts = entry.attempts, entry.runs, entry.turn
    return [entry.name, entry.kind, _LETTERS[entry.state], *counts, who, entry.at, entry.took_s, *end]


def _checked(ledger: Ledger) -> Ledger:
    """This ledger. Raises LedgerError where a value is out of its range."""
    if not 0 <= ledger.stamp <= MAX_STAMP:
        raise LedgerError(f"the ledger's stamp is {ledger.stamp}")
    names = {entry.name for entry in ledger.entries}
    if "" in names or len(names) < len(ledger.entries):
        raise LedgerError("the ledger has two steps of one name, or one without a name")
    if len(ledger.entries) > MAX_STEPS:
        raise LedgerError(f"the ledger has {len(ledger.entries)} steps, at most {MAX_STEPS}")
    if len(ledger.log) > LOG:
        raise LedgerError(f"the ledger's log has {many(len(ledger.log), 'line')}, at most {LOG}")
    for entry in ledger.entries:
        counts = min(entry.attempts, entry.runs) >= 0 and max(entry.attempts, entry.runs) <= MAX_COUNT
        if not (counts and 1 <= entry.turn <= MAX_COUNT and 0 <= entry.token <= MAX_STAMP):
            raise LedgerError(f"step {entry.name}: a count is out of its range")
    times = [*[(entry.at, entry.took_s) for entry in ledger.entries], *[(one.at, 0.0) for one in ledger.log]]
    if not all(math.isfinite(at) and math.isfinite(took) for at, took in times):
        raise LedgerError("the ledger has a time that is no finite number")
    return ledger


def decode_ledger(text: bytes) -> Ledger:
    """The ledger of a record. Raises LedgerError, and nothing else, for what no client of this version wrote."""
    try:
        words = orjson.loads(text)
    except ValueError as error:
        raise LedgerError(f"the ledger is unreadable: {error}") from error
    try:
        if not {"k", "s"} <= set(_typed(dict, words)) <= {"k", "s", "log"}:
            raise TypeError("its fields are " + ", ".join(words))
        entries = [_entry(*_fields(row, 9, 11)) for row in _typed(list, words["s"])]
        log = [_tried(*_fields(line, 3, 3)) for line in _typed(list, words.get("log", []))]
        return _checked(Ledger(_typed(int, words["k"]), tuple(entries), tuple(log)))
    except (TypeError, KeyError) as error:
        raise LedgerError(f"the ledger is unreadable: {error}") from error


def _entry(
    name: Any,
    kind: Any,
    state: Any,
    attempts: Any,
    runs: Any,
    turn: Any,
    who: Any,
    at: Any,
    took: Any,
    result: Any = None,
    error: Any = "",
) -> Entry:
    once, optional, inline = _KINDS[_typed(str, kind)]
    token, person = (0, who) if type(who) is str else (_typed(int, who), "")
    state, attempts, runs, turn = (
        _STATES[_typed(str, state)],
        _typed(int, attempts),
        _typed(int, runs),
        _typed(int, turn),
    )
    at, took, error = _seconds(at), _seconds(took), _typed(str, error)
    return Entry(
        _typed(str, name), once, optional, state, attempts, turn, token, person, at, took, result, error, inline, runs
    )


def _tried(attempt: Any, at: Any, error: Any) -> PastAttempt:
    return PastAttempt(_typed(int, attempt), _seconds(at), _typed(str, error))


def _fields(row: Any, least: int, most: int) -> list[Any]:
    if not least <= len(_typed(list, row)) <= most:
        raise TypeError(f"a row has {len(row)} fields")
    return list(row)


def _typed(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} stands where it does not belong")
    return value


def _seconds(value: Any) -> float:
    return float(value) if type(value) is int else _typed(float, value)
