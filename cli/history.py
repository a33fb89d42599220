"""Commands for messages that ended: history, find."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.commands import command
from ..values.history import MessageInfo, Outcome
from .app import (
    DURATION,
    IdOption,
    JsonOption,
    LimitOption,
    OptionalGroupArgument,
    app,
    call_option,
    queue_command,
)
from .message import show_message
from .render import console, message_info_table, print_json


@queue_command(app)
def history(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    since: Annotated[
        float | None, call_option("--since", help="Only what ended within this time: 90s, 10m, 2h, 1d.", **DURATION)
    ] = None,
    until: Annotated[
        float | None, call_option("--until", help="Only what ended before this time ago: 90s, 10m, 2h, 1d.", **DURATION)
    ] = None,
    outcome: Annotated[Outcome | None, call_option("--outcome", help="Only messages with this outcome.")] = None,
    kind: Annotated[str | None, call_option("--kind", help="Only messages of this kind.")] = None,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """Ended messages of one group or of all, newest first.

    Shows the outcome, when, after how many attempts, and in which consumer. Empty unless the queue keeps a history:
    `configure QUEUE --history-window 3d`. Outcomes: finished; failed (finished, but optional steps failed); skipped;
    dropped; cancelled; replaced; purged or swept (a dead letter deleted by an operator or by `sweep`). Reading takes
    about a second per million messages.
    """
    options = {"since": since, "until": until, "outcome": outcome, "kind": kind}
    found = client.history(group or None, **options)  # type: ignore[arg-type]  # each by its own name
    shown = list(islice(found, limit))
    if json:
        print_json(shown)
        return
    console().print(message_info_table(shown) if shown else _nothing(client))
    if found:
        typer.echo(f"showing the newest {limit:,}; for more use --limit, or narrow down with --since and --until")


def _nothing(client: Sequencer) -> str:
    if client.policy.history_window:
        return "no such messages in the history"
    keep = command("configure", client.queue, namespace=client.options.namespace, options=["--history-window", "3d"])
    return f"queue {client.queue} keeps no history; to keep it for 3 days: {keep}"


@queue_command(app)
def find(client: Sequencer, id: IdOption, json: JsonOption = False) -> None:
    """Find a message by its id alone, in any group.

    Searches pending messages, dead letters and the history, about a second per million; `get` with the group is
    immediate.
    """
    found: list[MessageInfo] = client.find(id)
    if not found:
        said = f"no message {id!r} in any group of queue {client.queue!r}, nor in its history"
        raise MessageNotFound(f"{said}; if you know its group, try get")
    if json:
        print_json(found)
        return
    for position, info in enumerate(found):
        typer.echo("\n" if position else "", nl=False)
        show_message(info)
