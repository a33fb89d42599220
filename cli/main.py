"""Runs the command line: imports every command, and turns errors into one line and an exit code."""

from __future__ import annotations

import signal

import typer

from ..errors import OutcomeUnknown, QueueFull, SequencerError, ServerError
from ..values.text import plain
from . import (  # noqa: F401 - each registers its commands
    alarms,
    append,
    audit,
    check,
    configure,
    consume,
    dead,
    doctor,
    group,
    history,
    lifetime,
    message,
    server,
    show,
    steps,
)
from . import run as pools  # noqa: F401
from .app import FINE, GAVE_UP, INTERRUPTED, SERVER, WRONG_USE, app
from .demo import command as demo  # noqa: F401
from .output import failure_text
from .render import say


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
