"""`sequencer append`: NDJSON or CSV from a file or standard input."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, BinaryIO, Literal

import typer
from rich import progress
from rich.console import Console

from ..client import Sequencer
from ..errors import ConfigurationError, InvalidMessage, OutcomeUnknown, QueueFull, ServerError
from ..settings.body_fields import merge_fields
from ..settings.options import QueueOptions
from ..texts.commands import command
from ..texts.words import many, plain
from .app import (
    FINE,
    GAVE_UP,
    SERVER,
    WRONG_USE,
    JsonOption,
    NamespaceOption,
    QueueArgument,
    RedisOption,
    app,
    call_option,
    option,
)
from .declared import takes
from .lines import CsvInput, parse
from .queues import names_of_queues, new_queue_said
from .render import print_json
from .tally import LINES, Interruption, OnError, Tally, say_rest

CALL_BYTES = 1024 * 1024
"""Of lines in one call: so much is read before it is sent, and one line."""


@app.command()
@takes("append", QueueOptions)
def append(
    ctx: typer.Context,
    queue: QueueArgument,
    file: Annotated[str, typer.Argument(help="NDJSON or .csv file; - is standard input.")] = "-",
    form: Annotated[
        Literal["ndjson", "csv"] | None, call_option("--input", help="Format; without it, .csv files are CSV.")
    ] = None,
    on_error: Annotated[OnError, option("--on-error", help="What to do at a bad line.")] = "stop",
    chunk: Annotated[
        int, call_option("--chunk", min=1, max=1000, help="Lines per round trip; never more than 1 MiB.")
    ] = LINES,
    replace: Annotated[bool, call_option("--replace", help="Replace a pending message with the same id.")] = False,
    from_line: Annotated[
        int, call_option("--from-line", min=1, help="Start at this line of the input; the first is 1.")
    ] = 1,
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
    began, interruption = time.monotonic(), Interruption()
    tally = Tally(chunk=chunk, last_line=from_line - 1)
    with _opened(file) as source, client, new_queue_said():
        known = names_of_queues(client)
        if known is None or queue in known:  # else its first good line makes it: the name may be a typo
            client.connect()
        tally.fields = merge_fields(queue, client.fields, client.options.fields)
        is_envelope = tally.fields.group_by is None
        lines: Iterator[tuple[int, Any]] = _ndjson(source)
        read: Callable[[Any], Any] = partial(parse, is_envelope=is_envelope)
        if form == "csv" or (form is None and file.lower().endswith(".csv")):
            if is_envelope:
                raise ConfigurationError("a CSV needs --group-by, the columns that make up the group")
            rows = CsvInput(source, tally.fields.score_by, client.options.max_body_bytes)
            lines, read = iter(rows), rows.body
        try:
            with interruption.heard():
                numbered = _numbered(lines, tally, from_line)
                _append_lines(client, numbered, read, on_error, replace, tally, interruption)
            if not (tally.refused or tally.problem):
                client.connect()  # an input without a line makes it too: nothing in it was wrong
        except KeyboardInterrupt:
            say_rest(tally, ctx, "interrupted", is_unknown=interruption.is_sending)
            _say_counts(tally, time.monotonic() - began, json)
            return interruption.status
        except (ServerError, QueueFull, OutcomeUnknown) as error:
            say_rest(tally, ctx, f"error: {error}", is_unknown=isinstance(error, OutcomeUnknown))
            _say_counts(tally, time.monotonic() - began, json)
            return SERVER
    return _summarize(client, tally, ctx, time.monotonic() - began, json)


def _append_lines(
    client: Sequencer,
    numbered: Iterator[tuple[int, Any]],
    read: Callable[[Any], Any],
    on_error: OnError,
    replace: bool,
    tally: Tally,
    interruption: Interruption,
) -> None:
    while not tally.problem and (some := _some(numbered, tally.chunk)):
        good: list[tuple[int, Any]] = []
        problem = ""
        for number, line in some:
            try:
                good.append((number, read(line)))
            except ValueError as error:
                problem = f"line {number}: {error}"
                if on_error == "stop":
                    break
                typer.echo(plain(problem), err=True)
                tally.refused += 1
                problem = ""
        with interruption.sending():
            tally.add(client, good, on_error, replace)
        tally.problem = tally.problem or problem or tally.end
    tally.problem = tally.problem or tally.end  # where it ends before the first line


def _ndjson(source: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something."""
    return ((number, line) for number, line in enumerate(source, 1) if line.strip())


def _numbered(lines: Iterator[tuple[int, Any]], tally: Tally, first: int) -> Iterator[tuple[int, Any]]:
    """Those from line `first` on. What is read before the input breaks off is not lost."""
    number = 0
    try:
        for number, line in lines:
            if number >= first:
                yield number, line
    except InvalidMessage as error:
        tally.end = f"line {number}: {error}" if number else str(error)


def _some(numbered: Iterator[tuple[int, Any]], count: int) -> list[tuple[int, Any]]:
    """The next lines for one call."""
    some, size = list[tuple[int, Any]](), 0
    for number, line in itertools.islice(numbered, count):
        some.append((number, line))
        size += len(line) if isinstance(line, bytes) else sum(map(len, line))
        if size >= CALL_BYTES:
            break
    return some


def _summarize(client: Sequencer, tally: Tally, ctx: typer.Context, elapsed_s: float, as_json: bool) -> int:
    if tally.problem:
        hint = "" if tally.end else "; --on-error skip skips such lines"
        say_rest(tally, ctx, f"error: {tally.problem}{hint}")
        tally.refused += 1
    _say_counts(tally, elapsed_s, as_json)
    for count, fate in ((tally.dropped, "dropped"), (tally.dead, "made dead letters")):
        if count:
            see = command("doctor", client.queue, namespace=client.options.namespace)
            said = f"{many(count, 'late message')} {fate} (on_late): a higher score of that group was already handled"
            typer.echo(f"warning: {said}; if scores are times in different units, see: {see}", err=True)
    if tally.refused and not tally.problem:
        typer.echo(f"error: {many(tally.refused, 'line')} refused (see above); the others are stored", err=True)
    return WRONG_USE if tally.problem else GAVE_UP if tally.refused else FINE


def _say_counts(tally: Tally, elapsed_s: float, as_json: bool) -> None:
    rate = tally.appended / elapsed_s if elapsed_s else 0.0
    if as_json:
        counts = {"appended": tally.appended, "duplicates": tally.duplicates, "refused": tally.refused}
        counts |= {"dropped": tally.dropped, "dead": tally.dead}
        print_json({**counts, "seconds": round(elapsed_s, 3), "rate": round(rate, 1)})
    else:
        late = f", dropped {tally.dropped:,}" if tally.dropped else ""
        late += f", dead letters {tally.dead:,}" if tally.dead else ""
        typer.echo(
            f"appended {tally.appended:,}, duplicates {tally.duplicates:,}, refused {tally.refused:,}{late} "
            f"in {elapsed_s:.2f} s ({rate:,.0f}/s)"
        )


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
        raise typer.BadParameter(f"{file}: {said}", param_hint="FILE") from error
    with opened as stream:
        yield stream
