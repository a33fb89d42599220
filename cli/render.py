"""Tables for people and JSON for scripts, from the library's values."""

from __future__ import annotations

import os
import select
import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..processes.logs import FLUSH_S
from ..values.commands import command
from ..values.message import Message
from ..values.text import plain
from ..values.views import DeadLetter, GroupInfo, QueueInfo, as_json

WIDE = 1000
"""Columns where no terminal limits them: a table in a pipe is for grep, not to be cut."""


def console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)


def _is_wide() -> bool:
    return not sys.stdout.isatty() or shutil.get_terminal_size().columns >= 100


def say(text: str) -> None:
    """A line on standard error. One that can't be written, or that nobody reads within FLUSH_S, is dropped: what a
    command did stands, and its status.
    """
    line, stream = f"{text}\n", sys.stderr
    with suppress(OSError, ValueError):
        try:
            fd = stream.fileno()
        except (OSError, ValueError):  # a test's
            stream.write(line)
        else:  # not by the stream: what it could not write would stay in its buffer, and be an error at the end
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            if poll.poll(1000 * FLUSH_S):
                os.write(fd, line.encode("utf-8", "backslashreplace"))


def table(*columns: str) -> Table:
    """A table whose cells are shown as they are: no markup, and no control character reaches the terminal."""
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0) if _is_wide() else (0, 1, 0, 0))


def cells(*texts: str) -> list[Text]:
    return [Text(plain(text)) for text in texts]


def print_json(value: Any) -> None:
    """One line of JSON: of a value, of a list of them, or of a dict of plain ones."""
    sys.stdout.buffer.write(orjson.dumps(as_json(value), option=orjson.OPT_APPEND_NEWLINE, default=str))
    sys.stdout.flush()


def print_either(as_json: bool, value: Any, text: str) -> None:
    """The value as JSON for scripts, or a text for people."""
    if as_json:
        print_json(value)
    else:
        typer.echo(text)


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for limit, unit, size in ((1, "ms", 0.001), (120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if value < limit:
            return f"{value / size:.{0 if size == 0.001 else 1}f} {unit}"
    return f"{value / 86_400:.1f} d"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.6f}".rstrip("0").rstrip(".")


def queue_table(infos: list[QueueInfo]) -> Table:
    """On a narrow terminal without the columns of what is not there: paused groups, dead letters."""
    shown = [name for name in ("paused", "dead") if _is_wide() or any(getattr(info, name) for info in infos)]
    states = ("groups", "due", "leased", "waiting", "parked", *shown)
    rows = table("queue", "backlog", "lag", *states, "in/s", "out/s", "handled")
    for info in infos:
        rates = ("-" if rate is None else f"{rate:,.0f}" for rate in (info.append_rate, info.handle_rate))
        counts = (f"{getattr(info, name):,}" for name in states)
        name = f"{info.queue} (paused)" if info.is_paused else info.queue
        backlog = f"{'~' if info.is_estimate else ''}{info.backlog:,}"
        rows.add_row(*cells(name, backlog, seconds(info.lag_s), *counts, *rates, f"{info.totals['handled']:,}"))
    return rows


def group_table(infos: list[GroupInfo]) -> Table:
    rows = table("group", "state", "backlog", "head", "age", "attempts", "due in", "owner / failure")
    for info in infos:
        who = info.owner or ""
        if info.failure:
            who = f"{info.failure.type}: {info.failure.message}"[:100]
        counts = (seconds(info.lag_s), str(info.attempts), seconds(info.due_in_s))
        rows.add_row(*cells(" ".join(info.group), info.state, f"{info.backlog:,}", info.head_id or "", *counts, who))
    return rows


def outage_line(info: QueueInfo) -> Text:
    """What holds the queue back, and the command that probes at once."""
    outage = info.outage
    assert outage is not None
    of = f" {outage.lanes} of {info.lanes} lanes" if outage.lanes < info.lanes else ""
    said = f"{info.queue}: outage since {moment(outage.since)}{of}: {outage.error}; "
    said += f"next probe in {outage.next_probe_s:.1f} s; to probe at once: "
    return Text(plain(said) + command("resume", info.queue, namespace=info.namespace, options=["--outage"]))


def message_table(messages: list[Message]) -> Table:
    rows = table("id", "score", "attempt", "appended", "body")
    for message in messages:
        body = message.body if isinstance(message.body, str) else orjson.dumps(message.body).decode()
        numbers = (number(message.score), str(message.attempt), number(message.appended_at))
        rows.add_row(*cells(message.id, *numbers, body[:200]))
    return rows


def letter_table(letters: list[DeadLetter]) -> Table:
    rows = table("id", "group", "score", "attempts", "died", "error")
    for dead in letters:
        message, error = dead.message, f"{dead.error.type}: {dead.error.message}"[:100]
        numbers = (number(message.score), str(dead.attempts), moment(dead.died_at))
        rows.add_row(*cells(message.id, " ".join(message.group), *numbers, error))
    return rows


def policy_table(policy: dict[str, Any], was: dict[str, Any]) -> Table:
    rows = table("policy", "value", *(["was"] if was else []))
    for name, value in policy.items():
        old = [_policy_text(name, was[name]) if name in was else ""] if was else []
        rows.add_row(*cells(name, _policy_text(name, value), *old))
    return rows


def _policy_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:,}" if name.endswith("_cap") else f"{number(value)} s"


def fields_table(fields: dict[str, str]) -> Table:
    """One thing, a field a line."""
    rows = Table(box=None, pad_edge=False, show_header=False)
    for name, value in fields.items():
        rows.add_row(*cells(name, value))
    return rows


def moment(at: float) -> str:
    """Seconds since 1970 for people; UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
