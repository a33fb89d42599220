"""`sequencer demo`: the main job, with a consumer killed halfway, and a verdict."""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...texts.words import many
from ..app import FINE, GAVE_UP, JsonOption, app, call_option
from ..render import print_json
from .run import Outcome, simulate


@app.command()
def demo(
    processes: Annotated[int, call_option("--processes", "-n", min=1, max=64, help="Consumer processes.")] = 8,
    messages: Annotated[int, call_option("--messages", min=100, max=10_000_000, help="Number of messages.")] = 20_000,
    json: JsonOption = False,
) -> int:
    """Handle made-up orders, kill a consumer halfway, and check the result.

    Checks order, losses and duplicates, on a temporary server; nothing is left behind.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # everything is cleaned up on the way out
    columns = (TextColumn("handled"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("handled", total=messages)
        outcome = simulate(
            processes,
            messages,
            lambda text: console.print(text, soft_wrap=True),
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    _show(outcome, json)
    return FINE if outcome.is_clean else GAVE_UP


def _show(outcome: Outcome, as_json: bool) -> None:
    verdict = outcome.verdict
    if as_json:
        print_json({**asdict(outcome), "is_clean": outcome.is_clean})
        return
    for case in verdict.cases:
        typer.echo(f"  {case}")
    again = (
        f" ({outcome.allowed_duplicates} of them the killed consumer's last, handled again)"
        if verdict.duplicates
        else ""
    )
    typer.echo(
        f"messages          {verdict.messages:,}\n"
        f"order violations  {verdict.order_violations + verdict.overlaps:,}\n"
        f"losses            {verdict.losses + verdict.inventions:,}\n"
        f"duplicates        {verdict.duplicates:,}{again}\n"
        f"seconds           {outcome.seconds:.1f}, with {many(outcome.consumers, 'consumer')}, one killed halfway\n"
        f"verdict           {'clean' if outcome.is_clean else 'NOT CLEAN ' + outcome.problem}"
    )
