"""`sequencer consume`: n consumer processes under a supervisor."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..backoff import RestartPolicy
from ..handlers import app_from_project
from ..options import ConsumerOptions
from ..supervisor import Supervisor
from ..worker import WorkerConfig, prepare
from .app import FINE, PARKED, JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .render import print_json


@app.command()
def consume(
    ctx: typer.Context,
    queue: QueueArgument,
    processes: Annotated[
        int,
        typer.Option("--processes", "-n", envvar="SEQUENCER_PROCESSES", min=1, max=1024, help="Consumer processes."),
    ] = 1,
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app",
            envvar="SEQUENCER_APP",
            help="module:attribute, a Sequencer with a handler, or a function.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", envvar="SEQUENCER_EXEC", help="Shell command for each message, JSON on its stdin."),
    ] = None,
    lease: Annotated[
        float, typer.Option(envvar="SEQUENCER_LEASE", help="Seconds until a dead consumer's groups go on.")
    ] = 15.0,
    until_empty: Annotated[
        bool,
        typer.Option(
            "--until-empty",
            envvar="SEQUENCER_UNTIL_EMPTY",
            help="End when nothing is left but parked groups.",
        ),
    ] = False,
    max_messages: Annotated[
        int | None,
        typer.Option(envvar="SEQUENCER_MAX_MESSAGES", help="Replace a consumer after this many messages."),
    ] = None,
    max_age: Annotated[
        float | None,
        typer.Option(envvar="SEQUENCER_MAX_AGE", help="Replace a consumer after this many seconds."),
    ] = None,
    max_attempts: Annotated[
        int, typer.Option(envvar="SEQUENCER_MAX_ATTEMPTS", help="Tries before a group is parked.")
    ] = 5,
    backoff: Annotated[
        float, typer.Option(envvar="SEQUENCER_BACKOFF", help="Seconds before the first retry; then doubled.")
    ] = 0.5,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Handle messages, each group in order, with -n processes.

    With --app (or SEQUENCER_APP, or [tool.sequencer] app in pyproject.toml) runs that handler; with --exec a
    command; with neither prints each message as one JSON line, before it is acknowledged. The summary goes to
    standard error, or as JSON to standard output with --json (not while messages are printed there).
    """
    if redis:
        os.environ["SEQUENCER_REDIS"] = redis
    if app_name is None and command is None:
        app_name = app_from_project(Path.cwd())
    if app_name and command:
        raise typer.BadParameter("give --app or --exec, not both", param_hint="--exec")
    config = WorkerConfig(
        queue=queue,
        namespace=namespace,
        app=app_name,
        command=command,
        lease=lease,
        until_empty=until_empty,
        max_messages=max_messages,
        max_age=max_age,
        max_attempts=max_attempts,
        backoff=backoff,
        log_level=ctx.obj or "WARNING",
    )
    return _supervise(config, processes, json)


def _supervise(config: WorkerConfig, processes: int, as_json: bool) -> int:
    client, _ = prepare(config)
    ConsumerOptions(lease_s=config.lease, max_messages=config.max_messages, max_age_s=config.max_age)
    with client:
        client.connect()
        url = None if config.app else client.endpoint.url
        policy = RestartPolicy.for_attempts(client.options.max_attempts)
        supervisor = Supervisor(config.on(url), processes, policy=policy)
        status = supervisor.run()
        parked = client.info().parked if config.until_empty and status == FINE else 0
    totals = supervisor.totals
    if as_json and (config.app or config.command):
        print_json({**asdict(totals), "parked": parked})
    else:
        typer.echo(
            f"consumed {totals.handled:,} messages in {totals.seconds:.2f} s with {processes} consumers "
            f"({totals.failed:,} failures, {totals.lost:,} leases lost, {totals.died:,} consumers died"
            f"{f', {parked:,} groups parked' if parked else ''})",
            err=True,
        )
    return PARKED if parked else status
