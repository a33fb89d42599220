"""`python -m sequencer.benchmarks SCENARIO`: reads the options, runs one scenario, reports.

Exit status: 0 fine, 1 a run of sequencer was not valid, 2 wrong use, 3 server not reachable or not usable.
"""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ..connection import redact
from ..errors import ConfigurationError, SequencerError
from . import machine, ordering, report
from .workload import Spread

FINE, INVALID, WRONG_USE, SERVER = 0, 1, 2, 3
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def benchmarks() -> None:
    """Measure, and judge what was measured. Figures go to a table and to a JSON file."""


@app.command("ordering")
def ordering_command(
    messages: Annotated[int | None, typer.Option(min=1, max=10**7, help="In each phase.  [100000; smoke: 400]")] = None,
    naive_messages: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="The same for the naive version.  [10000; smoke: 200]")
    ] = None,
    producers: Annotated[int, typer.Option(min=1, max=64, help="Processes that append.")] = 2,
    consumers: Annotated[int, typer.Option(min=1, max=64, help="Processes that consume.")] = 2,
    runs: Annotated[int | None, typer.Option(min=1, max=100, help="Runs that are reported.  [5; smoke: 1]")] = None,
    warmup: Annotated[int | None, typer.Option(min=0, max=100, help="Runs before them.  [1; smoke: 0]")] = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 100,zipf]")
    ] = None,
    naive: Annotated[bool, typer.Option(help="Run the naive version beside it.")] = True,
    redis: Annotated[str | None, typer.Option(help="URL of a server; else one of its own.")] = None,
    output: Annotated[Path | None, typer.Option(help="The JSON file.  [bench-results/ordering-TIME.json]")] = None,
    smoke: Annotated[bool, typer.Option(help="All of it tiny: only shows that it works.")] = False,
) -> None:
    """Rates with every group in order: producers and consumers at once, and draining a backlog."""
    usual = ordering.SMOKE if smoke else ordering.USUAL
    try:
        spreads = tuple(map(Spread.parse, scenarios.split(","))) if scenarios is not None else usual.scenarios
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--scenarios") from None
    parameters = ordering.Parameters(
        scenarios=spreads,
        messages=messages or usual.messages,
        naive_messages=(naive_messages or usual.naive_messages) if naive else 0,
        producers=producers,
        consumers=consumers,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    raise typer.Exit(_run_ordering(parameters, redis, output or report.default_path("ordering")))


def _run_ordering(parameters: ordering.Parameters, redis: str | None, output: Path) -> int:
    """Measure, print the table, write the file; returns the exit status. Raises SequencerError."""
    began = datetime.now(UTC)
    progress, console = report.make_console(stderr=True), report.make_console()
    with ordering.server(redis) as url:
        about = machine.describe(url)
        report.print_machine(progress, about)
        runs = ordering.measure(url, parameters, lambda run: progress.print(run.line(), soft_wrap=True, markup=False))
    summary = ordering.summarise(runs)
    invalid = [run for run in runs if run.system == "sequencer" and not run.is_valid]
    report.write_json(
        output,
        {
            "scenario": "ordering",
            "began": began.isoformat(timespec="seconds"),
            "machine": about,
            "parameters": {**parameters.as_json(), "redis": redis and redact(redis)},
            "runs": [run.as_json() for run in runs],
            "summary": summary,
            "is_valid": not invalid,
        },
    )
    title = "Messages a second: median (min..max) of the valid runs"
    report.print_table(console, title, ordering.RATE_COLUMNS, ordering.rate_rows(summary))
    title = "Faults in a run: median (min..max) of all runs but the warm-up"
    report.print_table(console, title, ordering.FAULT_COLUMNS, ordering.fault_rows(summary))
    console.print(str(output), soft_wrap=True, markup=False)
    for run in invalid:
        console.print(f"NOT VALID: {run.line()}", soft_wrap=True, markup=False)
    return INVALID if invalid else FINE


def main() -> None:
    # SIGTERM ends the run as Ctrl-C does, so that processes, server and files of the run go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app(prog_name="python -m sequencer.benchmarks")
    except SequencerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(WRONG_USE if isinstance(error, ConfigurationError) else SERVER)


if __name__ == "__main__":
    main()
