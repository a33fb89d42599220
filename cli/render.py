"""Tables for people and JSON for scripts, from the library's values."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from ..message import GroupInfo, Message, QueueInfo


def console() -> Console:
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


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
    table = Table("queue", "backlog", "lag", "groups", "due", "leased", "waiting", "parked", "in/s", "out/s", "handled")
    for info in infos:
        rates = ("-" if rate is None else f"{rate:,.0f}" for rate in (info.append_rate, info.handle_rate))
        counts = (f"{count:,}" for count in (info.groups, info.due, info.leased, info.waiting, info.parked))
        backlog = f"{'~' if info.is_estimate else ''}{info.backlog:,}"
        table.add_row(info.queue, backlog, seconds(info.lag_s), *counts, *rates, f"{info.totals['handled']:,}")
    return table


def group_table(infos: list[GroupInfo]) -> Table:
    table = Table("group", "state", "backlog", "head", "age", "attempts", "due in", "owner / failure")
    for info in infos:
        who = info.owner or ""
        if info.failure:
            who = f"{info.failure.type}: {info.failure.message}"[:100]
        table.add_row(
            group_text(info.group),
            info.state,
            f"{info.backlog:,}",
            info.head_id or "",
            seconds(info.lag_s),
            str(info.attempts),
            seconds(info.due_in_s),
            who,
        )
    return table


def message_table(messages: list[Message]) -> Table:
    table = Table("id", "score", "attempt", "appended", "body")
    for message in messages:
        body = message.body if isinstance(message.body, str) else orjson.dumps(message.body).decode()
        table.add_row(message.id, number(message.score), str(message.attempt), number(message.appended_at), body[:200])
    return table


def message_json(message: Message) -> dict[str, Any]:
    return message._asdict()


def info_json(info: QueueInfo | GroupInfo) -> dict[str, Any]:
    return asdict(info)
