"""`python -m sequencer.benchmarks SCENARIO`: reads the options, runs one scenario, reports.

Exit status: 0 fine, 1 a run of sequencer was not valid, 2 wrong use, 3 server not reachable or not usable.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from ..connection import redact
from ..errors import ConfigurationError, SequencerError
from . import costs, machine, ordering, policies, report, skew, timers
from .workload import Spread

FINE, INVALID, WRONG_USE, SERVER = 0, 1, 2, 3
T = TypeVar("T")
Table = tuple[str, Sequence[str], Iterable[Sequence[str]]]
Runs = Annotated[int | None, typer.Option(min=1, max=100, help="Runs that are reported.  [5; smoke: 1]")]
Warmup = Annotated[int | None, typer.Option(min=0, max=100, help="Runs before them.  [1; smoke: 0]")]
RedisUrl = Annotated[str | None, typer.Option(help="URL of a server; else one of its own.")]
Output = Annotated[Path | None, typer.Option(help="The JSON file.  [bench-results/SCENARIO-TIME.json]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON instead of tables.")]
Smoke = Annotated[bool, typer.Option(help="All of it tiny: only shows that it works.")]
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


class Scenario(NamedTuple):
    """What all scenarios have. A run has `system`, `is_valid`, `line()` and `as_json()`."""

    name: str
    measure: Callable[[str, Any, Callable[[Any], None]], list[Any]]
    summarise: Callable[[list[Any]], list[dict[str, Any]]]
    tables: Callable[[list[dict[str, Any]]], Iterable[Table]]


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
    runs: Runs = None,
    warmup: Warmup = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 100,zipf]")
    ] = None,
    naive: Annotated[bool, typer.Option(help="Run the naive version beside it.")] = True,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Rates with every group in order: producers and consumers at once, and draining a backlog."""
    usual = ordering.SMOKE if smoke else ordering.USUAL
    parameters = ordering.Parameters(
        scenarios=_parsed("--scenarios", _spreads, scenarios, usual.scenarios),
        messages=messages or usual.messages,
        naive_messages=(naive_messages or usual.naive_messages) if naive else 0,
        producers=producers,
        consumers=consumers,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("ordering", ordering.measure, ordering.summarise, _ordering_tables)
    raise typer.Exit(_run(scenario, parameters, redis, output, as_json))


@app.command("policies")
def policies_command(
    messages: Annotated[int | None, typer.Option(min=1, max=10**7, help="In each phase.  [50000; smoke: 200]")] = None,
    producers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that append.  [2; smoke: 1]")] = None,
    consumers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that consume.  [2; smoke: 1]")] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    scenarios: Annotated[str | None, typer.Option(help="Numbers of groups.  [1,100,5000,zipf; smoke: 10]")] = None,
    variants: Annotated[str | None, typer.Option(help=f"Of {', '.join(v.name for v in policies.VARIANTS)}.")] = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """What each policy costs: rates of the same workload, variant by variant in turn, and memory."""
    usual = policies.SMOKE if smoke else policies.USUAL
    parameters = policies.Parameters(
        scenarios=_parsed("--scenarios", _spreads, scenarios, usual.scenarios),
        variants=_parsed("--variants", policies.parse_variants, variants, usual.variants),
        messages=messages or usual.messages,
        producers=producers or usual.producers,
        consumers=consumers or usual.consumers,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("policies", policies.measure, costs.summarise, costs.tables)
    raise typer.Exit(_run(scenario, parameters, redis, output, as_json))


@app.command("skew")
def skew_command(
    skew_s: Annotated[
        float | None, typer.Option("--skew", min=0.01, max=60, help="Seconds, at most.  [0.3; smoke: 0.06]")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, max=600, help="Of events.  [3; smoke: 0.3]")] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Events a second, of all producers.  [600]")
    ] = None,
    runs: Runs = None,
    warmup: Warmup = None,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """Inversions and delays of messages that arrive out of order: no reorder window, half the skew, the whole."""
    usual = skew.SMOKE if smoke else skew.USUAL
    parameters = replace(
        usual,
        skew_s=skew_s or usual.skew_s,
        seconds=seconds or usual.seconds,
        rate=rate or usual.rate,
        runs=runs or usual.runs,
        warmup=usual.warmup if warmup is None else warmup,
    )
    scenario = Scenario("skew", skew.measure, skew.summarise, skew.tables)
    raise typer.Exit(_run(scenario, parameters, redis, output, as_json))


@app.command("timers")
def timers_command(
    count: Annotated[int | None, typer.Option("--timers", min=1, max=10**5, help="[1000; smoke: 40]")] = None,
    spread_s: Annotated[
        float | None,
        typer.Option("--spread", min=0.1, max=600, help="Seconds in which they come due.  [5; smoke: 0.2]"),
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=10**4, help="Ordinary messages a second.  [1000; smoke: 100]")
    ] = None,
    work_ms: Annotated[float, typer.Option("--work", min=0, max=1000, help="Ms that each handler takes.")] = 1.0,
    consumers: Annotated[int | None, typer.Option(min=1, max=64, help="Processes that consume.  [2; smoke: 1]")] = None,
    runs: Runs = None,
    expiry: Annotated[
        bool, typer.Option(help="Beside it key-expiry events; changes `notify-keyspace-events` meanwhile.")
    ] = True,
    redis: RedisUrl = None,
    output: Output = None,
    as_json: AsJson = False,
    smoke: Smoke = False,
) -> None:
    """How late timers fire under load and after an outage, and how many are lost."""
    usual = timers.SMOKE if smoke else timers.USUAL
    parameters = replace(
        usual,
        timers=count or usual.timers,
        spread_s=spread_s or usual.spread_s,
        rate=rate or usual.rate,
        work_s=work_ms / 1000,
        consumers=consumers or usual.consumers,
        runs=runs or usual.runs,
        systems=timers.SYSTEMS if expiry else timers.SYSTEMS[:1],
    )
    scenario = Scenario("timers", timers.measure, timers.summarise, timers.tables)
    raise typer.Exit(_run(scenario, parameters, redis, output, as_json))


def _spreads(text: str) -> tuple[Spread, ...]:
    return tuple(map(Spread.parse, text.split(",")))


def _parsed(option: str, parse: Callable[[str], T], text: str | None, usual: T) -> T:
    """The option's value, or the usual one. Raises BadParameter."""
    try:
        return usual if text is None else parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _ordering_tables(summary: list[dict[str, Any]]) -> Iterator[Table]:
    title = "Messages a second: median (min..max) of the valid runs"
    yield title, ordering.RATE_COLUMNS, ordering.rate_rows(summary)
    title = "Faults in a run: median (min..max) of all runs but the warm-up"
    yield title, ordering.FAULT_COLUMNS, ordering.fault_rows(summary)


def _run(scenario: Scenario, parameters: Any, redis: str | None, output: Path | None, as_json: bool) -> int:
    """Measure, write the file, print tables or JSON; returns the exit status. Raises SequencerError."""
    output = output or report.default_path(scenario.name)
    began = datetime.now(UTC)
    progress, console = report.make_console(stderr=True), report.make_console()
    with ordering.server(redis) as url:
        about = machine.describe(url)
        report.print_machine(progress, about)
        runs = scenario.measure(url, parameters, lambda run: progress.print(run.line(), soft_wrap=True, markup=False))
    summary = scenario.summarise(runs)
    invalid = [run for run in runs if run.system == "sequencer" and not run.is_valid]
    result = {
        "scenario": scenario.name,
        "began": began.isoformat(timespec="seconds"),
        "machine": about,
        "parameters": {**parameters.as_json(), "redis": redis and redact(redis)},
        "runs": [run.as_json() for run in runs],
        "summary": summary,
        "is_valid": not invalid,
    }
    report.write_json(output, result)
    if as_json:
        print(json.dumps(result))
    else:
        for title, columns, rows in scenario.tables(summary):
            report.print_table(console, title, columns, rows)
        console.print(str(output), soft_wrap=True, markup=False)
    for run in invalid:
        (progress if as_json else console).print(f"NOT VALID: {run.line()}", soft_wrap=True, markup=False)
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
