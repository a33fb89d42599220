"""`sequencer run`: many queues of one file, under one master."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..client import Sequencer
from ..errors import ConfigurationError, SequencerError, ServerUnavailable
from ..processes.logs import LogOptions, background_writing
from ..texts.words import many, plain
from .app import FINE, WRONG_USE, JsonOption, RedisOption, app, call_option, hear_hangups, hear_interrupts
from .file import FileArgument, NamespaceOfFileOption, find, read_with_server
from .queues import names_of_queues, say_unused
from .render import cells, console, print_json, say, seconds, table
from .summary import summarize

if TYPE_CHECKING:
    from ..processes.master.plan import RunPlan


@app.command()
def run(
    ctx: typer.Context,
    file: FileArgument = None,
    check: Annotated[
        bool, call_option("--check", help="Load every app, check the rights and print the plan, but run nothing.")
    ] = False,
    status: Annotated[
        bool, call_option("--status", help="Show the status of the master that runs this file on this host.")
    ] = False,
    redis: RedisOption = None,
    namespace: NamespaceOfFileOption = None,
    json: JsonOption = False,
) -> int:
    """Run the consumers of many queues, as defined in a file.

    The file is sequencer.toml, or [tool.sequencer] in pyproject.toml; see docs/configuration.md. SIGHUP reloads it and
    replaces the consumers one by one, with the new code. SIGTERM and Ctrl-C stop in stages, as with `consume`.
    """
    path, log = find(file), ctx.obj or LogOptions()

    def read() -> RunPlan:
        return read_with_server(path, log, redis, namespace)

    if status or check:
        hear_hangups()
        return _show_status(path, json) if status else _check(read(), json)
    if json:
        raise ConfigurationError("--json needs --check or --status")
    return _run(read, log)


def _run(read: Callable[[], RunPlan], log: LogOptions) -> int:
    from ..processes.master.master import Master

    plan = read()
    hear_interrupts()
    errors = [error for pool in plan.pools if (error := _unusable(pool.queue, plan))]
    if len(errors) == len(plan.pools):
        raise errors[0]
    master = Master(plan, read)
    with background_writing():
        status = master.run()
    for pool in master.pools:
        summarize(pool.queue, pool.totals, pool.totals.started, log.format, names_queue=True)
    return status


def _unusable(queue: str, plan: RunPlan) -> SequencerError | None:
    """Why a queue can't be consumed; its consumers log that, and the other queues run. Raises ServerUnavailable."""
    with Sequencer(queue, plan.url, namespace=plan.namespace) as client:
        known = names_of_queues(client)
        try:
            client.info()  # it registers nothing: a new queue is as its consumers ask for it
        except SequencerError as error:
            if known is None and isinstance(error, ServerUnavailable):
                raise
            return error
        say_unused(client, known)
    return None


def _check(plan: RunPlan, as_json: bool) -> int:
    from ..processes.master.application import examine_all

    found = examine_all(plan)
    problems = [f"{one.queue}: {text}" for one in found for text in one.problems]
    if as_json:
        queues = [asdict(one) for one in found]
        print_json({"file": str(plan.path), "is_fine": not problems, "queues": queues})
    else:
        rows = table("queue", "handles", "n", "max", "lease", "max age", "rights", "directory")
        for one, pool in zip(found, plan.pools, strict=True):
            config, rights = pool.config, ", ".join(one.rights) or "none"
            counts = (str(pool.n), str(pool.most), seconds(config.lease_s), seconds(config.max_age_s))
            rows.add_row(*cells(pool.queue, one.handles, *counts, rights, pool.cwd))
        console().print(rows)
    for problem in problems:
        say(plain(f"error: {problem}"))
    return WRONG_USE if problems else FINE


def _show_status(path: Path, as_json: bool) -> int:
    from ..processes.master.status import ask

    found = ask(path)
    if as_json:
        print_json(found)
        return FINE
    title = f"{found['file']}: {found['state']}, pid {found['pid']}, up {seconds(found['age_s'])}"
    typer.echo(plain(f"{title}, {many(found['processes'], 'consumer')} of at most {found['max_processes']:,}"))
    rows = table("queue", "state", "n", "busy", "out/s", "handled", "due", "waits", "parked", "dead", "ages")
    for pool in found["pools"]:
        ages = " ".join(seconds(one["age_s"]) for one in pool["processes"])
        counts = [f"{len(pool['processes'])} of {pool['n']} to {pool['max']}", f"{pool['busy']:g}", f"{pool['rate']:g}"]
        counts += [f"{pool['handled']:,}", *map(_known, (pool["due"],)), seconds(pool["waits_s"])]
        rows.add_row(*cells(pool["queue"], pool["state"], *counts, _known(pool["parked"]), _known(pool["dead"]), ages))
    console().print(rows)
    return FINE


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
