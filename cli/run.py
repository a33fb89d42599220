"""`sequencer run`: many queues of one file, under one master."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError, SequencerError, ServerUnavailable
from ..processes.logs import LogOptions, background_writing
from ..settings.option import declared
from ..settings.options import HttpOptions
from ..texts.words import many, plain
from .app import JsonOption, RedisOption, app, hear_hangups, hear_interrupts
from .declared import served, takes_options
from .file import FileArgument, NamespaceOfFileOption, find, read_with_server
from .output import FINE, WRONG_USE, Answer
from .queues import log_unused
from .summary import summarize
from .table import cell, table

if TYPE_CHECKING:
    from ..processes.master.plan import RunPlan

COLUMNS = ("queue", "state", "n", "busy", "out/s", "handled", "due", "waits", "parked", "dead", "ages")
"""Of a pool."""


@app.command()
@takes_options(declared(HttpOptions))
def run(
    ctx: typer.Context,
    file: FileArgument = None,
    check: Annotated[
        bool, Option("--check", help="Load every app, check the rights and print the plan, but run nothing.")
    ] = False,
    status: Annotated[
        bool, Option("--status", help="Show the status of the master that runs this file on this host.")
    ] = False,
    redis: RedisOption = None,
    namespace: NamespaceOfFileOption = None,
    json: JsonOption = False,
    **given: Any,
) -> int:
    """Run the consumers of many queues, as defined in a file.

    The file is sequencer.toml, or [tool.sequencer] in pyproject.toml; see docs/configuration.md. SIGHUP reloads it and
    replaces the consumers one by one, with the new code. SIGTERM and Ctrl-C stop in stages, as with `consume`.
    """
    path, log = find(file), ctx.obj

    def read() -> RunPlan:
        return replace(read_with_server(path, log, redis, namespace), **given)

    if status or check:
        hear_hangups()
        return (_status(path) if status else _check(read())).show(json)
    if json:
        raise ConfigurationError("json_needs", option="--check", other="--status")
    return _run(read, log)


def _run(read: Callable[[], RunPlan], log: LogOptions) -> int:
    from ..processes.master.master import Master

    plan = read()
    hear_interrupts()
    errors = [error for pool in plan.pools if (error := _unusable(pool.queue, plan))]
    if len(errors) == len(plan.pools):
        raise errors[0]
    master = Master(plan, read)
    with background_writing(), served(plan.http, master):
        status = master.run()
    for pool in master.pools:
        summarize(pool.queue, pool.totals, pool.totals.started, log.format, names_queue=True)
    return status


def _unusable(queue: str, plan: RunPlan) -> SequencerError | None:
    """Why a queue can't be consumed; its consumers log that, and the other queues run. Raises ServerUnavailable."""
    with Sequencer(queue, plan.redis, namespace=plan.namespace) as client:
        try:
            client.info()  # it registers nothing: a new queue is as its consumers ask for it
        except ServerUnavailable:
            raise
        except SequencerError as error:
            return error
        log_unused(client)
    return None


def _check(plan: RunPlan) -> Answer:
    from ..processes.master.application import examine_all

    found = examine_all(plan)
    problems = [plain(f"error: {one.queue}: {text}") for one in found for text in one.problems]
    value = {"file": str(plan.path), "is_fine": not problems, "queues": [asdict(one) for one in found]}
    rows = [
        {
            "queue": pool.queue,
            "handles": one.handles,
            "n": pool.n,
            "max": pool.most,
            "lease": pool.config.lease_s,
            "max age": pool.config.max_age_s,
            "rights": ", ".join(one.rights) or "none",
            "directory": pool.cwd,
        }
        for one, pool in zip(found, plan.pools, strict=True)
    ]
    return Answer(value, table(rows), hint="\n".join(problems), status=WRONG_USE if problems else FINE)


def _status(path: Path) -> Answer:
    from ..processes.master.status import ask

    found = ask(path)
    title = f"{found['file']}: {found['state']}, pid {found['pid']}, up {cell(found['age_s'])}"
    rows = [
        {name: pool.get(name) for name in COLUMNS}
        | {"n": f"{len(pool['processes'])} of {pool['n']} to {pool['max']}", "waits": pool["waits_s"]}
        | {"busy": f"{pool['busy']:g}", "out/s": f"{pool['rate']:g}"}
        | {"ages": " ".join(cell(one["age_s"]) for one in pool["processes"])}
        for pool in found["pools"]
    ]
    consumers = f"{many(found['processes'], 'consumer')} of at most {found['max_processes']:,}"
    return Answer(found, plain(f"{title}, {consumers}"), table(rows))
