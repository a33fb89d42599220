"""`sequencer delete`: a queue with all that belongs to it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import Sequencer
from ..texts.words import many, plain
from ..values.views import Usage
from .app import FINE, INTERRUPTED, JsonOption, app, option, queue_command
from .many import YesOption, confirm
from .render import print_either

DryRunOption = Annotated[bool, option("--dry-run", help="Change nothing; say what is there, and who uses it.")]


def _said(used: Usage) -> str:
    clients = (
        "who is connected can't be seen" if used.clients is None else f"{many(len(used.clients), 'consumer')} connected"
    )
    held = f"{many(used.leases, 'group')} leased" + (f" by {plain(', '.join(used.owners[:5]))}" if used.owners else "")
    there = f"{many(used.messages, 'message')} of {many(used.groups, 'group')}, {many(used.dead, 'dead letter')}"
    return f"{there}; {held}; {clients}"


@queue_command(app)
def delete(client: Sequencer, yes: YesOption = False, dry_run: DryRunOption = False, json: JsonOption = False) -> int:
    """Delete a queue for good: messages, dead letters, policy and name.

    Stop its consumers and producers first. One that is connected makes the queue anew, without messages: a producer
    with its next append, a consumer with its next claim. A handler that runs is not stopped, and its lease is lost.
    What was broken off is ended by the same command.
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
