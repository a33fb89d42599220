"""Runs the command line: imports the command that is asked, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

import typer
from typer.models import CommandInfo, Default

from ..errors import OutcomeUnknown, QueueFull, SequencerError, ServerError
from ..texts.words import plain
from .app import app
from .output import FINE, GAVE_UP, INTERRUPTED, SERVER, WRONG_USE, failure_text, say

PRODUCE, INSPECT, FIX = "Produce and consume", "Inspect", "Fix"
CONFIGURE, SERVICE, MAINTENANCE = "Configure", "Service", "Maintenance"
COMMANDS = {
    "append": ("append", PRODUCE, "append orders orders.ndjson --group-by user_id,order_id"),
    "consume": ("consume", PRODUCE, "consume orders --app shop.handlers:handle -n 4"),
    "demo": ("demo", PRODUCE, "demo --processes 4"),
    "info": ("show", INSPECT, "info orders --watch"),
    "groups": ("show", INSPECT, "groups orders --state due"),
    "parked": ("show", INSPECT, "parked orders --by-error"),
    "peek": ("show", INSPECT, "peek orders 1002 2302393013"),
    "explain": ("show", INSPECT, "explain orders 1002 2302393013"),
    "get": ("message", INSPECT, "get orders 1002 --id m7"),
    "steps": ("steps", INSPECT, "steps orders 1002 --id m7"),
    "history": ("history", INSPECT, "history orders --since 1h --outcome failed"),
    "find": ("history", INSPECT, "find orders --id m7"),
    "resume": ("group", FIX, "resume orders 1002"),
    "skip": ("group", FIX, "skip orders 1002 --id m7 --dead-letter"),
    "unskip": ("group", FIX, "unskip orders 1002 --id m7"),
    "pause": ("group", FIX, "pause orders 1002"),
    "unpause": ("group", FIX, "unpause orders 1002"),
    "cancel": ("message", FIX, "cancel orders 1002 --id m7"),
    "reschedule": ("message", FIX, "reschedule orders 1002 --id m7 --delay 10m"),
    "rerun": ("message", FIX, "rerun orders 1002 --id m7"),
    "dead": ("dead", FIX, ""),
    "dead list": ("dead", "", "dead list orders --by-error"),
    "dead show": ("dead", "", "dead show orders --id m7"),
    "dead redrive": ("dead", "", "dead redrive orders --error ValueError"),
    "dead purge": ("dead", "", "dead purge orders --id m7"),
    "configure": ("configure", CONFIGURE, "configure orders --dedup-window 10m"),
    "acl": ("doctor", CONFIGURE, "acl consume orders"),
    "run": ("run", SERVICE, "run sequencer.toml"),
    "alerts": ("alerts", SERVICE, "alerts --test ops"),
    "watch": ("alerts", SERVICE, "watch --once"),
    "check": ("doctor", SERVICE, "check orders --max-wait 60s --max-parked 0"),
    "server": ("server", SERVICE, ""),
    "server start": ("server", "", "server start"),
    "server stop": ("server", "", "server stop"),
    "server status": ("server", "", "server status --json"),
    "doctor": ("doctor", MAINTENANCE, "doctor orders --repair"),
    "audit": ("doctor", MAINTENANCE, "audit orders"),
    "sweep": ("maintenance", MAINTENANCE, "sweep orders"),
    "delete": ("maintenance", MAINTENANCE, "delete orders --dry-run"),
}
"""Each command: the file that registers it when it is imported, its panel in `--help`, and an example."""


def import_commands(words: Sequence[str] = ()) -> None:
    """Import what registers the command that the words of a call begin with; all of them where it is none of ours.

    A third of the start is commands that a call does not ask for: their imports, and what Typer makes of each.
    """
    asked = {COMMANDS[words[0]][0]} if words and words[0] in COMMANDS else {file for file, _, _ in COMMANDS.values()}
    for file in sorted(asked):
        importlib.import_module(f".{file}", __package__)
    _describe(app, "")
    app.registered_commands.sort(key=lambda one: list(COMMANDS).index(_name(one)))


def _describe(of: typer.Typer, above: str) -> None:
    """Give each command its panel and its example."""
    for command in of.registered_commands:
        _, panel, example = COMMANDS[f"{above}{_name(command)}"]
        command.rich_help_panel, command.epilog = panel or Default(None), f"Example: `sequencer {example}`"
    for group in of.registered_groups:
        group.rich_help_panel = COMMANDS[str(group.name)][1]
        if group.typer_instance:
            _describe(group.typer_instance, f"{group.name} ")


def _name(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


def run() -> int:
    """Run the command line; our errors become one line on standard error and an exit code."""
    try:
        status = _run()
        if text := failure_text():
            say(f"error: {text}")
            return status or GAVE_UP
        return status
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what comes now has nothing to say


def _run() -> int:
    try:
        import_commands(sys.argv[1:])
        status = app(standalone_mode=False)
        return status if isinstance(status, int) else FINE
    except SequencerError as error:
        say(plain(f"error: {error}"))
        return SERVER if isinstance(error, ServerError | QueueFull | OutcomeUnknown) else WRONG_USE
    except typer.Exit as ending:
        return ending.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        show = getattr(error, "show", None)  # click's own usage errors know how to show themselves
        if show is None:
            raise
        show()
        return WRONG_USE
