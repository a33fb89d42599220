"""Values as tables of texts, which fit a terminal without cutting what somebody has to copy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from ..texts.words import duration, moment, plain
from ..values.message import Failure, PastAttempt

GAP_FROM = 100
"""Columns of a terminal from which on cells are two blanks apart."""
MIN_CUT = 16
"""Columns that a text which may be cut keeps."""


def terminal_width() -> int | None:
    """Columns of the terminal on standard output. None without one: what goes into a pipe is for grep, and is whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(rows: Sequence[Mapping[str, Any]], leave_out: str = "", cut: str = "") -> str:
    """Rows under the names of their columns, of which a row may leave some out; "" without rows.

    Where the terminal is too narrow, the texts of column `cut` are cut, then columns are left out, in this order. What
    is left may still be wider: that wraps the line, and what is copied of it is whole.
    """
    if not rows:
        return ""
    names = dict.fromkeys(name for row in rows for name in row)
    texts = [{name: name for name in names}, *({name: cell(row.get(name, "")) for name in names} for row in rows)]
    widths = {name: max(cell_len(row[name]) for row in texts) for name in names}
    width, rest = terminal_width(), list(filter(None, leave_out.split(", ")))
    gap = 2 if width is None or width >= GAP_FROM else 1
    while width is not None and (over := sum(widths.values()) + gap * (len(widths) - 1) - width) > 0:
        if widths.get(cut, 0) - over >= MIN_CUT:
            widths[cut] -= over
        elif rest:
            widths.pop(rest.pop(0), None)
        else:
            break
    return "\n".join((" " * gap).join(_fitted(row[name], widths[name]) for name in widths).rstrip() for row in texts)


def marked(rows: list[dict[str, Any]], at: int | None) -> list[dict[str, Any]]:
    """Rows with a mark before one of them; as they are for None."""
    return rows if at is None else [{"": ">" if number == at else " ", **row} for number, row in enumerate(rows)]


def fields(values: Mapping[str, Any]) -> str:
    """One thing, a field a line; those that it does not have are left out."""
    shown = {name: cell(value) for name, value in values.items() if value not in (None, "")}
    width = max(map(len, shown))
    return "\n".join(f"{name:{width}}  {text}" for name, text in shown.items())


def with_failure(said: dict[str, Any], error: Failure | None) -> str:
    """Fields, those of a failure, and below them its traceback."""
    if error is None:
        return fields(said)
    said |= {"error": error_words(error), "owner": error.owner, **log_fields(error.log)}
    return "\n".join([fields(said), *map(plain, error.traceback.splitlines())])


def error_words(error: Failure) -> str:
    return f"{error.type}: {error.message}"


def log_fields(log: Sequence[PastAttempt]) -> dict[str, str]:
    """What a message failed with, an attempt a line."""
    return {f"attempt {one.attempt}": f"{moment(one.at)} {one.error}" for one in log if one.attempt}


def cell(value: Any) -> str:
    """A value for people, without control characters of others' texts. A float is a duration in seconds."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return duration(value)
        case tuple():
            return plain(", ".join(value))
    return plain(value)


def _fitted(text: str, width: int) -> str:
    size = cell_len(text)
    return text + " " * (width - size) if size <= width else f"{set_cell_size(text, width - 3).rstrip()}..."


def when(at: float | None) -> str | None:
    return None if at is None else moment(at)


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.6f}".rstrip("0").rstrip(".")
