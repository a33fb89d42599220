"""The Typer application: options that every command shares, and exit codes. The commands register with it."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from ..processes.logs import FORMATS, LogOptions, configure
from ..values.version import VERSION

app = typer.Typer(
    name="sequencer",
    help="Ordered, per-group message processing on the Redis or Valkey you already run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 fine, 1 consumers gave up, 2 wrong use or handler not found, "
    "3 server not reachable or not usable, 4 ended with parked groups, 5 doctor or audit found something.",
)

FINE, GAVE_UP, WRONG_USE, SERVER, PARKED, FOUND = range(6)
INTERRUPTED = 130
"""As a shell says it of a process that Ctrl-C ended."""

QueueArgument = Annotated[str, typer.Argument(help="Name of the queue.", show_default=False)]
RedisOption = Annotated[
    str | None,
    typer.Option(
        "--redis",
        envvar="SEQUENCER_REDIS",
        show_envvar=True,
        help="Server URL: redis:// rediss:// unix:// valkey://. Without it, the embedded server.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[str, typer.Option(envvar="SEQUENCER_NAMESPACE", help="Prefix of all keys.")]
JsonOption = Annotated[bool, typer.Option("--json", envvar="SEQUENCER_JSON", help="JSON for scripts.")]
LimitOption = Annotated[int, typer.Option(envvar="SEQUENCER_LIMIT", min=1, help="Show at most this many.")]
GroupArgument = Annotated[
    list[str],
    typer.Argument(metavar="PART...", help="The parts of the group, for example: 1002 2302393013", show_default=False),
]
OptionalGroupArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PART...", help="The parts of one group; without them, all.", show_default=False),
]
IdOption = Annotated[str, typer.Option("--id", envvar="SEQUENCER_ID", help="Id of the message.", show_default=False)]


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"sequencer {VERSION}")
        raise typer.Exit


def hear_interrupts() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt: the command has something to put in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_level: Annotated[
        str, typer.Option(envvar="SEQUENCER_LOG_LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = "WARNING",
    log_format: Annotated[
        str, typer.Option(envvar="SEQUENCER_LOG_FORMAT", help="text, or json: one object a line.")
    ] = "text",
) -> None:
    level = log_level.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise typer.BadParameter(f"{log_level!r} is not DEBUG, INFO, WARNING or ERROR", param_hint="--log-level")
    chosen = next((one for one in FORMATS if one == log_format.lower()), None)
    if chosen is None:
        raise typer.BadParameter(f"{log_format!r} is not text or json", param_hint="--log-format")
    ctx.obj = LogOptions(level, chosen)
    configure(level, chosen)
    if ctx.invoked_subcommand != "consume":  # that imports an application first
        hear_interrupts()
