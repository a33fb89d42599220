"""`python -m benchmarks SCENARIO`: reads the options, runs one scenario, reports.

Exit status: 0 fine, 1 a run of sequencer was not valid, 2 wrong use, 3 server not reachable or not usable.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer

from sequencer.errors import ConfigurationError, SequencerError

from .awaited import command as awaited
from .kit.scenario import SERVER, WRONG_USE
from .peers import command as peers
from .scenarios import cluster, consumers, dashboard, fairness, handlers, ordering, outbox, pools, steps
from .scenarios.floor import command as floor
from .scenarios.growth import command as growth
from .scenarios.latency import command as latency
from .scenarios.memory import command as memory
from .scenarios.policies import command as policies
from .scenarios.skew import command as skew
from .scenarios.timers import command as timers
from .usual import command as usual

SCENARIOS: dict[str, Callable[..., None]] = {
    "async": awaited.command,
    "cluster": cluster.command,
    "consumers": consumers.command,
    "dashboard": dashboard.command,
    "fairness": fairness.command,
    "floor": floor.command,
    "growth": growth.command,
    "handlers": handlers.command,
    "latency": latency.command,
    "memory": memory.command,
    "ordering": ordering.command,
    "outbox": outbox.command,
    "peers": peers.command,
    "policies": policies.command,
    "pools": pools.command,
    "skew": skew.command,
    "steps": steps.command,
    "timers": timers.command,
    "usual": usual.command,
}

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for name, scenario in SCENARIOS.items():
    app.command(name)(scenario)


@app.callback()
def benchmarks() -> None:
    """Measure, and judge what was measured. Figures go to a table and to a JSON file."""


def main() -> None:
    # SIGTERM ends the run as Ctrl-C does, so that processes, server and files of the run go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app(prog_name="python -m benchmarks")
    except SequencerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(WRONG_USE if isinstance(error, ConfigurationError) else SERVER)


if __name__ == "__main__":
    main()
