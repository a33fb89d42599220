"""The handler of scenarios `handlers` and `pools`, which consumers of a real supervisor run as their `--app`.

Each message says how long its handler is to sleep, and into which directory its process writes what it handled, in one
piece when it ends.
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sequencer.values.message import Message

from .history import Row, write_history

_rows: list[Row] = []
_directory: list[str] = []


def handle(message: Message) -> None:
    """Sleep, and note when that began and ended."""
    body: dict[str, Any] = message.body
    if not _directory:
        _directory.append(body["directory"])
    started = time.monotonic()
    time.sleep(body["work_s"])
    _rows.append((message.group[0], message.id, message.score, message.stamp, message.token, started, time.monotonic()))


@atexit.register
def write() -> None:
    """Leave the history, if there is one, where the messages said."""
    for directory in _directory:
        write_history(str(Path(directory) / f"consumer-{os.getpid()}.json"), _rows)


def die(_message: Message) -> None:
    """Of scenario `pools`: its process is gone at each message."""
    os._exit(3)


def hang(_message: Message) -> None:
    """Of scenario `pools`: it never ends, whatever interrupts it."""
    while True:
        with suppress(BaseException):
            time.sleep(1000)
