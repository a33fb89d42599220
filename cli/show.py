"""Read-only commands: info, groups, parked, consumers, peek, explain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import orjson
from typer import Option

from ..client import Sequencer, find_server
from ..doctor.diagnose import memory_trouble
from ..errors import SequencerError, StepResultInvalid, StepUnknown
from ..texts.answers import answer_text
from ..texts.words import named, plain, quoted
from ..values.message import Message
from ..values.views import GroupInfo, GroupState, QueueInfo, as_json
from .app import (
    AfterOption,
    GroupArgument,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OptionalQueueArgument,
    RedisOption,
    app,
    cut,
    queue_command,
    text_of,
)
from .many import ByErrorOption, error_table
from .output import Answer, say
from .queues import clients_of
from .table import error_words, log_fields, marked, number, table

GAP = "gap"
"""Shown as the error where a missing number holds a group back."""
STATES = ("groups", "due", "leased", "waiting", "parked", "paused", "dead")
"""Counts of groups, and of dead letters, as columns."""
UNRESUMED = {GAP, StepUnknown.__name__, StepResultInvalid.__name__}
"""Errors that `resume` of many groups leaves alone: they need a number, or an answer, first."""


@app.command()
def info(
    queue: OptionalQueueArgument = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
    json: JsonOption = False,
) -> None:
    """Backlog, lag, groups by state, dead letters, and rates.

    Of one queue, or of all. The JSON also has the policy. `top` shows it live.
    """
    clients = clients_of(queue, redis, namespace)
    for client in clients:  # rates need two snapshots
        client.info()
    time.sleep(0.2 if clients else 0)
    infos = [client.info() for client in clients]
    ours = [as_json(one) | {"policy": as_json(client.policy)} for one, client in zip(infos, clients, strict=True)]
    Answer(ours if queue is None else ours[0], queues_text(infos) or "no queues").show(json)
    if json or any(one.unreachable for one in infos):
        return
    with suppress(SequencerError):  # doctor names missing rights
        if said := memory_trouble(find_server(redis)):
            say(f"memory: {said}")


def queues_text(infos: list[QueueInfo], at: int | None = None) -> str:
    """The table, with a mark before row `at`, and below it what a history has, what is left out, and what holds a queue
    back: an outage, or that nobody consumes.
    """
    lines = list[str]()
    for info in infos:
        of = info.shards if info.outage and info.outage.shards < info.shards else None
        about = {"queue": info.queue, "namespace": info.namespace, "of": of}
        names = ("unreachable", "history", "outage", "no_consumers")
        facts = {name: getattr(info, name) for name in names}
        lines += [answer_text(code, **as_json(found), **about) for code, found in facts.items() if found]
    return "\n".join([_queue_table(infos, at), *lines])


def _queue_table(infos: list[QueueInfo], at: int | None) -> str:
    """On a narrow terminal first without paused groups and dead letters, where there are none."""
    rows = [
        {
            "queue": f"{info.queue} (paused)" if info.is_paused else info.queue,
            "backlog": f"{'~' if info.is_estimate else ''}{info.backlog:,}",
            "lag": info.lag_s,
            **{name: getattr(info, name) for name in STATES},
            "in/s": None if info.append_rate is None else round(info.append_rate),
            "out/s": None if info.handle_rate is None else round(info.handle_rate),
            "handled": info.totals["handled"],
        }
        for info in infos
    ]
    zeros = [f"{name}, " for name in ("paused", "dead") if not any(getattr(info, name) for info in infos)]
    order = "handled, in/s, out/s, groups, leased, waiting, paused, dead, due, lag, parked, backlog"
    return table(marked(rows, at), "".join(zeros) + order)


@queue_command(app)
def groups(
    client: Sequencer,
    state: Annotated[GroupState | None, Option(help="Only groups in this state.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = None,
) -> Answer:
    """Groups with state, backlog and head, the longest due first."""
    found = client.groups(state, limit=limit, after=after)
    nothing = "no such groups" if state else "no groups: the queue is empty"
    return Answer(found, group_table(found) or nothing, cut(found, limit))


def group_table(infos: Sequence[GroupInfo], at: int | None = None) -> str:
    """A narrow terminal shows group and head in any case."""
    rows = [
        {
            "group": named(info.group),
            "state": info.state,
            "backlog": info.backlog,
            "head": "" if info.head_id is None else quoted(info.head_id),
            "age": info.lag_s,
            "attempts": info.attempts,
            "due in": info.due_in_s,
            "owner / failure": error_words(info.failure)[:100] if info.failure else info.owner or "",
        }
        for info in infos
    ]
    return table(marked(rows, at), "due in, attempts, age, owner / failure, backlog, state", cut="owner / failure")


@queue_command(app)
def parked(
    client: Sequencer, by_error: ByErrorOption = False, limit: LimitOption = 100, after: AfterOption = None
) -> Answer:
    """Parked groups, and the errors of their heads."""
    nothing = "no parked groups"
    if by_error:
        errors = _errors(client.parked())
        shown = error_table(errors, "groups") or nothing
        return Answer(dict(errors.most_common()), shown, *_resuming(client, errors, errors.total()))
    found = client.groups("parked", limit=limit, after=after)
    resuming = _resuming(client, _errors(found), client.snapshot().parked)
    return Answer(found, group_table(found) or nothing, cut(found, limit), *resuming)


def _errors(groups: Iterable[GroupInfo]) -> Counter[str]:
    """How many are parked by each error."""
    return Counter(one.failure.type if one.failure else GAP for one in groups)


def _resuming(client: Sequencer, errors: Counter[str], count: int) -> list[str]:
    """The commands that resume all `count` of them, or all of one error; nothing for a single group."""
    names = sorted(errors.keys() - UNRESUMED)
    said = [text_of(client, "resume_all")] if names and count > 1 else []
    return said + [text_of(client, "resume_error", error=name) for name in names if len(errors) > 1]


@queue_command(app)
def consumers(client: Sequencer) -> Answer:
    """Consumers that have groups in progress, and what each holds longest.

    A consumer that waits for work is only among the connections.
    """
    found = client.consumers()
    rows = [
        {"consumer": one.owner, "groups": one.groups, "longest": named(one.group), "held": one.held_s}
        for one in found.working
    ]
    about = {"working": len(rows), "connections": found.connections}
    return Answer(found, table(rows, "groups"), text_of(client, "consumers", **about))


@queue_command(app)
def peek(client: Sequencer, group: GroupArgument, limit: LimitOption = 10) -> Answer:
    """The next messages of one group, in order."""
    found = client.peek(group, limit=limit)
    return Answer(found, _message_table(found) or f"group {named(group)} has no messages")


def _message_table(messages: list[Message]) -> str:
    """A narrow terminal shows the id in any case."""
    rows = [
        {
            "id": quoted(message.id),
            "score": number(message.score),
            "attempts": message.attempt - 1,
            "appended": number(message.appended_at),
            "body": (message.body if isinstance(message.body, str) else orjson.dumps(message.body).decode())[:200],
        }
        for message in messages
    ]
    return table(rows, "appended, attempts, score, body", cut="body")


@queue_command(app)
def explain(client: Sequencer, group: GroupArgument) -> Answer:
    """Why a group does not move, and what would move it."""
    found = client.explain(group)
    tried = found.log if len(found.log) > 1 else ()  # of a single one, the sentence already has it
    lines = [found.text, *[f"{name} failed at {said}" for name, said in log_fields(tried).items()]]
    return Answer(found, *map(plain, lines))
