"""Where the log of our processes goes: to standard error, as text or as one JSON object a line.

A line that can't be written (a full disk, a reader that is gone, standard error closed) is counted and dropped: a log
never stops the work. How many were lost is said with the next line that can be written.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from ..consume.emitter import EventEmitter
from ..errors import shown
from ..store.failure import TRACEBACK_BYTES
from ..texts.events import Event, event
from ..texts.words import error_text, json_line, plain

MAX_WAITING_LINES = 1000
"""Lines that wait to be written to standard error; more are lost, and counted."""
FLUSH_S = 2.0
"""How long the end of a process waits for them."""
Format = Literal["text", "json"]
_OF_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OWN = ("time", "level", "logger", "pid", "event", "queue", "message", "traceback")
"""Names in a JSON line that no field of a record can take."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a command line asks of the log."""

    level: str = "WARNING"
    format: Format = "text"


def configure(level: str, format: Format) -> None:
    """Send the log of this process to standard error, from this level on; again, to change that.

    A log that the process has set up itself is left alone. The supervisor's events are shown, unless at level ERROR.
    """
    root = logging.getLogger()
    output = _own_handler()
    if root.handlers and output is None:
        return
    output = output or StderrHandler()
    output.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root.addHandler(output)
    root.setLevel(level)
    shown_from = root.level if root.level >= logging.ERROR else min(root.level, logging.INFO)
    logging.getLogger("sequencer.supervisor").setLevel(shown_from)


def _own_handler() -> StderrHandler | None:
    return next((one for one in logging.getLogger().handlers if isinstance(one, StderrHandler)), None)


def enable_loggers() -> None:
    """Enable our loggers: `logging.config.dictConfig` disables all that it doesn't name, by default."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.split(".")[0] == "sequencer" and isinstance(logger, logging.Logger):
            logger.disabled = False


@contextmanager
def background_writing(patience_s: float = 0.0) -> Iterator[None]:
    """Within, a thread writes the log, where `configure` set it up. Where nobody reads standard error (`2>&1 | less`, a
    terminal that was halted), a write ends when somebody does, and the process that logs can't wait for that. It waits
    for `patience_s`, so that a line usually is written before what follows; but not again until all is written.
    """
    root = logging.getLogger()
    if (writer := _own_handler()) is None:
        yield
        return
    background = BackgroundHandler(writer, patience_s)
    root.handlers[root.handlers.index(writer)] = background
    try:
        yield
    finally:
        background.wait(FLUSH_S)
        if background in root.handlers:  # else an app set up the log itself
            root.handlers[root.handlers.index(background)] = writer


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00,123 WARNING sequencer[4711] orders: message failed: ...`, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        is_ours = record.name.split(".")[0] == "sequencer"
        name = "sequencer" if is_ours else record.name
        said = plain(record.getMessage()) if is_ours else _lines(record.getMessage())
        line = f"{self.formatTime(record)} {record.levelname} {plain(name)}[{record.process}] {said}"
        trace = _trace(self, record)
        return f"{line}\n{_lines(trace)}" if trace else line


class JsonFormatter(logging.Formatter):
    """One object: time, level, logger, pid, event, queue, the event's fields, message, traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = vars(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
        }
        line |= {name: fields[name] for name in ("event", "queue") if name in fields}
        line |= {name: value for name, value in fields.items() if name not in _OF_RECORD and name not in _OWN}
        line["message"] = record.getMessage()
        if trace := _trace(self, record):
            line["traceback"] = trace
        return json_line(_json(line))


def _json(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=shown, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a large integer, halves of a pair, odd keys
        return json.dumps(line, default=shown, skipkeys=True)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[1] else ""
    stack = formatter.formatStack(record.stack_info) if record.stack_info else ""
    return "\n".join(_cut(part) for part in (trace, stack) if part)


def _cut(text: str) -> str:
    """Its beginning and its end, as much of each as the server keeps of a traceback."""
    left_out = len(text) - 2 * TRACEBACK_BYTES
    if left_out <= 0:
        return text
    return f"{text[:TRACEBACK_BYTES]}\n[{left_out:,} characters left out]\n{text[-TRACEBACK_BYTES:]}"


def _lines(text: str) -> str:
    """Several lines, with the control characters in them spelled out."""
    return "\n".join(plain(line).replace("\\x09", "\t") for line in text.split("\n"))


class StderrHandler(logging.Handler):
    """Writes to standard error, whatever that is just now, and with it how many lines were lost before."""

    def __init__(self) -> None:
        super().__init__()
        self._lost = 0
        self._why = ""
        self._is_torn = False

    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost  # more may be lost while this is written
        try:
            text = (self._loss() if lost else "") + self.format(record) + "\n"
            self._write("\n" + text if self._is_torn else text)
            self._lost, self._is_torn = self._lost - lost, False
        except Exception as error:
            self.lose(error_text(error) or type(error).__name__)

    def lose(self, why: str) -> None:
        self._lost, self._why = self._lost + 1, why

    def _loss(self) -> str:
        lost = event("lines lost", "", lines=self._lost, error=self._why)
        made = logging.LogRecord("sequencer", lost.level, "", 0, lost.line, None, None)
        vars(made).update(lost.record)
        return self.format(made) + "\n"

    def _write(self, text: str) -> None:
        stream = sys.stderr
        try:
            fd = stream.fileno()
        except (AttributeError, OSError, ValueError):  # none, or not a file: closed, or a test's
            stream.write(text)
            stream.flush()
            return
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        while data:  # not by the stream: what it could not write would stay in its buffer
            written = os.write(fd, data)
            self._is_torn = written < len(data)
            data = data[written:]


class BackgroundHandler(logging.Handler):
    """Hands records to a thread, which has `writer` write them. What comes while MAX_WAITING_LINES wait is lost."""

    def __init__(self, writer: StderrHandler, patience_s: float) -> None:
        super().__init__()
        self.queue: queue.Queue[logging.LogRecord] = queue.Queue(MAX_WAITING_LINES)
        self._writer, self._patience_s, self._pid = writer, patience_s, os.getpid()
        threading.Thread(target=self._run, name="sequencer-log", daemon=True).start()

    def _run(self) -> None:
        while True:  # without the writer's lock: a write that does not end would keep the process from its exit
            self._writer.emit(self.queue.get())
            self.queue.task_done()

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self._pid:  # a copy of the process has no other thread
            self._writer.handle(record)
            return
        is_stuck = self.queue.unfinished_tasks > 0
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._writer.lose("")
        if not is_stuck:
            self.wait(self._patience_s)

    def wait(self, longest_s: float) -> None:
        with self.queue.all_tasks_done:
            self.queue.all_tasks_done.wait_for(lambda: not self.queue.unfinished_tasks, longest_s)


def emit_of_service(event: Event) -> None:
    """Write an event of the service as a whole into the log, as its supervisor does."""
    EventEmitter(event.queue, log=logging.getLogger("sequencer.supervisor")).emit(event)
