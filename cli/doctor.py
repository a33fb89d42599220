"""Commands that check, and exit with 5 if they find a problem: doctor, audit, check; and acl."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..client import Sequencer, find_server
from ..doctor.diagnose import diagnose, is_healthy
from ..doctor.rights import ROLES, acl_rules
from ..errors import ConfigurationError
from ..texts.commands import command
from ..texts.findings import Finding
from ..texts.words import many, moment
from ..values.checks import check_name
from ..values.views import AuditReport, as_json
from .app import (
    DURATION,
    FINE,
    FOUND,
    JsonOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    call_option,
    queue_command,
)
from .queues import require_queue
from .render import cells, console, fields_table, print_json, seconds, table


@app.command()
def doctor(
    queue: OptionalQueueArgument = None,
    repair: Annotated[bool, call_option("--repair", help="Fix what can be fixed from the data.")] = False,
    limit: Annotated[
        int | None,
        call_option("--limit", min=1, help="Read at most about this many names per queue.", show_default=False),
    ] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Check server, rights and invariants; with --repair, fix them.

    Exits with 5 if problems are left.
    """
    if queue is not None:
        check_name("queue", queue)
    check_name("namespace", namespace)
    server = find_server(redis)
    if queue is not None:
        with Sequencer(queue, server, namespace=namespace) as client:
            require_queue(client)
    findings = diagnose(server, namespace, queue, repair=repair, limit=limit, for_program=json)
    if json:
        print_json(findings)
    else:
        _show_findings(findings)
    raise typer.Exit(FINE if is_healthy(findings) else FOUND)


@app.command()
def acl(
    role: Annotated[str, typer.Argument(help=f"Role of the user: {', '.join(ROLES)}.", show_default=False)],
    queue: Annotated[
        str | None, typer.Argument(help="Only this queue. Default: all queues of the namespace.", show_default=False)
    ] = None,
    namespace: NamespaceOption = "sequencer",
) -> None:
    """Print the minimal rights of a role, as arguments for ACL SETUSER."""
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    typer.echo(" ".join(["resetchannels", *acl_rules(namespace, role, queue)]))


def _show_findings(findings: list[Finding]) -> None:
    rows = table("level", "check", "")
    for one in findings:
        rows.add_row(*cells("repaired" if one.repaired else one.level, one.check, one.text))
    console().print(rows)


NOTHING = "nothing to audit: consumers of this queue keep no record; start them with `sequencer consume --audit`"
TRIMMED = {True: "; older records are gone", False: "; complete"}


@queue_command(app)
def audit(client: Sequencer, json: JsonOption = False) -> int:
    """Check that groups were handled in order, from what consumers recorded.

    In order, and one message at a time. Needs consumers started with `consume --audit`.
    """
    report = client.audit()
    if json:
        print_json({**as_json(report), "is_clean": report.is_clean})
    elif report.first_at is None:
        typer.echo(NOTHING)
    else:
        console().print(fields_table(_facts(report)), soft_wrap=True)
    return FINE if report.is_clean else FOUND


def _facts(report: AuditReport) -> dict[str, str]:
    """The first violation last."""
    first, last = (moment(at or 0) for at in (report.first_at, report.last_at))
    facts = {
        "messages": f"{report.messages:,} of {many(report.groups, 'group')}",
        "recorded": f"{first} to {last}{TRIMMED[report.is_trimmed]}",
        "duplicates": f"{many(report.duplicates, 'run')} of messages handled before",
        "refused": f"{many(report.refused, 'run')} whose lease was lost",
        "inversions": f"{report.inversions:,}",
        "overlaps": f"{report.overlaps:,}",
        "tokens going back": f"{report.tokens_back:,}",
    }
    if report.untimed:
        facts["not timed"] = f"{many(report.untimed, 'run')}: the server's clock had been set back"
    return facts | ({"verdict": "clean"} if report.case is None else {"verdict": "violated", "first case": report.case})


_TIME: dict[str, Any] = {"show_default": False, **DURATION}
_COUNT: dict[str, Any] = {"min": 0, "show_default": False}


TIMES = ("wait", "no_consumers", "lag")
INSPECT = {"parked": "parked", "dead": "dead list", "wait": "groups", "lag": "groups"}
"""Limit -> the command that shows what is behind it, where that is not `info`."""


@queue_command(app)
def check(
    client: Sequencer,
    max_wait: Annotated[
        float | None, call_option("--max-wait", help="Longest that a due group may wait for a consumer.", **_TIME)
    ] = None,
    max_no_consumers: Annotated[
        float | None,
        call_option(
            "--max-no-consumers", help="Longest that groups may be due while no consumer has one in progress.", **_TIME
        ),
    ] = None,
    max_lag: Annotated[
        float | None, call_option("--max-lag", help="Age of the oldest head of a group.", **_TIME)
    ] = None,
    max_backlog: Annotated[int | None, call_option("--max-backlog", help="Pending messages.", **_COUNT)] = None,
    max_parked: Annotated[int | None, call_option("--max-parked", help="Parked groups.", **_COUNT)] = None,
    max_dead: Annotated[int | None, call_option("--max-dead", help="Dead letters.", **_COUNT)] = None,
    json: JsonOption = False,
) -> int:
    """Compare a queue with limits, for cron and monitoring systems.

    Prints a line for each limit; exits with 5 if one is exceeded.

    A time is written as 90s, 10m, 2h or 1d. --max-lag and --max-backlog read up to 20,000 groups, and take a sample of
    more.
    """
    given = {"wait": max_wait, "no_consumers": max_no_consumers, "lag": max_lag}
    given |= {"backlog": max_backlog, "parked": max_parked, "dead": max_dead}
    limits = {name: float(most) for name, most in given.items() if most is not None}
    if not limits:
        raise ConfigurationError("give at least one limit, for example --max-wait 60s or --max-parked 0")
    found: list[dict[str, Any]] = []
    rows = table("", "limit", "found", "at most", "inspect")
    for name, value in _values(client, limits).items():
        most, is_passed = limits[name], value > limits[name]
        line = command(INSPECT.get(name, "info"), client.queue, namespace=client.options.namespace)
        found.append({"name": name, "value": value, "limit": most, "is_passed": is_passed, "inspect": line})
        words = [seconds(one) if name in TIMES else f"{one:,.0f}" for one in (value, most)]
        rows.add_row(*cells("exceeded" if is_passed else "ok", name, *words, line if is_passed else ""))
    is_fine = not any(one["is_passed"] for one in found)
    if json:
        print_json({"queue": client.queue, "is_fine": is_fine, "limits": found})
    else:
        console().print(rows)
    return FINE if is_fine else FOUND


def _values(client: Sequencer, names: dict[str, float]) -> dict[str, float]:
    """What was found for each of these names, by as few looks as they need."""
    found: dict[str, float] = {}
    if names.keys() & {"wait", "parked", "dead"}:
        snapshot = client.snapshot()
        found |= {"wait": snapshot.waits_s, "parked": snapshot.parked, "dead": snapshot.dead}
    if names.keys() & {"no_consumers", "lag", "backlog"}:
        info = client.info()
        found |= {"lag": info.lag_s, "backlog": info.backlog}
        found["no_consumers"] = info.no_consumers.waits_s if info.no_consumers else 0.0
    return {name: found[name] for name in names}
