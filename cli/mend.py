"""Commands that get a stuck group going: resume, skip."""

from __future__ import annotations

from dataclasses import asdict

import typer

from ..client import Sequencer
from ..message import Gap
from .app import GroupArgument, JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .render import message_json, print_json


@app.command()
def resume(
    queue: QueueArgument,
    group: GroupArgument,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Let a parked or waiting group go on now, its head with fresh attempts."""
    with Sequencer(queue, redis, namespace=namespace) as client:
        is_resumed = client.resume(group)
    if json:
        print_json({"group": group, "resumed": is_resumed})
    else:
        typer.echo(f"group {' '.join(group)} {'goes on' if is_resumed else 'was due already; nothing to do'}")


@app.command()
def skip(
    queue: QueueArgument,
    group: GroupArgument,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Remove the failed head of a group, and let the group go on. Prints the removed message: it is the only copy."""
    with Sequencer(queue, redis, namespace=namespace) as client:
        skipped = client.skip(group)
    if isinstance(skipped, Gap):
        if json:
            print_json(asdict(skipped))
        else:
            typer.echo(f"stepped over {skipped.first} to {skipped.last} in group {' '.join(group)}, which goes on")
        return
    if not json:
        typer.echo(f"removed {skipped.id} from group {' '.join(group)}, which goes on; it was:", err=True)
    print_json(message_json(skipped))
