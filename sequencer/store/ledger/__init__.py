"""The ledger: what became of a message's steps, as its record keeps it. Pure.

Not here: what a ledger means for the next attempt (`drain`), where it stands in a record (`store.record`).
The rule: a script never reads a ledger; it puts it behind the head of its record, and hands it out again.
"""

from .done import HANDLER, check_step_name, ledger_of_done
from .entries import MOVES, Entry, Ledger, LedgerError, PastAttempt, State
from .format import (
    MAX_COUNT,
    MAX_LEDGER_BYTES,
    MAX_RESULT_BYTES,
    MAX_STAMP,
    MAX_STEPS,
    check_room,
    decode_ledger,
    encode_ledger,
    kept_result,
)
from .key import step_key
from .written import MAX_SERIAL, Written

__all__ = [
    "HANDLER",
    "MAX_COUNT",
    "MAX_LEDGER_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_SERIAL",
    "MAX_STAMP",
    "MAX_STEPS",
    "MOVES",
    "Entry",
    "Ledger",
    "LedgerError",
    "PastAttempt",
    "State",
    "Written",
    "check_room",
    "check_step_name",
    "decode_ledger",
    "encode_ledger",
    "kept_result",
    "ledger_of_done",
    "step_key",
]
