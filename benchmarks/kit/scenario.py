"""What all scenarios have in common: the options of their commands, and the frame around their runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from sequencer.net.urls import redact

from ..load.workload import Spread
from . import charts, machine, report
from .rounds import Where, chosen_placement
from .server import server

FINE, INVALID, WRONG_USE, SERVER = 0, 1, 2, 3
T = TypeVar("T")
Table = tuple[str, Sequence[str], Iterable[Sequence[str]]]
Runs = Annotated[int | None, typer.Option(min=1, max=100, help="Runs that are reported.  [5; smoke: 1]")]
Warmup = Annotated[int | None, typer.Option(min=0, max=100, help="Runs before them.  [1; smoke: 0]")]
RedisUrl = Annotated[str | None, typer.Option(help="URL of a server; else one of its own.")]
Output = Annotated[Path | None, typer.Option(help="The JSON file.  [bench-results/SCENARIO-TIME.json]")]
Smoke = Annotated[bool, typer.Option(help="All of it tiny: only shows that it works.")]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What all scenarios have. A run has `system`, `is_valid`, `line()` and `as_json()`."""

    name: str
    usual: Any
    """The parameters: a dataclass that has `runs`, perhaps `warmup` and `placement`, and `as_json()`."""
    smoke: Any
    """The same, tiny."""
    measure: Callable[[str, Any, Callable[[Any], None]], list[Any]]
    summarise: Callable[[list[Any]], list[dict[str, Any]]]
    tables: Callable[[list[dict[str, Any]]], Iterable[Table]]
    charts: Callable[[list[dict[str, Any]]], Iterable[charts.Chart]] = lambda _summary: ()
    server: Callable[[str | None], AbstractContextManager[str]] = server
    """Gives the URL of the server that is measured: the given one, else one of its own."""

    def command(self, choose: Callable[..., Any]) -> Callable[..., None]:
        """Make a command of a function that takes the usual parameters and options of its own, and returns what to
        measure. The options that all scenarios have are added: `--warmup` and `--placement` where a parameter is.
        """

        def command(
            *,
            runs: Runs = None,
            warmup: Warmup = None,
            placement: Where = None,
            redis: RedisUrl = None,
            output: Output = None,
            smoke: Smoke = False,
            **own: Any,
        ) -> None:
            common = {"runs": runs, "warmup": warmup, "placement": chosen_placement(placement, redis)}
            given = {name: value for name, value in common.items() if value is not None and hasattr(self.usual, name)}
            parameters = choose(self.smoke if smoke else self.usual, **own)
            run(self, replace(parameters, **given), redis, output)

        _, *its = inspect.signature(choose, eval_str=True).parameters.values()
        *all_have, _ = inspect.signature(command, eval_str=True).parameters.values()
        missing = {name for name in ("warmup", "placement") if not hasattr(self.usual, name)}
        shown = [*its, *(one for one in all_have if one.name not in missing)]
        command.__doc__, command.__annotations__ = choose.__doc__, {one.name: one.annotation for one in shown}
        command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # any has one
        return command


def run(scenario: Scenario, parameters: Any, redis: str | None, output: Path | None) -> None:
    """Measure, write the files, print tables; ends in typer.Exit with the status. Raises SequencerError."""
    output = output or report.default_path(scenario.name)
    began = datetime.now(UTC)
    progress, console = report.make_console(stderr=True), report.make_console()
    with scenario.server(redis) as url:
        about = machine.describe(url)
        report.print_machine(progress, about)
        runs = scenario.measure(url, parameters, lambda one: progress.print(one.line(), soft_wrap=True, markup=False))
    summary = scenario.summarise(runs)
    invalid = [one for one in runs if one.system == "sequencer" and not one.is_valid]
    result = {
        "scenario": scenario.name,
        "began": began.isoformat(timespec="seconds"),
        "machine": about,
        "parameters": {**parameters.as_json(), "redis": redis and redact(redis)},
        "runs": [one.as_json() for one in runs],
        "summary": summary,
        "is_valid": not invalid,
    }
    report.write_json(output, result)
    pictures = charts.write(output, list(scenario.charts(summary)))
    for title, columns, rows in scenario.tables(summary):
        report.print_table(console, title, columns, rows)
    for path in (output, *pictures):
        console.print(str(path), soft_wrap=True, markup=False)
    for one in invalid:
        console.print(f"NOT VALID: {one.line()}", soft_wrap=True, markup=False)
    raise typer.Exit(INVALID if invalid else FINE)


def spreads(text: str) -> tuple[Spread, ...]:
    """`1,100,zipf` as spreads. Raises ValueError."""
    return tuple(map(Spread.parse, text.split(",")))


def parsed(option: str, parse: Callable[[str], T], text: str | None, usual: T) -> T:
    """The option's value, or the usual one. Raises BadParameter."""
    try:
        return usual if text is None else parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
