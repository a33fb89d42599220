"""Runs the command line: imports the command that is asked, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

import typer

from ..errors import OutcomeUnknown, QueueFull, SequencerError, ServerError
from ..texts.words import plain
from .app import FINE, GAVE_UP, INTERRUPTED, SERVER, WRONG_USE, app
from .output import failure_text
from .render import say

SUBJECTS = {
    "alerts": ("alerts", "watch"),
    "append": ("append",),
    "audit": ("audit",),
    "check": ("check",),
    "configure": ("configure",),
    "consume": ("consume",),
    "dead": ("dead",),
    "doctor": ("doctor", "acl"),
    "group": ("resume", "skip", "unskip", "pause", "unpause"),
    "history": ("history", "find", "sweep"),
    "lifetime": ("delete",),
    "message": ("get", "rerun", "cancel", "reschedule"),
    "server": ("server",),
    "show": ("info", "groups", "parked", "peek", "explain"),
    "steps": ("steps",),
    "run": ("run",),
    "demo.command": ("demo",),
}
"""Each file of commands, in the order of `--help`, and the commands that register when it is imported."""


def import_commands(words: Sequence[str] = ()) -> None:
    """Import what registers the command that the words of a call begin with; all of them where it is none of ours.

    A third of the start is commands that a call does not ask for: their imports, and what Typer makes of each.
    """
    asked = [file for file, commands in SUBJECTS.items() if words and words[0] in commands]
    for file in asked or SUBJECTS:
        importlib.import_module(f".{file}", __package__)


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
