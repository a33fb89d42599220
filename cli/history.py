"""Commands for messages that ended: history, find, sweep."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.commands import command
from ..texts.words import many, plain
from ..values.history import MessageInfo, Outcome, Swept
from ..values.views import as_json
from .app import (
    DURATION,
    IdOption,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OptionalGroupArgument,
    OptionalQueueArgument,
    RedisOption,
    app,
    call_option,
    queue_command,
)
from .message import show_message
from .queues import clients_of
from .render import console, message_info_table, print_json


@queue_command(app)
def history(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    since: Annotated[
        float | None, call_option("--since", help="Only what ended within this time: 90s, 10m, 2h, 1d.", **DURATION)
    ] = None,
    until: Annotated[
        float | None, call_option("--until", help="Only what ended before that: 90s, 10m, 2h, 1d ago.", **DURATION)
    ] = None,
    outcome: Annotated[Outcome | None, call_option("--outcome", help="Only what ended so.")] = None,
    kind: Annotated[str | None, call_option("--kind", help="Only messages of this kind.")] = None,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """Messages that ended, the newest end first, of one group or of all: how, when, after how many attempts, and by
    whom.

    Empty unless the queue keeps a history: `configure QUEUE --history-window 3d`. Outcomes: finished; failed (finished,
    but parts of it that need not succeed failed); skipped; dropped; cancelled; replaced; purged or swept (a dead letter
    deleted by an operator or by `sweep`). It is read in slices of 1,000 messages, about a second per million.
    """
    options = {"since": since, "until": until, "outcome": outcome, "kind": kind}
    found = client.history(group or None, **options)  # type: ignore[arg-type]  # each by its own name
    shown = list(islice(found, limit))
    if json:
        print_json(shown)
        return
    console().print(message_info_table(shown) if shown else _nothing(client))
    if found:
        typer.echo(f"the newest {limit:,} are shown; there are more: --limit shows them, --since and --until choose")


def _nothing(client: Sequencer) -> str:
    if client.policy.history_window:
        return "no such messages in the history"
    keep = command("configure", client.queue, namespace=client.options.namespace, options=["--history-window", "3d"])
    return f"queue {client.queue} keeps no history; to keep it for 3 days: {keep}"


@queue_command(app)
def find(client: Sequencer, id: IdOption, json: JsonOption = False) -> None:
    """A message by its id alone, in whatever group: pending, dead, or ended as far as the history goes.

    Groups and history are looked through in slices of 1,000, about a second a million; `get` with the group is quick.
    """
    found: list[MessageInfo] = client.find(id)
    if not found:
        said = f"no group of queue {client.queue!r} has a message {id!r}, and no history tells of one"
        raise MessageNotFound(f"{said}; with its group, get says whether its id is known")
    if json:
        print_json(found)
        return
    for position, info in enumerate(found):
        typer.echo("\n" if position else "", nl=False)
        show_message(info)


@app.command()
def sweep(
    queue: OptionalQueueArgument = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Delete what a queue's policy keeps no longer: old history, old dead letters. Of all queues, or of one.

    History cleans itself where messages end; this is for a queue at rest, and for dead letters (--dead-window,
    --dead-cap of `configure`). Run it now and then, say each hour.
    """
    done: dict[str, Swept] = {}
    for client in clients_of(queue, redis, namespace):
        with client:
            done[client.queue] = client.sweep()
    if json:
        print_json([{"queue": name, **as_json(swept)} for name, swept in done.items()])
        return
    for name, swept in done.items():
        what = f"{many(swept.history, 'message')} of the history, {many(swept.dead, 'dead letter')}"
        typer.echo(plain(f"{name}: deleted {what}"))
    if not done:
        typer.echo("no queues")
