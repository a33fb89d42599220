"""The ledger of a message that is appended with steps already done, and what may be the name of a step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError, InvalidMessage, shown
from .entries import Entry, Ledger, LedgerError
from .format import check_room, encode_ledger, kept_result
from .written import Written

MAX_STEP_NAME = 100
"""Characters of a step's name: it is part of keys, commands and ledgers."""
HANDLER = "(handler)"
"""The entry that counts what the code of a handler raises outside of steps: no step has this name."""
PRODUCER = "producer"
"""Who says that a step is done, where the append did."""


def check_step_name(name: Any) -> None:
    """Raises ConfigurationError for what can't be a step's name."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_STEP_NAME:
        raise ConfigurationError(f"step name {shown(name)} must be 1 to {MAX_STEP_NAME} printable characters")
    if name == HANDLER:
        raise ConfigurationError(f"{HANDLER} stands for the code around the steps; give the step another name")


def ledger_of_done(done: Any, stamp: int) -> bytes:
    """As a record keeps it, b"" of none: `done` maps the name of each step to its result. Raises InvalidMessage.

    `stamp`: part of the keys of its steps; the message gets its own only when it is stored.
    """
    if not isinstance(done, Mapping):
        raise InvalidMessage(f"done={shown(done)} must be a mapping: name of a step -> its result")
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
        raise InvalidMessage(f"done can't be kept: {error}") from error
    return Written(b"", 0, has_effects=False).next(text, has_effects=ledger.has_effects).text()
