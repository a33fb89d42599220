"""`sequencer consume`: n consumer processes under a supervisor."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from ..errors import ConfigurationError
from ..processes.handlers.apps import app_from_project, limited
from ..processes.handlers.exec import check_command
from ..processes.logs import LogOptions, background_writing, emit_of_service
from ..processes.service_events import import_hangs, service_started
from ..processes.signals import stop_signals_in_use
from ..processes.supervisor import Supervisor
from ..processes.worker.config import START_S, WorkerConfig, overrides, prepare
from ..server import EmbeddedServer
from ..settings.error_names import unknown_names
from ..settings.options import AUDIT_LENGTH, DEFAULTS, LEASE_S, OnFailure, QueueSettings
from ..texts.commands import name_server, server_named
from ..texts.words import many
from ..values.durations import seconds
from ..values.version import VERSION
from .app import (
    DURATION,
    FINE,
    PARKED,
    WRONG_USE,
    JsonOption,
    NamespaceOption,
    QueueArgument,
    RedisOption,
    app,
    hear_interrupts,
    is_of_default,
    is_of_variable,
    option,
)
from .queues import names_of_queues, new_queue_said, say_unused
from .render import print_json, say
from .summary import look_at, queue_json, say_left, summarize

SAID_S = 2.0
"""So long no signal keeps the summary from being said."""


@app.command()
def consume(
    ctx: typer.Context,
    queue: QueueArgument,
    processes: Annotated[int, option("--processes", "-n", min=1, max=1024, help="Consumer processes.")] = 1,
    app_name: Annotated[
        str | None, option("--app", help="module:attribute, a Sequencer with a handler, or a function.")
    ] = None,
    command: Annotated[str | None, option("--exec", help="Shell command for each message, JSON on its stdin.")] = None,
    step: Annotated[
        list[str] | None,
        option(
            "--step",
            metavar="NAME=COMMAND",
            help="In place of --exec: a command for each step of a message, in this order. Its key is in "
            "SEQUENCER_STEP_KEY.",
        ),
    ] = None,
    once: Annotated[
        str, option("--once", metavar="NAMES", help="Steps of --step that never run again by themselves.")
    ] = "",
    pass_redis: Annotated[
        bool, option("--pass-redis", help="Give the commands of --exec or --step the server's URL, in SEQUENCER_REDIS.")
    ] = False,
    lease: Annotated[float, option("--lease", help="How long a dead consumer's groups wait.", **DURATION)] = LEASE_S,
    until_empty: Annotated[
        bool, option("--until-empty", help="End when nothing is left but parked or paused groups.")
    ] = False,
    until_idle: Annotated[
        bool, option("--until-idle", help="End when nothing is due; delayed messages and retries are left for later.")
    ] = False,
    max_messages: Annotated[
        int | None, option("--max-messages", help="Replace a consumer after this many messages.")
    ] = None,
    max_age: Annotated[
        float | None, option("--max-age", help="Replace a consumer after this time.", **DURATION)
    ] = None,
    handler_timeout: Annotated[
        float | None,
        option(
            "--handler-timeout",
            help="Time limit of a handler or command; one that exceeds it is stopped, and the attempt fails.",
            **DURATION,
        ),
    ] = None,
    max_attempts: Annotated[
        int, option("--max-attempts", help="Attempts of a message before --on-failure decides.")
    ] = DEFAULTS["max_attempts"],
    backoff: Annotated[
        float, option("--backoff", help="Wait before the first retry; doubled for each further one.", **DURATION)
    ] = seconds(DEFAULTS["backoff"]),
    on_failure: Annotated[
        OnFailure,
        option(
            "--on-failure",
            help="After the last try: park the group, or set the message aside or drop it, and the group goes on.",
        ),
    ] = DEFAULTS["on_failure"],
    park_on: Annotated[
        str,
        option(
            "--park-on",
            metavar="NAMES",
            help="Exceptions that park the group at once: OutOfStock,shop.errors.Closed (also their subclasses).",
        ),
    ] = "",
    dead_letter_on: Annotated[
        str,
        option("--dead-letter-on", metavar="NAMES", help="Exceptions that make the message a dead letter at once."),
    ] = "",
    outage: Annotated[
        str | None,
        option(
            "--outage",
            metavar="NAMES",
            help="Exceptions that say that what all handlers need is away: no attempt is counted, and the queue waits "
            "until it works again. Without it, ConnectionError,TimeoutError.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        float | None,
        option(
            "--grace",
            help="Time from a stop signal until handlers are interrupted; without it, a second signal does that.",
            **DURATION,
        ),
    ] = None,
    start_timeout: Annotated[
        float,
        option("--start-timeout", help="Time limit for importing --app; past it, the consumer is killed.", **DURATION),
    ] = START_S,
    audit: Annotated[bool, option("--audit", help="Record each handled message in the audit stream.")] = False,
    audit_length: Annotated[
        int, option("--audit-length", help="Entries that the stream of a shard keeps, about.")
    ] = AUDIT_LENGTH,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Handle messages, each group in order, with -n processes.

    With --app (or SEQUENCER_APP, or [tool.sequencer] app in pyproject.toml) runs that handler; with --exec a
    command, with --step one for each step of a message; with none of them prints each message as one JSON line,
    before it is acknowledged. The summary goes to standard error, or as JSON to standard output with --json (not
    while messages are printed there). What --exec raises when the command fails is CommandFailed. Options given
    here go before those of an app that is a Sequencer.
    """
    if redis:
        os.environ["SEQUENCER_REDIS"] = redis
    steps = [_step(text) for text in step or ()]
    has_command = command is not None or bool(steps)
    if app_name == "":
        raise typer.BadParameter("it is empty; name a handler, or leave it out to print messages", param_hint="--app")
    if has_command and is_of_variable(ctx, "app_name"):
        app_name = None  # what the call says wins
    if app_name is None and not has_command:
        app_name = app_from_project(Path.cwd())
    if app_name and has_command:
        hint = "--step" if steps else "--exec"
        raise typer.BadParameter(f"give --app or {hint}, not both", param_hint=hint)
    if command and steps:
        raise typer.BadParameter("give --exec or --step, not both", param_hint="--step")
    if once and not steps:
        raise typer.BadParameter("it names steps of --step; add --step", param_hint="--once")
    if pass_redis and not has_command:
        raise typer.BadParameter("it says what the commands of --exec are given; add --exec", param_hint="--pass-redis")
    if audit_length != AUDIT_LENGTH and not audit:
        raise typer.BadParameter("it says how much --audit keeps; add --audit", param_hint="--audit-length")
    if handler_timeout is not None and not (app_name or has_command):
        raise typer.BadParameter(
            "it limits a handler or a command; give --app or --exec", param_hint="--handler-timeout"
        )
    log: LogOptions = ctx.obj or LogOptions()
    config = WorkerConfig(
        queue=queue,
        namespace=namespace,
        app=app_name,
        command=command,
        steps=steps,
        once=_names(once),
        passes_redis=pass_redis,
        lease=lease,
        until_empty=until_empty,
        until_idle=until_idle,
        max_messages=max_messages,
        max_age=max_age,
        handler_timeout=handler_timeout,
        settings=_named(
            ctx,
            {
                "max_attempts": max_attempts,
                "backoff": backoff,
                "on_failure": on_failure,
                "park_on": _names(park_on),
                "dead_letter_on": _names(dead_letter_on),
                "outage": None if outage is None else _names(outage),
            },
        ),
        audit=audit,
        audit_length=audit_length,
        grace=grace,
        start_timeout=start_timeout,
        log_level=log.level,
        log_format=log.format,
    )
    return _supervise(config, processes, json)


def _step(text: str) -> tuple[str, str]:
    name, found, command = text.partition("=")
    if not found:
        raise typer.BadParameter(f"{text!r} must be NAME=COMMAND, like charge='./charge.sh'", param_hint="--step")
    return name.strip(), command


def _named(ctx: typer.Context, settings: QueueSettings) -> QueueSettings:
    """Those that the command line or a variable gives: they go before an app's own."""
    given = {name: value for name, value in settings.items() if not is_of_default(ctx, name)}
    return cast(QueueSettings, given)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _say_unknown_errors(settings: QueueSettings) -> None:
    """Only now are the app's own loaded; a module that a handler imports is not."""
    for setting in ("park_on", "dead_letter_on", "outage"):
        for name, near in unknown_names(cast(tuple[str, ...], settings.get(setting) or ())).items():
            meant = f"did you mean {near}?" if near else "is its name right, and its module loaded with the app?"
            say(f"warning: --{setting.replace('_', '-')} {name} fits no exception that is loaded now; {meant}")


def _supervise(config: WorkerConfig, processes: int, as_json: bool) -> int:
    for command in [config.command, *(one for _, one in config.steps)]:
        if command is not None:
            check_command(command)

    def end_start() -> None:
        say(f"error: app {config.app}: {import_hangs(config.start_timeout)}")
        os._exit(WRONG_USE)

    with limited(config.start_timeout, end_start):
        changed = overrides(config)
        client, _ = prepare(config)
    _say_unknown_errors(config.settings)
    hear_interrupts()
    config.options()  # what a consumer would refuse is refused here
    with client:
        url = client.endpoint.url or ""
        if config.app and not server_named() and not _is_default(url):
            name_server(url)  # the app's own: no variable says it in the shell where the lines are pasted
        known = names_of_queues(client)
        with new_queue_said(by_command=True):
            client.connect()
        supervisor = Supervisor(config.on(None if config.app else client.endpoint.url), processes)
        with background_writing():
            _say_started(config, processes, client.endpoint.name, changed)
            say_unused(client, known)
            status = supervisor.run()
            _end_at_signals(status)
        left = look_at(client)
        if (config.until_empty or config.until_idle) and status == FINE and left and left.parked:
            status = PARKED
            _end_at_signals(status)
    if as_json and (config.app or config.runs_commands):
        print_json({**asdict(supervisor.totals), "queue": left and queue_json(left)})
    else:
        summarize(config.queue, supervisor.totals, many(processes, "consumer"), config.log_format)
        if left is not None and config.log_format != "json":
            say_left(left, config.namespace)
    return status


def _is_default(url: str) -> bool:
    """Whether a command in this shell finds the server without being told where it is."""
    with suppress(ConfigurationError):  # no home directory, so no embedded server
        return url == (os.environ.get("SEQUENCER_REDIS") or EmbeddedServer().url)
    return False


def _end_at_signals(status: int) -> None:
    """The consumers have ended: a signal changes nothing about how it went. Only where it takes long to say that, since
    the server does not answer or nobody reads, it ends us.
    """
    until = time.monotonic() + SAID_S

    def end(*_: object) -> None:
        if time.monotonic() > until:
            os._exit(status)

    for number in stop_signals_in_use():
        signal.signal(number, end)


def _say_started(config: WorkerConfig, processes: int, server: str, changed: list[str]) -> None:
    app = f"app {config.app}" if config.app else f"command {config.command!r}" if config.command else "printing"
    if config.steps:
        app = f"steps {', '.join(name for name, _ in config.steps)}"
    app += f" with {', '.join(changed)}" if changed else ""
    started = service_started(
        config.queue, server=server, app=app, processes=processes, lease_s=config.lease, version=VERSION
    )
    emit_of_service(started)
