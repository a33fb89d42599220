"""`sequencer consume`: n consumer processes under a supervisor."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..backoff import RestartPolicy
from ..handlers import app_from_project
from ..message import QueueInfo
from ..options import AUDIT_LENGTH, ConsumerOptions
from ..supervisor import Supervisor, Totals
from ..worker import WorkerConfig, prepare
from .app import FINE, PARKED, JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .render import print_json


class OnFailure(StrEnum):
    """What becomes of a message after its last try."""

    park = "park"
    dead_letter = "dead_letter"
    drop = "drop"


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
            help="End when nothing is left but parked or paused groups.",
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
        int, typer.Option(envvar="SEQUENCER_MAX_ATTEMPTS", help="Tries of a message before --on-failure decides.")
    ] = 5,
    backoff: Annotated[
        float, typer.Option(envvar="SEQUENCER_BACKOFF", help="Seconds before the first retry; then doubled.")
    ] = 0.5,
    on_failure: Annotated[
        OnFailure,
        typer.Option(
            envvar="SEQUENCER_ON_FAILURE",
            help="After the last try: park the group, or set the message aside or drop it, and the group goes on.",
        ),
    ] = OnFailure.park,
    park_on: Annotated[
        str,
        typer.Option(
            envvar="SEQUENCER_PARK_ON",
            metavar="NAMES",
            help="Exceptions that park the group at once: OutOfStock,shop.errors.Closed (also their subclasses).",
        ),
    ] = "",
    dead_letter_on: Annotated[
        str,
        typer.Option(
            envvar="SEQUENCER_DEAD_LETTER_ON",
            metavar="NAMES",
            help="Exceptions that make the message a dead letter at once.",
        ),
    ] = "",
    audit: Annotated[
        bool,
        typer.Option("--audit", envvar="SEQUENCER_AUDIT", help="Record each handled message in the audit stream."),
    ] = False,
    audit_length: Annotated[
        int, typer.Option(envvar="SEQUENCER_AUDIT_LENGTH", help="Entries that the stream of a lane keeps, about.")
    ] = AUDIT_LENGTH,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Handle messages, each group in order, with -n processes.

    With --app (or SEQUENCER_APP, or [tool.sequencer] app in pyproject.toml) runs that handler; with --exec a
    command; with neither prints each message as one JSON line, before it is acknowledged. The summary goes to
    standard error, or as JSON to standard output with --json (not while messages are printed there). What --exec
    raises when the command fails is CommandFailed.
    """
    if redis:
        os.environ["SEQUENCER_REDIS"] = redis
    if app_name is None and command is None:
        app_name = app_from_project(Path.cwd())
    if app_name and command:
        raise typer.BadParameter("give --app or --exec, not both", param_hint="--exec")
    if audit_length != AUDIT_LENGTH and not audit:
        raise typer.BadParameter("it says how much --audit keeps; add --audit", param_hint="--audit-length")
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
        on_failure=on_failure.value,
        park_on=_names(park_on),
        dead_letter_on=_names(dead_letter_on),
        audit=audit,
        audit_length=audit_length,
        log_level=ctx.obj or "WARNING",
    )
    return _supervise(config, processes, json)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _supervise(config: WorkerConfig, processes: int, as_json: bool) -> int:
    client, _ = prepare(config)
    ConsumerOptions(
        lease_s=config.lease,
        max_messages=config.max_messages,
        max_age_s=config.max_age,
        audit_length=config.audit_length,
    )
    with client:
        client.connect()
        url = None if config.app else client.endpoint.url
        policy = RestartPolicy.for_attempts(client.options.max_attempts)
        supervisor = Supervisor(config.on(url), processes, policy=policy)
        dropped = client.info().totals["dropped"]
        status = supervisor.run()
        left = client.info() if config.until_empty and status == FINE else None
        dropped = left.totals["dropped"] - dropped if left else 0
    if as_json and (config.app or config.command):
        parked, dead = (left.parked, left.dead) if left else (0, 0)
        print_json({**asdict(supervisor.totals), "parked": parked, "dead": dead, "dropped": dropped})
    else:
        _summarize(supervisor.totals, processes, left, dropped)
    return PARKED if left and left.parked else status


def _summarize(totals: Totals, processes: int, left: QueueInfo | None, dropped: int) -> None:
    said = [f"{totals.failed:,} failures", f"{totals.lost:,} leases lost", f"{totals.died:,} consumers died"]
    if left:
        counts = {"groups parked": left.parked, "groups paused": left.paused, "dead letters": left.dead}
        counts["messages dropped"] = dropped
        said += [f"{count:,} {name}" for name, count in counts.items() if count]
        said += ["queue paused"] if left.is_paused else []
    typer.echo(
        f"consumed {totals.handled:,} messages in {totals.seconds:.2f} s with {processes} consumers "
        f"({', '.join(said)})",
        err=True,
    )
