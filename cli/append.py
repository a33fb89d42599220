"""`sequencer append`: NDJSON or CSV from a file or standard input."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, BinaryIO, Literal

from rich import progress
from rich.console import Console
from typer import Argument, Option

from ..client import Sequencer
from ..errors import ConfigurationError, InvalidMessage, OutcomeUnknown, QueueFull, ServerError
from ..settings.body_fields import merge_fields
from ..settings.options import QueueOptions
from ..texts.answers import answer_text
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app, text_of
from .declared import takes
from .lines import CsvInput, parse
from .output import FINE, GAVE_UP, SERVER, WRONG_USE, Answer, say
from .tally import LINES, Interruption, OnError, Tally

CALL_BYTES = 1024 * 1024
"""Of lines in one call: so much is read before it is sent, and one line."""


@app.command()
@takes("append", QueueOptions)
def append(
    queue: QueueArgument,
    file: Annotated[str, Argument(help="NDJSON or .csv file; - is standard input.")] = "-",
    form: Annotated[
        Literal["ndjson", "csv"] | None, Option("--input", help="Format; without it, .csv files are CSV.")
    ] = None,
    on_error: Annotated[OnError, Option(help="What to do at a bad line.")] = "stop",
    chunk: Annotated[
        int | None, Option(min=1, max=1000, help="Lines per round trip, at most 1 MiB. Default: 200 a shard.")
    ] = None,
    replace: Annotated[bool, Option("--replace", help="Replace a pending message with the same id.")] = False,
    from_line: Annotated[int, Option(min=1, help="Start at this line of the input; the first is 1.")] = 1,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
    **given: Any,
) -> int:
    """Append messages from NDJSON or CSV.

    NDJSON has one JSON object per line; the header of a CSV names the fields. A line is {"group": [...], "body": ...,
    "id": ..., "score": ..., "headers": ..., "delay": "5m" or seconds, "at": seconds since 1970, "done": {step:
    result}}; with --group-by, any other line is a body. A score or "at" may be ISO 8601 text. user.id names a nested
    field. The queue remembers --group-by, --id-by and --score-by from its first use. A line printed by `consume`
    is appended as that message, with its group, id and score. In a CSV every value is text, except a number in the
    score field.
    """
    client = Sequencer(queue, redis, namespace=namespace, **given)
    began = time.monotonic()
    tally = Tally(client, on_error, replace, chunk, last_line=from_line - 1)
    why, status, is_unknown, is_past_end = "", FINE, False, from_line > 1
    with _opened(file) as source, client:
        fields = merge_fields(queue, client.fields, client.options.fields)
        is_envelope = fields.group_by is None
        lines: Iterator[tuple[int, Any]] = ((number, line) for number, line in enumerate(source, 1) if line.strip())
        read: Callable[[Any], Any] = partial(parse, is_envelope=is_envelope)
        if form == "csv" or (form is None and file.lower().endswith(".csv")):
            if is_envelope:
                raise ConfigurationError("csv_without_group_by")
            rows = CsvInput(source, fields.score_by, client.options.max_body_bytes)
            lines, read = iter(rows), rows.body
        numbered = ((number, line) for number, line in lines if number >= from_line)
        interruption = Interruption()
        try:
            while not tally.problem and (some := _some(numbered, tally)):
                is_past_end, good = False, tally.readable(some, read)
                with interruption.sending():
                    tally.add(good)
            tally.problem = tally.problem or tally.end
            if is_past_end and not tally.problem:
                raise ConfigurationError("input_too_short", from_line=from_line)
            if not (tally.refused or tally.problem):
                client.connect()  # an input without a line makes it too: nothing in it was wrong
        except KeyboardInterrupt:
            why, status, is_unknown = "interrupted", interruption.status, interruption.is_sending
        except (ServerError, QueueFull, OutcomeUnknown) as error:
            why, status = f"error: {error}", SERVER
            is_unknown = isinstance(error, OutcomeUnknown) or bool(error.fields.get("stored"))
    if not why and tally.problem:
        why, status = f"error: {tally.problem}", WRONG_USE
        why += "" if tally.end else "; --on-error skip skips such lines"
    if why:
        last, perhaps = tally.last_line, (tally.chunk or LINES) if is_unknown or tally.is_partial else 0
        # Not a run from the beginning: it would add again what was handled longer than `dedup_window` ago.
        say(answer_text("broken_off", why=why, last=last, next=last + 1, refused=tally.refused, perhaps=perhaps))
        tally.refused += bool(tally.problem)
    _counts(tally, time.monotonic() - began).show(json)
    for count, is_dead in ((tally.dropped, False), (tally.dead, True)):
        if count:
            say(text_of(client, "late_lines", count=count, is_dead=is_dead))
    if tally.refused and not why:
        say(text_of(client, "lines_refused", count=tally.refused))
        return GAVE_UP
    return status


def _some(numbered: Iterator[tuple[int, Any]], tally: Tally) -> list[tuple[int, Any]]:
    """The next lines for one call. What is read before the input breaks off is not lost."""
    some, size = list[tuple[int, Any]](), 0
    try:
        for number, line in numbered:
            some.append((number, line))
            size += len(line) if isinstance(line, bytes) else sum(map(len, line))
            if len(some) == (tally.chunk or LINES) or size >= CALL_BYTES:
                break
    except InvalidMessage as error:
        tally.end = str(error)
    return some


def _counts(tally: Tally, elapsed_s: float) -> Answer:
    rate = tally.appended / elapsed_s if elapsed_s else 0.0
    counts = {name: getattr(tally, name) for name in ("appended", "duplicates", "refused", "dropped", "dead")}
    text = answer_text("appended", **counts, bad=tally.refused, seconds=elapsed_s, rate=rate)
    return Answer({**counts, "seconds": round(elapsed_s, 3), "rate": round(rate, 1)}, text)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    screen: dict[str, Any] = {"console": Console(stderr=True), "transient": True, "disable": not sys.stderr.isatty()}
    try:
        opened = progress.open(file, "rb", description="appending", **screen)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError("input_unreadable", file=file, error=str(said)) from error
    with opened as stream:
        yield stream
