"""Commands that check, and exit with 5 if they find a problem: doctor, check; and acl."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..client import Sequencer, find_server
from ..doctor.diagnose import diagnose, is_healthy
from ..doctor.rights import ROLES, acl_rules
from ..errors import ConfigurationError
from ..settings.option import declared
from ..settings.thresholds import Thresholds
from ..texts.commands import command
from ..values.checks import check_name
from .app import JsonOption, NamespaceOption, OptionalQueueArgument, RedisOption, app, queue_command
from .declared import takes_options
from .output import FINE, FOUND, Answer
from .queues import require_queue
from .table import table


@app.command()
def doctor(
    queue: OptionalQueueArgument = None,
    repair: Annotated[bool, Option("--repair", help="Fix what can be fixed from the data.")] = False,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Check server, rights and invariants; with --repair, fix them.

    Exits with 5 if problems are left.
    """
    check_name("namespace", namespace)
    server = find_server(redis)
    if queue is not None:
        with Sequencer(queue, server, namespace=namespace) as client:
            require_queue(client)
    found = diagnose(server, namespace, queue, repair=repair, for_program=json)
    rows = [{"level": "repaired" if one.repaired else one.level, "check": one.check, "": one.text} for one in found]
    return Answer(found, table(rows), status=FINE if is_healthy(found) else FOUND).show(json)


@app.command()
def acl(
    role: Annotated[str, Argument(help=f"Role of the user: {', '.join(ROLES)}.")],
    queue: Annotated[str | None, Argument(help="Only this queue. Default: all queues of the namespace.")] = None,
    namespace: NamespaceOption = "sequencer",
) -> None:
    """Print the minimal rights of a role, as arguments for ACL SETUSER."""
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    typer.echo(" ".join(["resetchannels", *acl_rules(namespace, role, queue)]))


INSPECT = {"parked": "parked", "dead": "dead list", "wait": "groups", "lag": "groups"}
"""Limit -> the command that shows the cause, where that is not `info`."""
LIMITS = ("wait", "no_consumers", "lag", "backlog", "parked", "dead")
"""As alerts know them, too."""
LIMIT_OPTIONS = {
    f"max_{name}": replace(declared(Thresholds)[name], name=f"max_{name}", default=None) for name in LIMITS
}


@queue_command(app)
@takes_options(LIMIT_OPTIONS)
def check(client: Sequencer, **given: Any) -> Answer:
    """Compare a queue with limits, for cron and monitoring systems.

    Prints a line for each limit; exits with 5 if one is exceeded.

    A time is written as 90s, 10m, 2h or 1d. --max-lag and --max-backlog read up to 20,000 groups, and take a sample of
    more.
    """
    limits = {name.removeprefix("max_"): float(LIMIT_OPTIONS[name].read(value)) for name, value in given.items()}
    if not limits:
        raise ConfigurationError("limit_missing")
    found, rows = list[dict[str, Any]](), []
    for name, value in _values(client, limits).items():
        most, is_passed = limits[name], value > limits[name]
        inspect = command(INSPECT.get(name, "info"), client.queue, namespace=client.options.namespace)
        found.append({"name": name, "value": value, "limit": most, "is_passed": is_passed, "inspect": inspect})
        shown = (value, most) if name in ("wait", "no_consumers", "lag") else (int(value), int(most))
        row = {"": "exceeded" if is_passed else "ok", "limit": name, "found": shown[0], "at most": shown[1]}
        rows.append({**row, "inspect": inspect if is_passed else ""})
    is_fine = not any(one["is_passed"] for one in found)
    answer = {"queue": client.queue, "is_fine": is_fine, "limits": found}
    return Answer(answer, table(rows), status=FINE if is_fine else FOUND)


def _values(client: Sequencer, names: dict[str, float]) -> dict[str, float]:
    """What was found for each of these names, with as few calls as they need."""
    found: dict[str, float] = {}
    if names.keys() & {"wait", "parked", "dead"}:
        snapshot = client.snapshot()
        found |= {"wait": snapshot.waits_s, "parked": snapshot.parked, "dead": snapshot.dead}
    if names.keys() & {"no_consumers", "lag", "backlog"}:
        info = client.info()
        found |= {"lag": info.lag_s, "backlog": info.backlog}
        found["no_consumers"] = info.no_consumers.waits_s if info.no_consumers else 0.0
    return {name: found[name] for name in names}
