"""`sequencer audit`: whether what consumers recorded shows order."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from ..client import Sequencer
from ..texts.words import many, moment, plain
from ..values.views import AuditReport, as_json
from .app import FINE, FOUND, JsonOption, app, queue_command
from .render import print_json

NOTHING = "nothing to audit: no consumer of this queue records; start them with `sequencer consume --audit`"
TRIMMED = {True: "; older records are gone", False: "; all there ever were", None: ""}


@queue_command(app)
def audit(client: Sequencer, json: JsonOption = False) -> int:
    """Prove from what consumers recorded (consume --audit) that each group was handled in order and one at a time."""
    report = client.audit()
    if json:
        print_json({**as_json(report), "is_clean": report.is_clean})
    elif report.first_at is None:
        typer.echo(NOTHING)
    else:
        for line in report_lines(report):
            typer.echo(line)
    return FINE if report.is_clean else FOUND


def report_lines(report: AuditReport) -> Iterator[str]:
    """One line a fact; the first violation last."""
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
    facts |= {"verdict": "clean"} if report.case is None else {"verdict": "violated", "first case": report.case}
    for name, value in facts.items():
        yield f"{name:<19}{plain(value)}"
