"""`python -m tests.faults FAULT_TEST`: runs one fault_test, or those of a scale, and reports.

Exit status: 0 all passed, 1 something was found, 2 wrong use. What was left out, and why, is said and is no failure.
"""

from __future__ import annotations

import json
import logging
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sequencer.errors import ConfigurationError

from . import table
from .apart import Shards
from .report import Result, Scale

FAULT_TESTS = ("model", "simulate", "crash", "steps", "chaos", "server", "input", "security", "shell")
SIDE_BY_SIDE = (("model", "simulate", "chaos"), ("shell", "input", "security"), ("server", "crash", "steps"))
SCALES = ("smoke", "ci", "nightly")
FINE, FOUND, WRONG_USE = 0, 1, 2

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Output = Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")]
How = Annotated[str, typer.Option("--scale", help="How much: smoke, ci or nightly.")]
Seed = Annotated[int | None, typer.Option(help="Only this seed, as a problem names it.")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="For about so long.")]
Only = Annotated[str | None, typer.Option(help="Only the case of this name, as a problem names it.")]
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def faults() -> None:
    """Break things on purpose, and judge what came of it. Nothing but the loopback is used."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what it runs behind itself so. Commands under test would inherit it, and never be interrupted.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@app.command()
def ci(as_json: AsJson = False, output: Output = None) -> None:
    """A slice of every fault_test, in three to five minutes: those that work beside those that wait."""
    found = {result.name: result for result in Shards("ci").run(SIDE_BY_SIDE)}
    finish([found[name] for name in FAULT_TESTS], "ci", as_json, output)


@app.command()
def nightly(as_json: AsJson = False, output: Output = None) -> None:
    """Everything: hours."""
    finish([run_one(name, "nightly") for name in FAULT_TESTS], "nightly", as_json, output)


@app.command()
def model(
    only: Only = None,
    keep: Annotated[Path | None, typer.Option(help="Where to leave the search programs and trails.")] = None,
    scale: How = "ci",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """The lease protocol in a model checker (spin): exhaustive searches, and mutants that must fail."""
    run_alone("model", scale, as_json, output, only=only, keep=keep)


@app.command()
def simulate(
    seed: Seed = None,
    first: Annotated[int | None, typer.Option(min=0, help="The first of many seeds.")] = None,
    seconds: Seconds = None,
    backward: Annotated[bool, typer.Option("--backward", help="The clock is also set back.")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="The messages of each seed have steps.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show what happened, step by step.")] = False,
    scale: How = "ci",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """One seeded scheduler in virtual time: the real client and consumer code, and the real scripts."""
    options = {"first": first, "seconds": seconds, "backward": backward or None, "steps": steps or None}
    options["trace"] = trace or None
    run_alone("simulate", scale, as_json, output, seed=seed, **options)


@app.command()
def crash(
    point: Annotated[str | None, typer.Option(help="Only this point, like ack:sent.")] = None,
    passage: Annotated[int | None, typer.Option(min=1, help="At which passage of it.")] = None,
    kind: Annotated[str | None, typer.Option(help="kill, stop, 'reply lost' or 'request lost'.")] = None,
    variant: Annotated[str | None, typer.Option(help="default or sequence.")] = None,
    seed: Seed = None,
    seconds: Seconds = None,
    scale: How = "ci",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Real processes, killed, stopped and cut off at every step, at its first, second, third ... passage."""
    options = {"point": point, "passage": passage, "kind": kind, "variant": variant}
    run_alone("crash", scale, as_json, output, seed=seed, seconds=seconds, **options)


@app.command()
def steps(only: Only = None, scale: How = "ci", as_json: AsJson = False, output: Output = None) -> None:
    """Real consumers, killed at each point of each step; --only is automatic, once or checked."""
    run_alone("steps", scale, as_json, output, only=only)


@app.command()
def chaos(
    seed: Seed = None,
    seconds: Seconds = None,
    only: Only = None,
    scale: How = "ci",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Producers, consumers and an operator behind a proxy that loses, delays, repeats and lies; --only is a policy."""
    run_alone("chaos", scale, as_json, output, seed=seed, seconds=seconds, only=only)


@app.command()
def server(
    seed: Seed = None, only: Only = None, scale: How = "ci", as_json: AsJson = False, output: Output = None
) -> None:
    """The server's own faults: kill -9, a cut file, full memory, wrong types, lost rights, failover, the clock."""
    run_alone("server", scale, as_json, output, seed=seed, only=only)


@app.command("input")
def input_command(
    seed: Seed = None, seconds: Seconds = None, scale: How = "ci", as_json: AsJson = False, output: Output = None
) -> None:
    """Odd values, command lines, records and replies, by hypothesis and by a fuzzer (atheris)."""
    run_alone("input", scale, as_json, output, seed=seed, seconds=seconds)


@app.command()
def security(only: Only = None, scale: How = "ci", as_json: AsJson = False, output: Output = None) -> None:
    """Least rights, TLS, and secrets that must not show."""
    run_alone("security", scale, as_json, output, only=only)


@app.command()
def shell(only: Only = None, scale: How = "ci", as_json: AsJson = False, output: Output = None) -> None:
    """The processes around the core: stopped, crashed and starved the way operators and machines do it."""
    run_alone("shell", scale, as_json, output, only=only)


def run_alone(name: str, scale: str, as_json: bool, output: Path | None, **options: Any) -> None:
    if scale not in SCALES:
        raise typer.BadParameter(f"{scale!r} must be one of {', '.join(SCALES)}", param_hint="--scale")
    try:
        finish([run_one(name, scale, **options)], scale, as_json, output)  # type: ignore[arg-type]
    except (ConfigurationError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(WRONG_USE) from error


def run_one(name: str, scale: Scale, **options: Any) -> Result:
    """Run a fault_test; options that are None are left to it. One that breaks down is a problem, and the others go on.

    Raises ConfigurationError or ValueError for an option that the fault_test refuses.
    """
    given = {key: value for key, value in options.items() if value is not None}
    words = [word for key, value in given.items() for word in (f"--{key}", *([] if value is True else [str(value)]))]
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    run: Callable[..., Result] = import_module(f".{name}", __package__).run
    try:
        result = run(scale, **given)
    except Exception as error:
        if given and isinstance(error, ConfigurationError | ValueError):
            raise
        command = shlex.join(["python", "-m", "tests.faults", name, "--scale", scale, *words])
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


class Ended(BaseException):
    """SIGTERM: what is ours is ended and removed on the way out. No SystemExit, for fault_tests catch those of
    commands.
    """


def end(*_: Any) -> None:
    raise Ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    logging.getLogger("sequencer").addHandler(logging.NullHandler())  # failures are what fault_tests are made of
    try:
        app()
    except Ended:
        sys.exit(128 + signal.SIGTERM)
