"""Read-only commands: info, groups, parked, peek, explain."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..client import Sequencer, find_server
from ..doctor.diagnose import memory_trouble
from ..errors import SequencerError, StepResultInvalid, StepUnknown
from ..texts.commands import command, resume_all
from ..texts.words import named, plain
from ..values.checks import seconds_of
from ..values.views import GroupInfo, GroupState, QueueInfo, as_json
from .app import (
    DURATION,
    GroupArgument,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    call_option,
    queue_command,
)
from .many import ByErrorOption, say_errors
from .output import is_lost
from .queues import clients_of
from .render import (
    console,
    group_table,
    history_line,
    log_fields,
    message_table,
    no_consumers_line,
    outage_line,
    print_either,
    print_json,
    queue_table,
    say,
)

GAP = "gap"
"""Shown as the error where a missing number holds a group back."""
UNRESUMED = {GAP, StepUnknown.__name__, StepResultInvalid.__name__}
"""Errors that `resume` of many groups leaves alone: they need a number, or an answer, first."""


@app.command()
def info(
    queue: OptionalQueueArgument = None,
    watch: Annotated[bool, call_option("--watch", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[float, call_option("--interval", help="Time between refreshes.", **DURATION)] = 1.0,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Backlog, lag, groups by state, dead letters, and rates.

    Of one queue, or of all. The JSON also has the policy.
    """
    clients = clients_of(queue, redis, namespace)
    looks = _looks(clients, 0.2, seconds_of("interval", interval, 0.1, 86_400), watch)
    if json:
        for infos in looks:
            policies = [as_json(client.policy) for client in clients]
            ours = [{**as_json(one), "policy": policy} for one, policy in zip(infos, policies, strict=True)]
            print_json(ours if queue is None else ours[0])
    elif watch and sys.stdout.isatty():
        with Live(console=Console(highlight=False, markup=False), auto_refresh=False) as live:
            for infos in looks:
                live.update(Text(_queues(infos), no_wrap=True, overflow="crop"), refresh=True)
    else:
        for infos in looks:
            console().print(_queues(infos) if infos else "no queues")
        with suppress(SequencerError):  # doctor names missing rights
            if said := memory_trouble(find_server(redis)):
                say(f"memory: {said}")


def _queues(infos: list[QueueInfo]) -> str:
    """The table, and below it what holds a queue back: an outage, or that nobody consumes."""
    histories = [history_line(one) for one in infos if one.history]
    return "\n".join([str(queue_table(infos)), *histories, *_troubles(infos)])


def _troubles(infos: list[QueueInfo]) -> list[str]:
    outages = [outage_line(one) for one in infos if one.outage]
    return outages + [no_consumers_line(one) for one in infos if one.no_consumers]


def _looks(clients: list[Sequencer], first_s: float, interval_s: float, watch: bool):  # type: ignore[no-untyped-def]
    """Looks at all queues: one before the first, since rates need two."""
    for client in clients:
        client.info()
    time.sleep(first_s if clients else 0)
    while True:
        infos: list[QueueInfo] = [client.info() for client in clients]
        yield infos
        if not watch or is_lost():  # nobody reads it any more
            return
        time.sleep(interval_s)


@queue_command(app)
def groups(
    client: Sequencer,
    state: Annotated[GroupState | None, call_option("--state", help="Only groups in this state.")] = None,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """Groups with state, backlog and head, the longest due first."""
    found = client.groups(state, limit=limit)
    _show_groups(found, json, "no such groups" if state else "no groups: the queue is empty")
    if not json:
        _say_cut(len(found), limit)


def _say_cut(shown: int, limit: int) -> None:
    if shown == limit:
        typer.echo(f"showing the first {limit:,}; for more use --limit")


@queue_command(app)
def parked(
    client: Sequencer, by_error: ByErrorOption = False, limit: LimitOption = 100, json: JsonOption = False
) -> None:
    """Parked groups, and the errors of their heads."""
    if by_error:
        errors = _errors(client.parked())
        say_errors(errors, "groups", "no parked groups", json)
        if not json:
            _say_resuming(client, errors, errors.total())
        return
    found = list(client.parked(limit=limit))
    _show_groups(found, json, "no parked groups")
    if not json:
        _say_cut(len(found), limit)
        _say_resuming(client, _errors(found), client.count_parked())


def _errors(groups: Iterable[GroupInfo]) -> Counter[str]:
    """How many are parked by each error."""
    return Counter(one.failure.type if one.failure else GAP for one in groups)


def _say_resuming(client: Sequencer, errors: Counter[str], count: int) -> None:
    """The commands that resume all `count` of them, or all of one error; nothing for a single group."""
    namespace = client.options.namespace
    names = sorted(errors.keys() - UNRESUMED)
    if names and count > 1:
        typer.echo(f"resume all: {resume_all(client.queue, namespace)}")
    for name in names if len(errors) > 1 else ():
        alike = command("resume", client.queue, namespace=namespace, options=["--error", name])
        typer.echo(f"resume all of {plain(name)}: {alike}")


def _show_groups(found: list[GroupInfo], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(found)
    else:
        console().print(group_table(found) if found else nothing)


@queue_command(app)
def peek(client: Sequencer, group: GroupArgument, limit: LimitOption = 10, json: JsonOption = False) -> None:
    """The next messages of one group, in order."""
    messages = client.peek(group, limit=limit)
    if json:
        print_json(messages)
    else:
        console().print(message_table(messages) if messages else f"group {named(group)} has no messages")


@queue_command(app)
def explain(client: Sequencer, group: GroupArgument, json: JsonOption = False) -> None:
    """Why a group does not move, and what would move it."""
    explanation = client.explain(group)
    tried = explanation.log if len(explanation.log) > 1 else ()  # of a single one, the sentence already has it
    lines = [explanation.text, *[f"{name} failed at {said}" for name, said in log_fields(tried).items()]]
    print_either(json, explanation, "\n".join(map(plain, lines)))
