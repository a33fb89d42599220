"""What consumers write down, whatever the system: one row for each message handled, in one file for each consumer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from .order_check import Handled

Row = tuple[str, str, float, int, int, float, float]
"""group, id, score, stamp, token, started, ended (CLOCK_MONOTONIC); a plain tuple costs the handler the least."""


def write_history(path: str, rows: list[Row]) -> None:
    """In one piece, at the end: writing while consuming would be measured too."""
    Path(path).write_bytes(orjson.dumps(rows))


def read_history(paths: Iterable[Path]) -> list[Handled]:
    """The rows of all consumers. A consumer that did not come to its end left no file."""
    return [
        Handled(*row)._replace(consumer=path.stem)
        for path in paths
        if path.exists()
        for row in orjson.loads(path.read_bytes())
    ]
