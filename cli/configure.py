"""`sequencer configure`: shows or sets the policy of a queue."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import typer

from ..client import Sequencer
from ..settings.policy import Policy
from ..texts.commands import command
from ..values.checks import near_name
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .declared import takes
from .queues import names_of_queues
from .render import console, policy_table, print_json


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
    named stays as it is. A queue that is not there yet is made when a policy is set. Below the policy stand the body
    fields that the queue remembers.
    """
    setting = Sequencer(queue, redis, namespace=namespace, **given)
    with Sequencer(queue, redis, namespace=namespace) as looking:
        before, known = looking.policy, names_of_queues(looking)
        fields = {name: value for name, value in looking.fields._asdict().items() if value is not None}
    policy = before
    if given:
        with setting:
            _connect_quietly(setting)
            policy = setting.policy
    _show(queue, namespace, policy, before, fields, known, bool(given), json)


def _connect_quietly(client: Sequencer) -> None:
    logging.disable(logging.WARNING)  # of what changes: the table says it
    try:
        client.connect()
    finally:
        logging.disable(logging.NOTSET)


def _show(
    queue: str,
    namespace: str,
    policy: Policy,
    before: Policy,
    fields: dict[str, Any],
    known: list[str] | None,
    is_set: bool,
    as_json: bool,
) -> None:
    now, old, is_new = asdict(policy), asdict(before), known is not None and queue not in known
    near = near_name(queue, known or [])
    was = {} if is_new else {name: old[name] for name in now if now[name] != old[name]}
    if as_json:
        print_json({"queue": queue, "is_new": is_new, "policy": now, "was": was, "fields": fields})
        return
    if is_new:
        state, policy_is = ("new", "its policy") if is_set else ("not there yet", "its policy would be")
        other = f" there is {near!r};" if near else ""
        if near and is_set:
            other += f" if that was meant: {command('delete', queue, namespace=namespace)};"
        typer.echo(f"queue {queue!r} is {state};{other} {policy_is}:")
    names = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    console().print(policy_table({**now, **names}, was))
