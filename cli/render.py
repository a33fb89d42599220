"""Tables for people and JSON for scripts, from the library's values."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from select import POLLOUT, poll  # bound here: an app that is refused for patching the library may have taken it
from typing import Any

import orjson
import typer
from rich.console import Console

from ..processes.logs import FLUSH_S
from ..texts.commands import command
from ..texts.explanations import no_consumers_text, start_consumers
from ..texts.words import json_line, many, moment, named, plain, quoted
from ..values.history import MessageInfo
from ..values.message import Message, PastAttempt
from ..values.views import DeadLetter, GroupInfo, QueueInfo, as_json
from .table import Column, Table


def console(*, err: bool = False) -> Console:
    """Prints as it is told: a line that is longer than the terminal is left to that, so that it can be copied whole."""
    return Console(highlight=False, markup=False, soft_wrap=True, stderr=err)


def terminal_width() -> int | None:
    """Columns of the terminal on standard output. None without one: what goes into a pipe is for grep, and is whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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
            writable = poll()
            writable.register(fd, POLLOUT)
            if writable.poll(1000 * FLUSH_S):
                os.write(fd, line.encode("utf-8", "backslashreplace"))


def table(*columns: str | Column) -> Table:
    """A table of texts. A column that is given by its name is always shown, and whole."""
    return Table([Column(one) if isinstance(one, str) else one for one in columns], terminal_width())


def cells(*texts: str) -> list[str]:
    """Texts of others as cells: no control character reaches the terminal."""
    return [plain(text) for text in texts]


def group_words(group: Sequence[str]) -> str:
    """A group as `explain` and others take it back."""
    return named(group)


def id_word(message_id: str) -> str:
    """An id as `--id` takes it back."""
    return quoted(message_id)


def print_json(value: Any) -> None:
    """One line of JSON: of a value, of a list of them, or of a dict of plain ones."""
    plain_value = as_json(value)
    try:
        line = orjson.dumps(plain_value, default=str).decode()
    except TypeError:  # bytes of others that are no UTF-8, as halves of a pair; an integer of more than 64 bits
        line = json.dumps(plain_value, default=str, separators=(",", ":"))
    sys.stdout.write(json_line(line) + "\n")
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
    """On a narrow terminal first without paused groups and dead letters, where there are none."""
    ranks = {"groups": 7, "due": 4, "leased": 6, "waiting": 6, "parked": 2, "paused": 5, "dead": 5}
    ranks |= {name: 10 for name in ("paused", "dead") if not any(getattr(info, name) for info in infos)}
    states = list(ranks)
    counts = [Column(name, ranks[name]) for name in states]
    ends = [Column("in/s", 8), Column("out/s", 8), Column("handled", 9)]
    rows = table("queue", Column("backlog", 1), Column("lag", 3), *counts, *ends)
    for info in infos:
        rates = ("-" if rate is None else f"{rate:,.0f}" for rate in (info.append_rate, info.handle_rate))
        numbers = (f"{getattr(info, name):,}" for name in states)
        name = f"{info.queue} (paused)" if info.is_paused else info.queue
        backlog = f"{'~' if info.is_estimate else ''}{info.backlog:,}"
        rows.add_row(*cells(name, backlog, seconds(info.lag_s), *numbers, *rates, f"{info.totals['handled']:,}"))
    return rows


def group_table(infos: list[GroupInfo]) -> Table:
    """A narrow terminal shows group and head in any case."""
    states = (Column("state", 1), Column("backlog", 2), "head", Column("age", 4), Column("attempts", 5))
    rows = table("group", *states, Column("due in", 6), Column("owner / failure", 3, is_cut=True))
    for info in infos:
        who = info.owner or ""
        if info.failure:
            who = f"{info.failure.type}: {info.failure.message}"[:100]
        head = "" if info.head_id is None else id_word(info.head_id)
        counts = (seconds(info.lag_s), str(info.attempts), seconds(info.due_in_s))
        rows.add_row(group_words(info.group), *cells(info.state, f"{info.backlog:,}", head, *counts, who))
    return rows


def outage_line(info: QueueInfo) -> str:
    """What holds the queue back, and the command that probes at once."""
    outage = info.outage
    assert outage is not None
    of = f" {outage.shards} of {many(info.shards, 'shard')}" if outage.shards < info.shards else ""
    said = f"{info.queue}: outage since {moment(outage.since)}{of}: {outage.error}; "
    said += f"next probe in {outage.next_probe_s:.1f} s; to probe at once: "
    return plain(said) + command("resume", info.queue, namespace=info.namespace, options=["--outage"])


def no_consumers_line(info: QueueInfo) -> str:
    """That nobody consumes the queue, and the command that begins to."""
    assert info.no_consumers is not None
    start = start_consumers(info.queue, info.namespace)
    said = f"{no_consumers_text(asdict(info.no_consumers))}; consume: {start}"
    return plain(f"{info.queue}: {said}")


def history_line(info: QueueInfo) -> str:
    """How far back the history of a queue goes."""
    assert info.history is not None
    reaches, window = seconds(info.history.reaches_s), seconds(info.history.window_s)
    return plain(f"{info.queue}: history {reaches} of {window}, {many(info.history.messages, 'message')}")


def message_info_table(infos: list[MessageInfo]) -> Table:
    """Messages that ended. A narrow terminal shows id, group and state in any case."""
    times = (Column("attempts", 5), Column("took", 3), Column("ended", 1), Column("consumer", 6), Column("kind", 4))
    bodies = [Column("body", 7, is_cut=True)] if any(info.message for info in infos) else []
    rows = table("id", "group", "state", *times, Column("note", 2, is_cut=True), *bodies)
    for info in infos:
        took_s = None if info.began_at is None else (info.finished_at or 0.0) - info.began_at
        values = (str(info.attempts), seconds(took_s), moment(info.finished_at or 0.0))
        body = orjson.dumps(info.message.body).decode()[:200] if info.message else ""
        rest = (*values, info.consumer, info.kind, info.note, *([body] if bodies else []))
        rows.add_row(id_word(info.id), group_words(info.group), *cells(info.state, *rest))
    return rows


def ended_fields(info: MessageInfo) -> dict[str, str]:
    """How a message ended."""
    times = {"appended": info.appended_at, "began": info.began_at, "ended": info.finished_at}
    fields = {name: moment(at) for name, at in times.items() if at is not None}
    fields |= {"took": seconds((info.finished_at or 0.0) - info.began_at)} if info.began_at is not None else {}
    fields |= {"attempts": str(info.attempts)}
    texts = {"consumer": info.consumer, "kind": info.kind, "note": info.note}
    return fields | {name: text for name, text in texts.items() if text}


def log_fields(log: Sequence[PastAttempt]) -> dict[str, str]:
    """What a message failed with, an attempt a line."""
    return {f"attempt {one.attempt}": f"{moment(one.at)} {one.error}" for one in log if one.attempt}


def message_table(messages: list[Message]) -> Table:
    """A narrow terminal shows the id in any case."""
    numbers = (Column("score", 3), Column("attempts", 4), Column("appended", 5))
    rows = table("id", *numbers, Column("body", 2, is_cut=True))
    for message in messages:
        body = message.body if isinstance(message.body, str) else orjson.dumps(message.body).decode()
        values = (number(message.score), str(message.attempt - 1), number(message.appended_at))
        rows.add_row(id_word(message.id), *cells(*values, body[:200]))
    return rows


def letter_table(letters: list[DeadLetter]) -> Table:
    """A narrow terminal shows id and group in any case."""
    numbers = (Column("score", 5), Column("attempts", 4), Column("died", 3))
    rows = table("id", "group", *numbers, Column("error", 2, is_cut=True))
    for dead in letters:
        message, error = dead.message, f"{dead.error.type}: {dead.error.message}"[:100]
        values = (number(message.score), str(dead.attempts), moment(dead.died_at))
        rows.add_row(id_word(message.id), group_words(message.group), *cells(*values, error))
    return rows


def policy_table(policy: dict[str, Any]) -> Table:
    rows = table("policy", "value")
    for name, value in policy.items():
        rows.add_row(*cells(name, _policy_text(name, value)))
    return rows


def _policy_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:,}" if name.endswith("_cap") else f"{number(value)} s"


def fields_table(fields: dict[str, str]) -> Table:
    """One thing, a field a line."""
    rows = Table([Column(""), Column("")], terminal_width())
    for name, value in fields.items():
        rows.add_row(*cells(name, value))
    return rows
