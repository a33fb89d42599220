"""`sequencer audit`: whether what consumers recorded shows order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

import typer

from ..client import Sequencer
from ..queue.audit import Proof
from .app import FINE, FOUND, JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .render import plain, print_json

NOTHING = "nothing to audit: no consumer of this queue records; start them with `sequencer consume --audit`"
TRIMMED = {True: "; older records are gone", False: "; all there ever were", None: ""}


@app.command()
def audit(
    queue: QueueArgument,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> int:
    """Prove from what consumers recorded (consume --audit) that each group was handled in order and one at a time."""
    with Sequencer(queue, redis, namespace=namespace) as client:
        proof = client.audit()
    if json:
        print_json({**asdict(proof), "is_clean": proof.is_clean})
    elif proof.first_at is None:
        typer.echo(NOTHING)
    else:
        for line in proof_lines(proof):
            typer.echo(line)
    return FINE if proof.is_clean else FOUND


def proof_lines(proof: Proof) -> Iterator[str]:
    """One line a fact; the first violation last."""
    first, last = (_when(at) for at in (proof.first_at, proof.last_at))
    facts = {
        "messages": f"{proof.messages:,} of {proof.groups:,} groups",
        "recorded": f"{first} to {last}{TRIMMED[proof.is_trimmed]}",
        "duplicates": f"{proof.duplicates:,} runs of messages handled before",
        "refused": f"{proof.refused:,} runs whose lease was lost",
        "inversions": f"{proof.inversions:,}",
        "overlaps": f"{proof.overlaps:,}",
        "tokens going back": f"{proof.tokens_back:,}",
    }
    if proof.untimed:
        facts["not timed"] = f"{proof.untimed:,} runs: the server's clock had been set back"
    facts |= {"verdict": "clean"} if proof.case is None else {"verdict": "violated", "first case": proof.case}
    for name, value in facts.items():
        yield f"{name:<19}{plain(value)}"


def _when(at: float | None) -> str:
    return f"{datetime.fromtimestamp(at or 0, UTC):%Y-%m-%d %H:%M:%S} UTC"
