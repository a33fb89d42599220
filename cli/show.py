"""Commands that look and change nothing: info, groups, parked, peek, explain."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from ..client import Sequencer, list_queues
from ..values.commands import command, resume_all
from ..values.text import named, plain
from ..values.views import GroupInfo, GroupState, QueueInfo, as_json
from .app import (
    GroupArgument,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    call_option,
    queue_command,
    require_queue,
)
from .render import console, group_table, message_table, outage_line, print_either, print_json, queue_table


@app.command()
def info(
    queue: OptionalQueueArgument = None,
    watch: Annotated[bool, call_option("--watch", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[float, call_option("--interval", min=0.1, help="Seconds between two looks.")] = 1.0,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Backlog, lag, groups by state, dead letters, and rates of a queue, or of all. JSON has the policy too."""
    names = [queue] if queue else list_queues(redis, namespace)
    clients = [Sequencer(name, redis, namespace=namespace) for name in names]
    if queue:
        require_queue(clients[0])
    looks = _looks(clients, 0.2, interval, watch)
    if json:
        for infos in looks:
            policies = [as_json(client.policy) for client in clients]
            ours = [{**as_json(one), "policy": policy} for one, policy in zip(infos, policies, strict=True)]
            print_json(ours if queue is None else ours[0])
    elif watch and sys.stdout.isatty():
        with Live(console=console(), auto_refresh=False) as live:
            for infos in looks:
                live.update(_queues(infos), refresh=True)
    else:
        for infos in looks:
            console().print(_queues(infos) if infos else "no queues yet")


def _queues(infos: list[QueueInfo]) -> Group:
    """The table, and below it each outage that holds a queue back."""
    return Group(queue_table(infos), *[outage_line(one) for one in infos if one.outage])


def _looks(clients: list[Sequencer], first_s: float, interval_s: float, watch: bool):  # type: ignore[no-untyped-def]
    """Looks at all queues: one before the first, since rates need two."""
    for client in clients:
        client.info()
    time.sleep(first_s if clients else 0)
    while True:
        infos: list[QueueInfo] = [client.info() for client in clients]
        yield infos
        if not watch:
            return
        time.sleep(interval_s)


@queue_command(app)
def groups(
    client: Sequencer,
    state: Annotated[GroupState | None, call_option("--state", help="Only groups in this state.")] = None,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """Groups with their state, backlog and head; the longest due first."""
    found = client.groups(state, limit=limit)
    _show_groups(found, json, "no such groups" if state else "no groups: the queue is empty")


@queue_command(app)
def parked(client: Sequencer, limit: LimitOption = 100, json: JsonOption = False) -> None:
    """Parked groups, and what their heads failed with."""
    found = list(client.parked(limit=limit))
    _show_groups(found, json, "no parked groups")
    if not json:
        _say_parked(client, len(found))


def _say_parked(client: Sequencer, shown: int) -> None:
    """How many there are, and the commands for all of them, where there is more than one."""
    count = client.count_parked()
    if count > shown:
        every = command("parked", client.queue, namespace=client.options.namespace, options=["--limit", str(count)])
        typer.echo(f"{shown:,} of {count:,}; to see all: {every}")
    if count > 1:
        typer.echo(f"to let all of them go on: {resume_all(client.queue, client.options.namespace)}")


def _show_groups(found: list[GroupInfo], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(found)
    else:
        console().print(group_table(found) if found else nothing)


@queue_command(app)
def peek(client: Sequencer, group: GroupArgument, limit: LimitOption = 10, json: JsonOption = False) -> None:
    """The next messages of one group, in order; when one of them is due, `get` says."""
    messages = client.peek(group, limit=limit)
    if json:
        print_json(messages)
    else:
        console().print(message_table(messages) if messages else f"group {named(group)} has no messages")


@queue_command(app)
def explain(client: Sequencer, group: GroupArgument, json: JsonOption = False) -> None:
    """Why a group does not move, and what would move it, in one sentence."""
    explanation = client.explain(group)
    print_either(json, explanation, plain(explanation.text))
