"""Commands for alerts: alerts, and watch for those who run no master."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError
from ..processes.logs import LogOptions
from ..texts.words import many, plain
from ..values.alerts import Incident
from ..values.checks import nearest
from .app import JsonOption, NamespaceOption, OptionalQueueArgument, RedisOption, app
from .file import FileArgument, NamespaceOfFileOption, find, read_with_server
from .output import FINE, GAVE_UP, OPEN, Answer, say
from .queues import clients_of
from .table import table

if TYPE_CHECKING:
    from ..processes.master.plan import RunPlan

SENT_S = 25.0
"""How long `watch --once` waits for its messages to be sent: three attempts of a target."""
FileOption = Annotated[
    str | None, Option(help="The file of `run`. Default: the nearest sequencer.toml or pyproject.toml, here or above.")
]


@app.command()
def alerts(
    ctx: typer.Context,
    queue: OptionalQueueArgument = None,
    test: Annotated[str | None, Option(help="Send a test message to this target of the file.")] = None,
    file: FileOption = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """List open incidents, or send a test to a target.

    Incidents are detected by a master (`sequencer run`) or by `sequencer watch`. --test needs no server and no queue;
    it exits with 1 if the target did not accept the message.
    """
    if test is not None:
        return _try_target(test, find(file), ctx.obj)
    return _answer(clients_of(queue, redis, namespace)).show(json)


@app.command()
def watch(
    ctx: typer.Context,
    file: FileArgument = None,
    once: Annotated[
        bool,
        Option("--once", help="Check once, send what is due, and list open incidents; exit code 6 if there are any."),
    ] = False,
    redis: RedisOption = None,
    namespace: NamespaceOfFileOption = None,
    json: JsonOption = False,
) -> int:
    """Watch queues and send alerts, without running consumers.

    For those who do not use `sequencer run`. Like the master, it checks every `check_every`, and sweeps every minute
    (`sweep`). Several may watch the same queues: each alert is sent once. --once is for cron: a condition is over once
    two calls in a row found it so.
    """
    plan = read_with_server(find(file), ctx.obj, redis, namespace)
    if not any(pool.alerts for pool in plan.pools):
        raise ConfigurationError("nothing_to_alert", path=str(plan.path))
    if json and not once:
        raise ConfigurationError("json_needs", option="--once")
    return _watch_once(plan, json) if once else _watch(plan)


def _watch_once(plan: RunPlan, json: bool) -> int:
    from ..processes.alerts.watcher import Watcher

    watcher = Watcher(plan)
    watcher.round()
    watcher.wait_sent(SENT_S)
    watcher.close()
    answer = _answer([Sequencer(pool.queue, plan.redis, namespace=plan.namespace) for pool in plan.pools])
    answer.show(json)
    if watcher.trouble:
        raise watcher.trouble
    return OPEN if any(one.resolved_at is None for one in answer.value) else FINE


def _watch(plan: RunPlan) -> int:
    from ..processes.alerts.server_away import AwayIncident
    from ..processes.alerts.watcher import Watcher

    say(f"watching {many(len(plan.pools), 'queue')} for {many(len(plan.targets), 'target')}; Ctrl-C stops it")
    Watcher(plan, away=AwayIncident()).run()
    return FINE


def _try_target(name: str, path: Path, log: LogOptions | None) -> int:
    from ..processes.alerts.notice import Origin, test_notice
    from ..processes.alerts.sender import failure_of
    from ..processes.master.run_file import read_file

    plan = read_file(path, log=log)
    targets = {one.name: one for one in plan.targets}
    if name not in targets:
        raise ConfigurationError("name_unknown", kind="target", name=name, **nearest(name, targets))
    notice = test_notice(Origin(plan.namespace, plan.environment, socket.gethostname()), time.time())
    if failure := failure_of(targets[name], notice):
        say(plain(f"error: {name} did not accept the test: {failure}"))
        return GAVE_UP
    typer.echo(plain(f"{name} ({targets[name].kind}) accepted the test"))
    return FINE


def _answer(clients: list[Sequencer]) -> Answer:
    """The incidents of these queues."""
    found: list[Incident] = []
    for client in clients:
        with client:
            found += client.alerts()
    rows = [
        {
            "queue": one.queue,
            "condition": one.kind + (" (over)" if one.resolved_at is not None else ""),
            "for": max(0.0, time.time() - one.opened_at),
            "notified": ", ".join(f"{to.target} {to.messages}" for to in one.notified if to.messages) or "nobody yet",
            "text": one.text,
        }
        for one in found
    ]
    return Answer(found, table(rows) or "no open incidents")
