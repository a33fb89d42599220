"""Commands for one message, by its group and id: get, rerun, cancel and reschedule."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import orjson
from typer import Option

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.words import named, plain, quoted
from ..values.history import MessageInfo
from .app import DURATION, GroupArgument, IdOption, app, queue_command
from .output import Answer
from .table import cell, number, when, with_failure


def _number(text: str) -> int | float:
    """An int where it is one: above 2**53 a float would be another number. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _time(text: str) -> int | float | datetime:
    """Raises ValueError."""
    with suppress(ValueError):
        return _number(text)
    return datetime.fromisoformat(text)


@queue_command(app)
def get(client: Sequencer, group: GroupArgument, id: IdOption) -> Answer:
    """One message: its state, attempts, error and content.

    States: due; behind (due, but not the head of its group); leased; delayed; waiting (its group backs off, or waits
    for a number or a window); paused; parked; dead; handled (its id is remembered for the dedup window, without
    content: handled, dropped, skipped or purged). If the queue keeps a history, the outcome: finished, failed
    (finished, but optional steps failed), skipped, dropped, cancelled, replaced, purged, swept; with --history-bodies
    of `configure` also its content.
    """
    found = client.get(group, id)
    if found is None:
        raise MessageNotFound("message_unknown", id=id, group=tuple(group), queue=client.queue)
    return Answer(found, message_text(found))


def message_text(info: MessageInfo, **more: Any) -> str:
    """As text, one field per line."""
    message, is_known = info.message, info.state != "handled"  # of that nobody knows how it ended
    said: dict[str, Any] = {
        "id": quoted(info.id),
        "group": named(info.group),
        "state": info.state,
        "status": info.status if is_known else None,
        "due in": info.due_in_s,
        "appended": when(info.appended_at),
        "began": when(info.began_at),
        "ended": when(info.finished_at),
        "took": took(info),
        "attempts": info.attempts if is_known else None,
        "consumer": info.consumer,
        "kind": info.kind,
        "note": info.note,
    }
    if message:
        said |= {"score": number(message.score), "body": orjson.dumps(message.body).decode()}
        said |= {"headers": orjson.dumps(message.headers).decode() if message.headers else None}
        said |= {"marks": ", ".join(name for name in ("late", "redriven") if getattr(message, name))}
    said |= {"rerun of": info.rerun_of, "rerun as": info.rerun_as}
    if info.steps:
        said |= {"steps": info.steps.said}
        said |= {f"result of {name}": orjson.dumps(result).decode() for name, result in info.steps.results.items()}
    return with_failure(said | more, info.error)


def took(info: MessageInfo) -> float | None:
    ended, began = info.finished_at, info.began_at
    return None if ended is None or began is None else ended - began


@queue_command(app)
def rerun(
    client: Sequencer,
    group: GroupArgument,
    id: IdOption,
    keep_steps: Annotated[
        bool, Option("--keep-steps", help="Keep the steps that are done; otherwise all steps run again.")
    ] = False,
) -> Answer:
    """Append an ended message again, under a new id.

    It keeps its body and score; e3 becomes e3~2. The queue must keep contents: `configure QUEUE --history-window 3d
    --history-bodies`. The score decides its place. All steps run again, including `once` steps that took effect.
    Repeating the command adds nothing; for another run, rerun the new id.
    """
    done = client.rerun(group, id, keep_steps=keep_steps)
    said, new = f"{plain(id)} of group {named(group)}", plain(done.id)
    text = f"{said} was already rerun as {new}; for another run, rerun that" if done.duplicate else None
    value = {"group": group, "id": id, "rerun_as": done.id, "duplicate": done.duplicate}
    return Answer(value, text or f"rerun {said} as {new}")


@queue_command(app)
def cancel(client: Sequencer, group: GroupArgument, id: IdOption) -> Answer:
    """Remove a pending message, so that it is not handled.

    Refused while a consumer has it in progress. Once that consumer's lease has expired, the message is removed, even
    though its handler may have started: see `skip`.
    """
    client.cancel(group, id)
    return Answer({"group": group, "id": id, "cancelled": True}, f"cancelled {plain(id)} of group {named(group)}")


@queue_command(app)
def reschedule(
    client: Sequencer,
    group: GroupArgument,
    id: IdOption,
    delay: Annotated[float | None, Option(help="How long from now: 90, 10m, 2h.", **DURATION)] = None,
    at: Annotated[
        Any,
        Option(
            parser=_time,
            metavar="TIME",
            help="Seconds since 1970, or ISO 8601 with a time zone: 2030-01-31T09:00:00+01:00",
        ),
    ] = None,
    score: Annotated[
        Any,
        Option(
            parser=_number,
            metavar="NUMBER",
            help="New score. Default: the new time if the score was the old time, else unchanged.",
        ),
    ] = None,
) -> Answer:
    """Change the time or score of a pending message.

    It gets fresh attempts. Refused while a consumer has it in progress.
    """
    client.reschedule(group, id, delay=delay, at=at, score=score)
    found = client.get(group, id)
    due_in_s = found.due_in_s if found else None
    said = f"rescheduled {plain(id)} of group {named(group)}, due in {cell(due_in_s)}"
    return Answer({"group": group, "id": id, "due_in_s": due_in_s}, said)
