"""`sequencer consume`: n consumer processes under a supervisor."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from ..errors import ConfigurationError
from ..processes.handlers.apps import app_from_project, limited
from ..processes.handlers.exec import check_command
from ..processes.logs import LogOptions, background_writing, emit_of_service
from ..processes.pool import Pool
from ..processes.signals import stop_signals_in_use
from ..processes.supervisor import Supervisor
from ..processes.worker.config import WorkerConfig, prepare
from ..server import EmbeddedServer
from ..settings.option import declared, fields_of
from ..settings.options import HttpOptions, QueueOptions, ServiceOptions
from ..texts.commands import name_server, server_named
from ..texts.events import event
from ..texts.refusals import refusal_text
from ..values.version import VERSION
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app, hear_interrupts, is_of_call
from .declared import served, takes
from .output import FINE, PARKED, WRONG_USE, json_text, say
from .queues import log_unused
from .summary import look_at, say_left, summarize


@app.command()
@takes("consume", ServiceOptions, HttpOptions, QueueOptions)
def consume(
    ctx: typer.Context,
    queue: QueueArgument,
    processes: Annotated[
        int, Option("--processes", "-n", envvar="SEQUENCER_PROCESSES", min=1, max=1024, help="Consumer processes.")
    ] = 1,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
    **given: Any,
) -> int:
    """Handle messages, each group in order, with -n processes.

    --app (or SEQUENCER_APP, or app under [tool.sequencer] in pyproject.toml) runs that handler; --exec runs a
    command. With neither, each message is printed as one JSON line and then acknowledged. The summary goes to
    standard error; with --json it goes to standard output as JSON, unless messages are printed there. A failed --exec
    command raises CommandFailed. Options given here override those of an app that is a Sequencer.
    """
    if redis:
        os.environ["SEQUENCER_REDIS"] = redis
    if "exec" in given and not is_of_call(ctx, "app"):
        given.pop("app", None)  # a variable names it: the command line wins
    if not {"app", "exec"} & {*given}:
        if (found := app_from_project(Path.cwd())) is not None:
            given["app"] = found
        elif "handler_timeout" in given:
            raise ConfigurationError("timeout_without_handler")
    log: LogOptions = ctx.obj
    settings: Any = {name: value for name, value in given.items() if name in declared(QueueOptions)}
    config = WorkerConfig(
        queue=queue,
        namespace=namespace,
        settings=settings,
        log_level=log.level,
        log_format=log.format,
        **fields_of(WorkerConfig, given),
    )
    return _supervise(config, processes, HttpOptions(**fields_of(HttpOptions, given)).http, json)


def _supervise(config: WorkerConfig, processes: int, http: str | None, as_json: bool) -> int:
    if config.exec:
        check_command(config.exec)

    def end_start() -> None:
        say(f"error: {refusal_text('import_too_slow', {'app': config.app, 'limit_s': config.start_timeout_s})}")
        os._exit(WRONG_USE)

    with limited(config.start_timeout_s, end_start):
        client, _ = prepare(config)
    hear_interrupts()
    with client:
        url = client.endpoint.url or ""
        if config.app and not server_named() and not _is_default(url):
            name_server(url)  # the app's own: no variable says it in the shell where the lines are pasted
        client.connect()
        pool = Pool(replace(config, url=None if config.app else client.endpoint.url), processes)
        with background_writing():
            _say_started(config, processes, client.endpoint.name)
            log_unused(client)
            supervisor = Supervisor([pool])
            with served(http, supervisor):
                status = supervisor.run()
            _ignore_signals()
        left = look_at(client)
        if (config.until_empty or config.until_idle) and status == FINE and left and left.parked:
            status = PARKED
    if as_json and (config.app or config.exec):
        typer.echo(json_text({**asdict(pool.totals), "queue": left}))
    else:
        summarize(config.queue, pool.totals, processes, config.log_format)
        if left is not None and config.log_format != "json":
            say_left(left, config.namespace)
    return status


def _is_default(url: str) -> bool:
    """Whether a command in this shell finds the server without `--redis`."""
    with suppress(ConfigurationError):  # no home directory, so no embedded server
        return url == (os.environ.get("SEQUENCER_REDIS") or EmbeddedServer().url)
    return False


def _ignore_signals() -> None:
    """The consumers have ended: a signal changes nothing about how it went, and the summary takes no longer than a call
    to the server. By a function, since children would inherit `SIG_IGN`.
    """
    for number in stop_signals_in_use():
        signal.signal(number, lambda *_: None)


def _say_started(config: WorkerConfig, processes: int, server: str) -> None:
    texts = {name: ",".join(value) if isinstance(value, list) else value for name, value in config.settings.items()}
    given = [f"{name}={text}" for name, text in texts.items()]
    app = f"{config.handles} with {', '.join(given)}" if given else config.handles
    emit_of_service(
        event(
            "service started",
            config.queue,
            server=server,
            app=app,
            processes=processes,
            lease_s=config.lease_s,
            version=VERSION,
        )
    )
