"""`sequencer configure`: shows or sets the policy of a queue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..client import Sequencer
from ..settings.policy import Policy
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .declared import takes
from .output import Answer
from .queues import require_queue
from .table import table


@app.command()
@takes("configure", Policy)
def configure(
    queue: QueueArgument,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
    **given: Any,
) -> int:
    """Show the policy of a queue, or set it with options.

    The policy is kept in the server and applies to all producers and consumers from their next call. Options that are
    not given stay as they are; a change is logged. Setting a policy creates a queue that does not exist yet. The body
    fields that the queue remembers are shown below the policy.
    """
    with Sequencer(queue, redis, namespace=namespace, **given) as client:
        if not given:
            require_queue(client)
        policy = asdict(client.policy)
        fields = {name: value for name, value in client.fields._asdict().items() if value is not None}
    rows = [{"policy": name, "value": value} for name, value in {**policy, **fields}.items()]
    return Answer({"queue": queue, "policy": policy, "fields": fields}, table(rows)).show(json)
