"""What a benchmark says: a table for people, and a JSON file with everything that a table leaves out.

Shared by all scenarios. A rate is the median of the runs that count, with the least and the greatest; faults are
counted over all runs but the warm-up.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 120
"""Columns when the output is no terminal: a table in a log must not be cut to 80."""


def median_min_max(values: Iterable[float | None]) -> dict[str, float] | None:
    """Median, min and max of the values that are there; None when none is."""
    some = [value for value in values if value is not None]
    return {"median": statistics.median(some), "min": min(some), "max": max(some)} if some else None


def show_range(found: Mapping[str, float] | None) -> str:
    """`median (min..max)`, or only the one number when all are the same."""
    if found is None:
        return "-"
    low, middle, high = (_short(found[name]) for name in ("min", "median", "max"))
    return middle if low == high else f"{middle} ({low}..{high})"


def _short(value: float) -> str:
    """Three figures are what a rate is worth; small numbers, as of faults, are shown in full."""
    return f"{value / 1000:,.1f}k" if value >= 10_000 else f"{value:,.0f}"


def make_console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose first two columns name what was measured."""
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < 2 else "right", no_wrap=position < 2)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_machine(console: Console, machine: Mapping[str, Any]) -> None:
    """One line on what all of it ran."""
    server, hiredis = machine["server"], machine["hiredis"]
    parser = f"hiredis {hiredis}" if hiredis else "without hiredis"
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}; "
        f"{server['version']} by {server['transport']}, "
        f"append-only file {'on' if server['append_only_file'] else 'off'}; {machine['python']}, "
        f"redis-py {machine['redis_py']} {parser}; sequencer {machine['sequencer']}",
        soft_wrap=True,
        markup=False,
    )


def default_path(scenario: str) -> Path:
    """`bench-results/SCENARIO-TIME.json` in the working directory."""
    return Path("bench-results") / f"{scenario}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
