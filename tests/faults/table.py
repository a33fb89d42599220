"""The results of fault tests as tables for people, and on what they were made."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.kit import machine
from sequencer.errors import ServerError
from sequencer.server import EmbeddedServer

from .report import Result, bound

WIDTH = 160
COLUMNS = (
    "fault test",
    "runs",
    "messages",
    "lost",
    "disorder",
    "handled again",
    "allowed",
    "recovery p50/max",
    "",
    "took",
)


def origin() -> dict[str, Any]:
    """Machine, versions and commit."""
    try:
        with tempfile.TemporaryDirectory(prefix="sqf-") as directory, EmbeddedServer(directory) as server:
            return {"machine": machine.describe(server.url)}
    except ServerError as error:
        return {"machine": {"problem": str(error)}}


def recovery(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.2f} / {max(times):.2f} s" if times else "-"


def verdict(result: Result) -> str:
    if result.problems:
        return f"FAILED ({len(result.problems)})"
    return "left out" if result.skipped else "passed"


def row(result: Result) -> list[str]:
    runs = f"{result.runs:,} {result.unit}" + (f", seeds {result.seeds}" if result.seeds else "")
    counts = (result.messages, result.losses, result.order_violations, result.duplicates, result.duplicates_allowed)
    shown = [f"{count:,}" if result.messages else "-" for count in counts]
    return [result.name, runs, *shown, recovery(result.recovery_s), verdict(result), f"{result.seconds:.0f} s"]


def show(console: Console, results: Sequence[Result], found: Mapping[str, Any]) -> None:
    """The table, then for each fault test: its command, faults, figures and problems."""
    if not console.is_terminal:
        console.width = WIDTH
    whole = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, column in enumerate(COLUMNS):
        whole.add_column(column, justify="left" if position in (0, 1, 8) else "right")
    for result in results:
        whole.add_row(*row(result))
    console.print(whole)
    for result in results:
        console.print("\n".join(["", *details(result)]))
    console.print(f"\n{said_of(found['machine'])}")


def details(result: Result) -> Iterable[str]:
    yield f"{result.name}: {result.command}"
    if result.skipped:
        yield f"  left out: {result.skipped}"
    if result.faults:
        yield "  took effect: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(result.faults.items()))
    for name, value in result.figures.items():
        yield f"  {name}: {value}"
    if result.messages and not result.losses + result.order_violations:
        most = f"{bound(result.messages):.1e}"
        yield f"  0 of {result.messages:,} lost or out of order: a rate above 3/N = {most} is unlikely (95 %)"
    for problem in result.problems:
        yield f"  PROBLEM: {problem}"


def said_of(machine_found: Mapping[str, Any]) -> str:
    if "problem" in machine_found:
        return str(machine_found["problem"])
    server = machine_found["server"]["version"]
    return (
        f"{machine_found['cpu']}, {machine_found['cores']} cores, {machine_found['kernel']}; {server}; "
        f"{machine_found['python']}, redis-py {machine_found['redis_py']}; sequencer {machine_found['sequencer']}, "
        f"commit {machine_found['git_commit'] or 'unknown'}"
    )
