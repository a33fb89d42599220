"""Tables for people and JSON for scripts, from the library's values."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import asdict
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..message import GroupInfo, Message, QueueInfo

WIDE = 1000
"""Columns where no terminal limits them: a table in a pipe is for grep, not to be cut."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)


def _is_wide() -> bool:
    return not sys.stdout.isatty() or shutil.get_terminal_size().columns >= 100


def table(*columns: str) -> Table:
    """A table whose cells are shown as they are: no markup, and no control character reaches the terminal."""
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0) if _is_wide() else (0, 1, 0, 0))


def cells(*texts: str) -> list[Text]:
    return [Text(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)) for text in texts]


def print_json(value: Any) -> None:
    """One line of JSON."""
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE, default=str))
    sys.stdout.flush()


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for limit, unit, size in ((1, "ms", 0.001), (120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if value < limit:
            return f"{value / size:.{0 if size == 0.001 else 1}f} {unit}"
    return f"{value / 86_400:.1f} d"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.6f}".rstrip("0").rstrip(".")


def group_text(group: tuple[str, ...]) -> str:
    return " ".join(group)


def queue_table(infos: list[QueueInfo]) -> Table:
    rows = table("queue", "backlog", "lag", "groups", "due", "leased", "waiting", "parked", "in/s", "out/s", "handled")
    for info in infos:
        rates = ("-" if rate is None else f"{rate:,.0f}" for rate in (info.append_rate, info.handle_rate))
        counts = (f"{count:,}" for count in (info.groups, info.due, info.leased, info.waiting, info.parked))
        backlog = f"{'~' if info.is_estimate else ''}{info.backlog:,}"
        rows.add_row(*cells(info.queue, backlog, seconds(info.lag_s), *counts, *rates, f"{info.totals['handled']:,}"))
    return rows


def group_table(infos: list[GroupInfo]) -> Table:
    rows = table("group", "state", "backlog", "head", "age", "attempts", "due in", "owner / failure")
    for info in infos:
        who = info.owner or ""
        if info.failure:
            who = f"{info.failure.type}: {info.failure.message}"[:100]
        counts = (seconds(info.lag_s), str(info.attempts), seconds(info.due_in_s))
        rows.add_row(*cells(group_text(info.group), info.state, f"{info.backlog:,}", info.head_id or "", *counts, who))
    return rows


def message_table(messages: list[Message]) -> Table:
    rows = table("id", "score", "attempt", "appended", "body")
    for message in messages:
        body = message.body if isinstance(message.body, str) else orjson.dumps(message.body).decode()
        numbers = (number(message.score), str(message.attempt), number(message.appended_at))
        rows.add_row(*cells(message.id, *numbers, body[:200]))
    return rows


def message_json(message: Message) -> dict[str, Any]:
    return message._asdict()


def info_json(info: QueueInfo | GroupInfo) -> dict[str, Any]:
    return asdict(info)
