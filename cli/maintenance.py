"""Commands that delete: a whole queue (delete), or what its policy no longer keeps (sweep)."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import Sequencer
from ..texts.words import many, plain
from ..values.history import Swept
from ..values.views import Usage, as_json
from .app import (
    FINE,
    INTERRUPTED,
    JsonOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    option,
    queue_command,
)
from .many import YesOption, confirm
from .queues import clients_of
from .render import print_either, print_json

DryRunOption = Annotated[bool, option("--dry-run", help="Change nothing; show what would be deleted, and who uses it.")]


def _said(used: Usage) -> str:
    clients = (
        "connected consumers unknown" if used.clients is None else f"{many(len(used.clients), 'consumer')} connected"
    )
    held = f"{many(used.leases, 'group')} leased" + (f" by {plain(', '.join(used.owners[:5]))}" if used.owners else "")
    there = f"{many(used.messages, 'message')} of {many(used.groups, 'group')}, {many(used.dead, 'dead letter')}"
    return f"{there}; {held}; {clients}"


@queue_command(app)
def delete(client: Sequencer, yes: YesOption = False, dry_run: DryRunOption = False, json: JsonOption = False) -> int:
    """Delete a queue and everything in it for good.

    Stop its consumers and producers first: a producer that is still connected creates the queue again with its next
    append, a consumer with its next claim. A running handler is not stopped, but its lease is lost. If the deletion is
    interrupted, run the command again.
    """
    used = client.usage()
    told = {
        "queue": client.queue,
        "messages": used.messages,
        "groups": used.groups,
        "dead": used.dead,
        "leases": used.leases,
    }
    if dry_run:
        print_either(json, {**told, "is_deleted": False}, f"would delete {client.queue}: {_said(used)}")
        return FINE
    typer.echo(f"queue {client.queue}: {_said(used)}", err=True)
    lost = f"{many(used.messages, 'message')} and {many(used.dead, 'dead letter')}"
    if not confirm(f"delete queue {client.queue}, with {lost}, for good?", yes):
        return INTERRUPTED
    client.delete()
    print_either(json, {**told, "is_deleted": True}, f"deleted {client.queue}")
    return FINE


@app.command()
def sweep(
    queue: OptionalQueueArgument = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Delete old history and old dead letters.

    Deletes what the policy no longer keeps, in one queue or in all. History is also cleaned as messages end, so this is
    for idle queues, and for dead letters (--dead-window and --dead-cap of `configure`). Run it every hour or so.
    """
    done: dict[str, Swept] = {}
    for client in clients_of(queue, redis, namespace):
        with client:
            done[client.queue] = client.sweep()
    if json:
        print_json([{"queue": name, **as_json(swept)} for name, swept in done.items()])
        return
    for name, swept in done.items():
        what = f"{many(swept.history, 'message')} from the history, {many(swept.dead, 'dead letter')}"
        typer.echo(plain(f"{name}: deleted {what}"))
    if not done:
        typer.echo("no queues")
