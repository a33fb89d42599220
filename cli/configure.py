"""`sequencer configure`: shows or sets the policy of a queue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..client import Sequencer
from ..settings.policy import Policy
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .declared import takes
from .queues import names_of_queues, new_queue_said
from .render import console, policy_table, print_json, say


@app.command()
@takes("configure", Policy)
def configure(
    queue: QueueArgument,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
    **given: Any,
) -> None:
    """Show the policy of a queue, or with options set it.

    The policy is kept in the server and holds for all producers and consumers, from their next call on; what is not
    named stays as it is, and a change is logged. A queue that is not there yet is made when a policy is set. Below the
    policy stand the body fields that the queue remembers.
    """
    with Sequencer(queue, redis, namespace=namespace, **given) as client, new_queue_said():
        known = names_of_queues(client)
        policy = asdict(client.policy)
        fields = {name: value for name, value in client.fields._asdict().items() if value is not None}
    if not given and known is not None and queue not in known:
        say(f"queue {queue!r} is not there yet; its policy would be this")
    if json:
        print_json({"queue": queue, "policy": policy, "fields": fields})
    else:
        named = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        console().print(policy_table({**policy, **named}))
