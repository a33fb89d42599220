"""`sequencer configure`: shows or sets the policy of a queue."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from ..client import Sequencer
from ..settings.options import QueueSettings
from ..settings.policy import NAMES, OnGap, OnLate, Policy
from ..texts.commands import command
from ..values.checks import near_name
from .app import DURATION, JsonOption, NamespaceOption, QueueArgument, RedisOption, app, call_option
from .queues import names_of_queues
from .render import console, policy_table, print_json


def _policy(name: str, help: str, **more: Any) -> Any:
    """An option of the policy. Without it that stays as it is, so there is no default to show."""
    return call_option(name, help=help, show_default=False, **more)


@app.command()
def configure(
    ctx: typer.Context,
    queue: QueueArgument,
    dedup_window: Annotated[
        float | None,
        _policy(
            "--dedup-window", "How long an id is remembered after its message was handled; 0: not at all.", **DURATION
        ),
    ] = None,
    dedup_cap: Annotated[
        int | None, _policy("--dedup-cap", "Handled ids after which the older half is forgotten early.")
    ] = None,
    on_late: Annotated[
        OnLate | None, _policy("--on-late", "For a score below one already handled in its group.")
    ] = None,
    watermark_window: Annotated[
        float | None,
        _policy("--watermark-window", "How long a group's watermark is remembered after its last message.", **DURATION),
    ] = None,
    watermark_cap: Annotated[
        int | None,
        _policy("--watermark-cap", "Groups after which the older half of the watermarks is forgotten early."),
    ] = None,
    reorder_window: Annotated[
        float | None, _policy("--reorder-window", "Time from arrival to handling, for stragglers; 0: none.", **DURATION)
    ] = None,
    sequence: Annotated[
        bool | None,
        _policy(
            "--sequence/--no-sequence",
            "Whether scores are consecutive numbers from 1 in each group; fixed at first use.",
        ),
    ] = None,
    gap_timeout: Annotated[
        float | None,
        _policy("--gap-timeout", "How long a message waits for missing numbers before it.", **DURATION),
    ] = None,
    on_gap: Annotated[
        OnGap | None, _policy("--on-gap", "For a group whose missing number did not come in time.")
    ] = None,
    history_window: Annotated[
        float | None,
        _policy(
            "--history",
            "How long to keep the outcome of each ended message: 3d, 12h; 0: not at all.",
            **DURATION,
        ),
    ] = None,
    history_cap: Annotated[
        int | None,
        _policy("--history-cap", "Messages in the history of a shard above which the oldest are dropped."),
    ] = None,
    history_bodies: Annotated[
        bool | None,
        _policy(
            "--history-bodies/--no-history-bodies",
            "Keep bodies and step results in the history too, for `rerun`; costs their memory.",
        ),
    ] = None,
    dead_window: Annotated[
        float | None,
        _policy("--dead-window", "How long a dead letter is kept until `sweep`: 30d; 0: for ever.", **DURATION),
    ] = None,
    dead_cap: Annotated[
        int | None,
        _policy("--dead-cap", "Dead letters of a shard above which `sweep` deletes the oldest; 0: no limit."),
    ] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Show the policy of a queue, or with options set it.

    The policy is kept in the server and holds for all producers and consumers, from their next call on; what is not
    named stays as it is. A queue that is not there yet is made when a policy is set. Below the policy stand the body
    fields that the queue remembers.
    """
    wanted = {name: ctx.params[name] for name in NAMES if ctx.params[name] is not None}
    setting = Sequencer(queue, redis, namespace=namespace, **cast(QueueSettings, wanted))
    with Sequencer(queue, redis, namespace=namespace) as looking:
        before, known = looking.policy, names_of_queues(looking)
        fields = {name: value for name, value in looking.fields._asdict().items() if value is not None}
    policy = before
    if wanted:
        with setting:
            _connect_quietly(setting)
            policy = setting.policy
    _show(queue, namespace, policy, before, fields, known, bool(wanted), json)


def _connect_quietly(client: Sequencer) -> None:
    logging.disable(logging.WARNING)  # of what changes: the table says it
    try:
        client.connect()
    finally:
        logging.disable(logging.NOTSET)


def _show(
    queue: str,
    namespace: str,
    policy: Policy,
    before: Policy,
    fields: dict[str, Any],
    known: list[str] | None,
    is_set: bool,
    as_json: bool,
) -> None:
    now, old, is_new = asdict(policy), asdict(before), known is not None and queue not in known
    near = near_name(queue, known or [])
    was = {} if is_new else {name: old[name] for name in now if now[name] != old[name]}
    if as_json:
        print_json({"queue": queue, "is_new": is_new, "policy": now, "was": was, "fields": fields})
        return
    if is_new:
        state, policy_is = ("new", "its policy") if is_set else ("not there yet", "its policy would be")
        other = f" there is {near!r};" if near else ""
        if near and is_set:
            other += f" if that was meant: {command('delete', queue, namespace=namespace)};"
        typer.echo(f"queue {queue!r} is {state};{other} {policy_is}:")
    names = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    console().print(policy_table({**now, **names}, was))
