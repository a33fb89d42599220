"""`sequencer append`: NDJSON from a file or standard input."""

from __future__ import annotations

import itertools
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from ..client import Sequencer
from ..errors import BatchRefused, InvalidMessage
from ..settings.body_fields import BodyFields
from ..settings.events import many
from ..settings.options import DEFAULTS, QueueSettings
from ..values.message import BatchReceipt
from ..values.text import plain
from .app import (
    FINE,
    GAVE_UP,
    INTERRUPTED,
    WRONG_USE,
    JsonOption,
    NamespaceOption,
    QueueArgument,
    RedisOption,
    app,
    call_option,
    option,
)
from .interruption import Interruption
from .lines import GZIP, parse, unpacked
from .render import print_json

LINES = 128
"""In one call, and in its chunk unless they are large: where one is refused, nothing of its chunk is stored."""
CALL_BYTES = 1024 * 1024
"""Of lines in one call: so much is read before it is sent, and one line."""
OnError = Literal["stop", "skip"]


@dataclass(slots=True)
class Tally:
    """What became of the lines so far; `problem` ends the run."""

    appended: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    dead: int = 0
    chunk: int = LINES
    """The most lines in one call."""
    fields: BodyFields = field(default_factory=BodyFields)
    """Those of the queue."""
    problem: str = ""
    end: str = ""
    """Why the input can't be read to its end."""
    last_line: int = 0
    """The last line of the input of which is known what became of it."""
    has_ids: bool = True
    """Whether each message had an id of its own, so that to append it again adds nothing."""

    def add(self, queue: Sequencer, lines: list[tuple[int, Any]], on_error: OnError, replace: bool) -> None:
        """Append the bodies of numbered lines; at a bad one, stop behind those before it, or count it and go on."""
        self.has_ids = self.has_ids and all(
            self.fields.id_by or (isinstance(body, dict) and "id" in body and not self.fields.group_by)
            for _, body in lines
        )
        last_line = lines[-1][0] if lines else self.last_line
        try:
            bodies = [body for _, body in lines]
            receipt = queue.append_many(bodies, on_refused=on_error, chunk=self.chunk, replace=replace)
        except BatchRefused as error:
            first = error.refused[0]
            self.problem = f"line {lines[first.index][0]}: {first.error}"
            last_line = lines[first.index][0] - 1
            done = error.earlier
            self._count(done)
            own = error.stored - done.appended
            self.appended += own  # of the lanes that were stored when another one refused
            begin = done.appended + done.duplicates + done.dropped + done.dead
            before = [] if own else [body for _, body in lines[begin : first.index]]
            receipt = queue.append_many(before, on_refused="skip", chunk=self.chunk, replace=replace)
        self._count(receipt)
        self.refused += len(receipt.refused)
        for refused in receipt.refused:
            typer.echo(plain(f"line {lines[refused.index][0]}: {refused.error}"), err=True)
        self.last_line = last_line

    def _count(self, receipt: BatchReceipt) -> None:
        self.appended += receipt.appended
        self.duplicates += receipt.duplicates
        self.dropped += receipt.dropped
        self.dead += receipt.dead


@app.command()
def append(
    queue: QueueArgument,
    file: Annotated[str, typer.Argument(help="NDJSON file, gzipped or not; - for standard input.")] = "-",
    group_by: Annotated[
        str | None, option("--group-by", help="Body fields that make the group: user_id,order_id")
    ] = None,
    id_by: Annotated[str | None, option("--id-by", help="Body field that is the id.")] = None,
    score_by: Annotated[str | None, option("--score-by", help="Body field that is the score.")] = None,
    on_error: Annotated[OnError, option("--on-error", help="At a bad line.")] = "stop",
    chunk: Annotated[
        int,
        call_option("--chunk", min=1, help="Lines in one round trip, at most 1000; never more than 1 MiB."),
    ] = LINES,
    replace: Annotated[
        bool, call_option("--replace", help="Take the place of a pending message with the same id.")
    ] = False,
    max_body_bytes: Annotated[int, option("--max-body-bytes", help="Largest body.")] = DEFAULTS["max_body_bytes"],
    lanes: Annotated[int | None, option("--lanes", help="Shards; fixed at first use.")] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Append messages, one JSON object a line.

    With --group-by a line is a body; without, it is {"group": [...], "body": ..., "id": ..., "score": ...,
    "headers": ..., "delay": seconds from now, "at": seconds since 1970}. A score may be ISO 8601 text. user.id names a
    field of a field. The queue remembers --group-by, --id-by and --score-by from its first use on.
    """
    fields = tuple(part.strip() for part in group_by.split(",")) if group_by else None
    settings: QueueSettings = {
        "group_by": fields,
        "id_by": id_by,
        "score_by": score_by,
        "max_body_bytes": max_body_bytes,
        "lanes": lanes,
    }
    client = Sequencer(queue, redis, namespace=namespace, **settings)
    began, tally, interruption = time.monotonic(), Tally(chunk=chunk), Interruption()
    with _opened(file) as source, client:
        client.connect()
        tally.fields = client.fields
        try:
            with interruption.heard():
                _append_lines(client, source, on_error, replace, tally, interruption)
        except KeyboardInterrupt:
            _say_interrupted(tally, file, interruption.is_sending)
            _summarize(tally, time.monotonic() - began, json)
            return INTERRUPTED
    return _summarize(tally, time.monotonic() - began, json)


def _say_interrupted(tally: Tally, file: str, is_unknown: bool) -> None:
    stored = f"interrupted: what stands up to line {tally.last_line:,} is stored"
    if is_unknown:
        stored += f", and of the {tally.chunk} lines behind it perhaps some"
    if tally.has_ids:
        again = "a rerun adds nothing twice, because each message has an id"
    else:
        rest = f"tail -n +{tally.last_line + 1} {'' if file == '-' else shlex.quote(file)}".rstrip()
        again = f"a rerun stores them again, because they have no ids; go on with: {rest} | sequencer append ..."
    typer.echo(f"{stored}; {again}", err=True)


def _append_lines(
    client: Sequencer,
    source: Iterator[bytes],
    on_error: OnError,
    replace: bool,
    tally: Tally,
    interruption: Interruption,
) -> None:
    numbered = _numbered(source, tally)
    while not tally.problem and (some := _some(numbered, tally.chunk)):
        good: list[tuple[int, Any]] = []
        problem = ""
        for number, line in some:
            try:
                good.append((number, parse(line, is_envelope=client.options.group_by is None)))
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


def _numbered(source: Iterator[bytes], tally: Tally) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, with their numbers. What is read before the input breaks off is not lost."""
    number = 0
    try:
        for number, line in enumerate(source, 1):
            if line.strip():
                yield number, line
    except InvalidMessage as error:
        tally.end = f"line {number}: {error}"


def _some(numbered: Iterator[tuple[int, bytes]], count: int) -> list[tuple[int, bytes]]:
    """The next lines for one call."""
    some, size = list[tuple[int, bytes]](), 0
    for number, line in itertools.islice(numbered, count):
        some.append((number, line))
        size += len(line)
        if size >= CALL_BYTES:
            break
    return some


def _summarize(tally: Tally, elapsed_s: float, as_json: bool) -> int:
    rate = tally.appended / elapsed_s if elapsed_s else 0.0
    if tally.problem:
        hint = "" if tally.end else " (--on-error skip goes on)"
        typer.echo(f"error: {plain(tally.problem)}; stopped there, the lines before it are stored{hint}", err=True)
        tally.refused += 1
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
    if tally.refused and not tally.problem:
        typer.echo(f"error: {many(tally.refused, 'line')} refused, as said above; the others are stored", err=True)
    return WRONG_USE if tally.problem else GAVE_UP if tally.refused else FINE


@contextmanager
def _opened(file: str) -> Iterator[Iterator[bytes]]:
    if file == "-":
        yield (
            _with_progress(unpacked(sys.stdin.buffer), None)
            if sys.stderr.isatty() and not sys.stdin.isatty()
            else unpacked(sys.stdin.buffer)
        )
        return
    try:
        stream, size = open(file, "rb"), Path(file).stat().st_size  # noqa: SIM115
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        said = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"{file}: {said}", param_hint="FILE") from error
    with stream:
        is_packed = stream.peek(len(GZIP)).startswith(GZIP)  # then nobody knows how much it will be
        lines = unpacked(stream)
        yield _with_progress(lines, None if is_packed else size) if sys.stderr.isatty() else lines


def _with_progress(lines: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    columns = (TextColumn("appending"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("appending", total=size)
        for line in lines:
            progress.advance(task, len(line))
            yield line
