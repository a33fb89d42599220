"""`sequencer configure`: shows or sets the policy of a queue."""

from __future__ import annotations

import logging
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from ..client import Sequencer, list_queues
from ..settings.policy import Policy
from .app import JsonOption, NamespaceOption, QueueArgument, RedisOption, app
from .render import console, policy_table, print_json


class OnLate(StrEnum):
    """What becomes of a message whose score lies below one already handled in its group."""

    handle = "handle"
    dead_letter = "dead_letter"
    drop = "drop"
    refuse = "refuse"


class OnGap(StrEnum):
    """What becomes of a group when a missing number did not come in time."""

    park = "park"
    skip = "skip"


def _option(name: str, text: str, *more: str) -> Any:
    return typer.Option(*more, envvar=f"SEQUENCER_{name}", help=text, show_default=False)


@app.command()
def configure(
    queue: QueueArgument,
    dedup_window: Annotated[
        float | None, _option("DEDUP_WINDOW", "Seconds an id stays known after its message was handled; 0: not at all.")
    ] = None,
    dedup_cap: Annotated[
        int | None, _option("DEDUP_CAP", "Handled ids after which the older half is forgotten early.")
    ] = None,
    on_late: Annotated[OnLate | None, _option("ON_LATE", "For a score below one already handled in its group.")] = None,
    watermark_window: Annotated[
        float | None, _option("WATERMARK_WINDOW", "Seconds a group's watermark is known after its last message.")
    ] = None,
    watermark_cap: Annotated[
        int | None, _option("WATERMARK_CAP", "Groups after which the older half of the watermarks is forgotten early.")
    ] = None,
    reorder_window: Annotated[
        float | None, _option("REORDER_WINDOW", "Seconds from arrival to handling, for stragglers; 0: none.")
    ] = None,
    sequence: Annotated[
        bool | None,
        _option(
            "SEQUENCE",
            "Whether scores are consecutive numbers from 1 in each group; fixed at first use.",
            "--sequence/--no-sequence",
        ),
    ] = None,
    gap_timeout: Annotated[
        float | None, _option("GAP_TIMEOUT", "Seconds a message waits for the numbers missing before it.")
    ] = None,
    on_gap: Annotated[OnGap | None, _option("ON_GAP", "For a group whose missing number did not come in time.")] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Show the policy of a queue, or with options set it.

    The policy is kept in the server and holds for all producers and consumers, from their next call on; what is not
    named stays as it is. A queue that is not there yet is made when a policy is set.
    """
    asked = {
        "dedup_window": dedup_window,
        "dedup_cap": dedup_cap,
        "on_late": on_late and on_late.value,
        "watermark_window": watermark_window,
        "watermark_cap": watermark_cap,
        "reorder_window": reorder_window,
        "sequence": sequence,
        "gap_timeout": gap_timeout,
        "on_gap": on_gap and on_gap.value,
    }
    wanted = {name: value for name, value in asked.items() if value is not None}
    setting = Sequencer(queue, redis, namespace=namespace, **wanted)  # type: ignore[arg-type]
    with Sequencer(queue, redis, namespace=namespace) as looking:
        before, is_new = looking.policy, queue not in list_queues(redis, namespace)
    policy = before
    if wanted:
        with setting:
            _connect_quietly(setting)
            policy = setting.policy
    _show(queue, policy, before, is_new, bool(wanted), json)


def _connect_quietly(client: Sequencer) -> None:
    logging.disable(logging.WARNING)  # of what changes: the table says it
    try:
        client.connect()
    finally:
        logging.disable(logging.NOTSET)


def _show(queue: str, policy: Policy, before: Policy, is_new: bool, is_set: bool, as_json: bool) -> None:
    now, old = asdict(policy), asdict(before)
    was = {} if is_new else {name: old[name] for name in now if now[name] != old[name]}
    if as_json:
        print_json({"queue": queue, "is_new": is_new, "policy": now, "was": was})
        return
    if is_new:
        typer.echo(f"queue {queue} is {'new; its policy:' if is_set else 'not there yet; its policy would be:'}")
    console().print(policy_table(now, was))
