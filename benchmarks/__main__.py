"""`python -m sequencer.benchmarks SCENARIO`: reads the options, runs one scenario, reports.

Exit status: 0 fine, 1 a run of sequencer was not valid, 2 wrong use, 3 server not reachable or not usable.
"""

from __future__ import annotations

import signal
import sys

import typer

from ..errors import ConfigurationError, SequencerError
from .commands import (
    consumers,
    fairness,
    floor,
    growth,
    handlers,
    latency,
    memory,
    ordering,
    peers,
    policies,
    skew,
    timers,
)
from .scenario import SERVER, WRONG_USE

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for module in (consumers, fairness, floor, growth, handlers, latency, memory, ordering, peers, policies, skew, timers):
    app.command(module.__name__.rpartition(".")[2])(module.command)


@app.callback()
def benchmarks() -> None:
    """Measure, and judge what was measured. Figures go to a table and to a JSON file."""


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
