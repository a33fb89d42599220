"""`sequencer doctor` examines a server and its queues, and fixes what the data allow; `acl` prints the least rights."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import Sequencer, find_server
from ..doctor.diagnose import diagnose, is_healthy
from ..doctor.rights import ROLES, acl_rules
from ..texts.findings import Finding
from ..values.checks import check_name
from .app import (
    FINE,
    FOUND,
    JsonOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    call_option,
)
from .queues import require_queue
from .render import cells, console, print_json, table


@app.command()
def doctor(
    queue: OptionalQueueArgument = None,
    repair: Annotated[bool, call_option("--repair", help="Fix what the data allow.")] = False,
    limit: Annotated[
        int | None,
        call_option("--limit", min=1, help="Read about this many names in each queue.", show_default=False),
    ] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Check server, rights and invariants; exit code 5 when problems are left."""
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
        _show(findings)
    raise typer.Exit(FINE if is_healthy(findings) else FOUND)


@app.command()
def acl(
    role: Annotated[str, typer.Argument(help=f"What the user does: {', '.join(ROLES)}.", show_default=False)],
    queue: Annotated[
        str | None, typer.Argument(help="Only for this queue; else for all of the namespace.", show_default=False)
    ] = None,
    namespace: NamespaceOption = "sequencer",
) -> None:
    """Print the least rights of a role, as words for ACL SETUSER."""
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    typer.echo(" ".join(["resetchannels", *acl_rules(namespace, role, queue)]))


def _show(findings: list[Finding]) -> None:
    rows = table("level", "check", "")
    for one in findings:
        rows.add_row(*cells("repaired" if one.repaired else one.level, one.check, one.text))
    console().print(rows)
