"""`python -m tests.faults PART`: runs one part, and reports.

Exit status: 0 it passed, 1 something was found, 2 wrong use. What was left out, and why, is said and is no failure.
"""

from __future__ import annotations

import logging
import shlex
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import Annotated, Any

import typer

from benchmarks.kit import machine
from sequencer.errors import ConfigurationError, ServerError
from sequencer.server import EmbeddedServer

from .report import Result, Scale

PARTS = {
    "simulate": "one seeded scheduler in virtual time: the real client and consumer code, and the real scripts",
    "crash": "real processes, killed, stopped and cut off at every step, at its first, second ... passage",
    "chaos": "producers, consumers and an operator behind a proxy that loses, delays and lies; --only is a policy",
    "server": "the server's own faults: kill -9, a cut file, full memory, lost rights, failover",
}
SCALES = ("smoke", "ci", "nightly")
FINE, FOUND, WRONG_USE = 0, 1, 2
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def option(help_text: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help_text, show_default=False, **limits)


@app.command(epilog=" ".join(f"{name}: {text}." for name, text in PARTS.items()))
def main(
    part: Annotated[str, typer.Argument(help=", ".join(PARTS))],
    scale: Annotated[str, typer.Option(help="How much: smoke, ci or nightly.")] = "ci",
    seed: Annotated[int | None, option("Only this seed, as a problem names it.")] = None,
    seconds: Annotated[float | None, option("For about so long.", min=0.1)] = None,
    only: Annotated[str | None, option("Only the case of this name, as a problem names it.")] = None,
    first: Annotated[int | None, option("simulate: the first of many seeds.", min=0)] = None,
    backward: Annotated[bool, option("simulate: the clock is also set back.", "--backward")] = False,
    steps: Annotated[bool, option("simulate: the messages of each seed have steps.", "--steps")] = False,
    trace: Annotated[bool, option("simulate: show what happened, step by step.", "--trace")] = False,
    point: Annotated[str | None, option("crash: only this point, like ack:sent.")] = None,
    passage: Annotated[int | None, option("crash: at which passage of it.", min=1)] = None,
    kind: Annotated[str | None, option("crash: kill, stop, 'reply lost' or 'request lost'.")] = None,
    variant: Annotated[str | None, option("crash: default or sequence.")] = None,
) -> None:
    """Break things on purpose, and judge what came of it. Nothing but the loopback is used."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what it runs behind itself so. Commands under test would inherit it, and never be interrupted.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if part not in PARTS or scale not in SCALES:
        raise typer.BadParameter(f"choose from {', '.join(PARTS)}; and a scale: {', '.join(SCALES)}")
    options = {
        "seed": seed, "seconds": seconds, "only": only, "first": first, "backward": backward, "steps": steps,
        "trace": trace, "point": point, "passage": passage, "kind": kind, "variant": variant,
    }  # fmt: skip
    try:
        result = run_one(part, scale, **options)  # type: ignore[arg-type]
    except (ConfigurationError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(WRONG_USE) from error
    print("\n".join([*lines(result), "; ".join(f"{name}: {value}" for name, value in origin().items())]))
    raise typer.Exit(FOUND if result.problems else FINE)


def run_one(name: str, scale: Scale, **options: Any) -> Result:
    """Run a part; options that are not given are left to it. One that breaks down is a problem.

    Raises ConfigurationError or ValueError for an option that the part refuses.
    """
    given = {key: value for key, value in options.items() if value not in (None, False)}
    words = [word for key, value in given.items() for word in (f"--{key}", *([] if value is True else [str(value)]))]
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    run: Callable[..., Result] = import_module(f".{name}", __package__).run
    if unknown := given.keys() - signature(run).parameters.keys():
        raise ValueError(f"{name} has no option {', '.join(sorted(unknown))}")
    try:
        result = run(scale, **given)
    except Exception as error:
        if given and isinstance(error, ConfigurationError | ValueError):
            raise
        command = shlex.join(["python", "-m", "tests.faults", name, "--scale", scale, *words])
        result = Result(name=name, command=command, problems=[f"it broke down: {type(error).__name__}: {error}"])
    return replace(result, seconds=time.monotonic() - began)


def lines(result: Result) -> Iterator[str]:
    """The verdict, then what it rests on."""
    verdict = f"FAILED ({len(result.problems)})" if result.problems else "left out" if result.skipped else "passed"
    seeds = f", seeds {result.seeds}" if result.seeds else ""
    yield f"{result.name}: {verdict}; {result.runs:,} {result.unit}{seeds}; {result.seconds:.0f} s; {result.command}"
    if result.skipped:
        yield f"  left out: {result.skipped}"
    if result.messages:
        counts = f"{result.losses:,} lost, {result.order_violations:,} out of order"
        again = f"{result.duplicates:,} handled again, where {result.duplicates_allowed:,} are allowed"
        most = f"; a rate above 3/N = {3 / result.messages:.1e} is unlikely (95 %)"
        yield f"  of {result.messages:,} messages {counts}, {again}{most * (not result.losses)}"
    if result.recovery_s:
        yield f"  recovery p50 / max: {statistics.median(result.recovery_s):.2f} / {max(result.recovery_s):.2f} s"
    if result.faults:
        yield "  took effect: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(result.faults.items()))
    for name, value in result.figures.items():
        yield f"  {name}: {value}"
    for problem in result.problems:
        yield f"  PROBLEM: {problem}"


def origin() -> dict[str, Any]:
    """Machine, versions and commit."""
    try:
        with tempfile.TemporaryDirectory(prefix="sqf-") as directory, EmbeddedServer(directory) as server:
            return machine.describe(server.url)
    except ServerError as error:
        return {"problem": str(error)}


class Ended(BaseException):
    """SIGTERM: what is ours is ended and removed on the way out. No SystemExit, for parts catch those of commands."""


def end(*_: Any) -> None:
    raise Ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    logging.getLogger("sequencer").addHandler(logging.NullHandler())  # failures are what parts are made of
    try:
        app()
    except Ended:
        sys.exit(128 + signal.SIGTERM)
