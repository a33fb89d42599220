"""Commands that delete: a whole queue (delete), or what its policy no longer keeps (sweep)."""

from __future__ import annotations

from ..client import Sequencer
from ..texts.words import many
from ..values.views import Usage, as_json
from .app import JsonOption, NamespaceOption, OptionalQueueArgument, RedisOption, app, queue_command, text_of
from .many import DryRunOption, YesOption, confirm
from .output import Answer, say
from .queues import clients_of


@queue_command(app)
def delete(client: Sequencer, yes: YesOption = False, dry_run: DryRunOption = False) -> Answer:
    """Delete a queue and everything in it for good.

    Stop its consumers and producers first: a producer that is still connected creates the queue again with its next
    append, a consumer with its next claim. A running handler is not stopped, but its lease is lost. If the deletion is
    interrupted, run the command again.
    """
    queue, used = client.queue, client.usage()
    counts = {"queue": queue, **{name: getattr(used, name) for name in ("messages", "groups", "dead", "leases")}}
    if dry_run:
        return Answer({**counts, "is_deleted": False}, _used(client, used, is_trial=True))
    say(_used(client, used))
    if not yes:
        confirm(client, "delete", messages=used.messages, dead=used.dead)
    client.delete()
    return Answer({**counts, "is_deleted": True}, f"deleted {queue}")


def _used(client: Sequencer, used: Usage, *, is_trial: bool = False) -> str:
    connected = None if used.clients is None else str(len(used.clients))
    return text_of(
        client, "used", **{**as_json(used), "owners": used.owners[:5]}, connected=connected, is_trial=is_trial
    )


@app.command()
def sweep(
    queue: OptionalQueueArgument = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Delete old history and old dead letters.

    Deletes what the policy no longer keeps, in one queue or in all. History is also cleaned as messages end, so this is
    for idle queues, and for dead letters (--dead-window and --dead-cap of `configure`). Run it every hour or so.
    """
    value, lines = [], []
    for client in clients_of(queue, redis, namespace):
        with client:
            swept = client.sweep()
        value.append({"queue": client.queue, **as_json(swept)})
        what = f"{many(swept.history, 'message')} from the history, {many(swept.dead, 'dead letter')}"
        lines.append(f"{client.queue}: deleted {what}")
    return Answer(value, *(lines or ["no queues"])).show(json)
