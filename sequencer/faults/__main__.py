"""`python -m sequencer.faults PROOF`: runs one proof, or those of a scale, and reports.

Exit status: 0 all passed, 1 something was found, 2 wrong use. What was left out, and why, is said and is no failure.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import table
from .report import Result, Scale

PROOFS = ("model", "simulate", "crash", "chaos", "server", "input", "security")
FINE, FOUND, WRONG_USE = 0, 1, 2

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Output = Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")]
Scales = Annotated[str, typer.Option(help="smoke (seconds), ci (within four minutes for all), nightly (everything).")]
Seed = Annotated[int | None, typer.Option(help="Repeat this one seed.")]
Seconds = Annotated[float | None, typer.Option(min=1, help="For how long.")]
Only = Annotated[str | None, typer.Option(help="Only the case of this name.")]
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def faults() -> None:
    """Break things on purpose, and judge what came of it. Nothing but the loopback is used."""


@app.command()
def ci(as_json: AsJson = False, output: Output = None) -> None:
    """A slice of every proof, within four minutes."""
    finish([run_one(name, "ci") for name in PROOFS], "ci", as_json, output)


@app.command()
def nightly(as_json: AsJson = False, output: Output = None) -> None:
    """Everything: about two hours."""
    finish([run_one(name, "nightly") for name in PROOFS], "nightly", as_json, output)


def run_one(name: str, scale: Scale, **options: Any) -> Result:
    """Run a proof; options that are None are left to it. One that breaks down is a problem, and the others go on."""
    given = {key: value for key, value in options.items() if value is not None}
    words = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in given.items())
    command = f"python -m sequencer.faults {name} --scale {scale} {words}".rstrip()
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        run: Callable[..., Result] = import_module(f".{name}", __package__).run
        result = run(scale, **given)
    except Exception as error:
        if scale == "smoke":
            raise
        result = Result(name=name, command=command, problems=[f"it broke down: {type(error).__name__}: {error}"])
    return replace(result, seconds=time.monotonic() - began)


def finish(results: Sequence[Result], scale: str, as_json: bool, output: Path | None) -> None:
    """Show and keep the results; ends the command."""
    found = {"scale": scale, **table.origin(), "results": [result.as_json() for result in results]}
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(found))
    else:
        table.show(Console(highlight=False, markup=False, soft_wrap=True), results, found)
    raise typer.Exit(FOUND if any(result.problems for result in results) else FINE)


def check_scale(scale: str) -> Scale:
    if scale not in ("smoke", "ci", "nightly"):
        raise typer.BadParameter(f"{scale!r} must be smoke, ci or nightly", param_hint="--scale")
    return scale  # type: ignore[return-value]


def main() -> None:
    app()


if __name__ == "__main__":
    main()
