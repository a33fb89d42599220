"""Runs the command line: imports the command that is asked, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

import typer
from typer.models import CommandInfo

from ..errors import OutcomeUnknown, QueueFull, SequencerError, ServerError
from ..texts.words import plain
from .app import app
from .output import FINE, GAVE_UP, INTERRUPTED, SERVER, WRONG_USE, failure_text, say

COMMANDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Produce and consume": {
        "append": ("append orders orders.ndjson --group-by user_id,order_id",),
        "consume": ("consume orders --app shop.handlers:handle -n 4",),
        "demo": ("demo --processes 4",),
        "outbox": (
            "outbox ddl postgresql",
            "outbox create --db postgresql:///shop",
            "outbox relay orders --db postgresql:///shop",
            "outbox status orders --db postgresql:///shop",
            "outbox held orders --db postgresql:///shop",
            "outbox release orders 1002 --db postgresql:///shop",
            "outbox release orders --db postgresql:///shop",
            "outbox skip orders 1002 --id m7 --db postgresql:///shop",
            "outbox renew orders --db postgresql:///shop",
        ),
    },
    "Inspect": {
        "show": (
            "info orders",
            "groups orders --state due",
            "parked orders --by-error",
            "consumers orders",
            "peek orders 1002 2302393013",
            "explain orders 1002 2302393013",
        ),
        "top": ("top",),
        "message": ("get orders 1002 --id m7",),
        "steps": ("steps orders 1002 --id m7",),
        "history": ("history orders --since 1h --outcome failed", "find orders --id m7"),
    },
    "Fix": {
        "group": (
            "resume orders 1002",
            "skip orders 1002 --id m7 --dead-letter",
            "unskip orders 1002 --id m7",
            "pause orders 1002",
            "unpause orders 1002",
        ),
        "message": (
            "cancel orders 1002 --id m7",
            "reschedule orders 1002 --id m7 --delay 10m",
            "rerun orders 1002 --id m7",
        ),
        "dead": (
            "dead list orders --by-error",
            "dead show orders --id m7",
            "dead redrive orders --error ValueError",
            "dead purge orders --id m7",
        ),
    },
    "Configure": {"configure": ("configure orders --dedup-window 10m",), "doctor": ("acl consume orders",)},
    "Service": {
        "run": ("run sequencer.toml",),
        "web": ("web --port 8080",),
        "alerts": ("alerts --test ops", "watch --once"),
        "doctor": ("check orders --max-wait 60s --max-parked 0",),
        "server": ("server start", "server start --cluster 3", "server stop", "server status --json"),
    },
    "Maintenance": {
        "doctor": ("doctor orders --repair",),
        "maintenance": ("sweep orders", "delete orders --dry-run"),
    },
}
"""By its panel in `--help` and the file that registers it when it is imported: an example of each command."""
EXAMPLES = {
    example: (file, panel) for panel, files in COMMANDS.items() for file, some in files.items() for example in some
}


def import_commands(words: Sequence[str] = ()) -> None:
    """Import what registers the command that the words of a call begin with; all of them where it is none of ours.

    A third of the start is commands that a call does not ask for: their imports, and what Typer makes of each.
    """
    asked = {file for example, (file, _) in EXAMPLES.items() if example.split()[:1] == [*words[:1]]}
    for file in sorted(asked or {file for file, _ in EXAMPLES.values()}):
        importlib.import_module(f".{file}", __package__)
    _describe(app)
    app.registered_commands.sort(key=lambda one: list(EXAMPLES).index(_example(_name(one))))


def _describe(of: typer.Typer, above: str = "") -> None:
    """Give each command its panel and its example."""
    for command in of.registered_commands:
        example = _example(above + _name(command))
        command.epilog = f"Example: `sequencer {example}`"
        if not above:
            command.rich_help_panel = EXAMPLES[example][1]
    for group in of.registered_groups:
        group.rich_help_panel = EXAMPLES[_example(str(group.name))][1]
        if group.typer_instance:
            _describe(group.typer_instance, f"{group.name} ")


def _example(path: str) -> str:
    return next(example for example in EXAMPLES if f"{example} ".startswith(f"{path} "))


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
